package pgtest

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	envDSN = "TREX_POSTGRESQL_TEST_DSN"
	// namePrefix begins the name of every database and role made here; the run's number and a serial number
	// follow.
	namePrefix = "fencerow_test_"
	// adminTimeout bounds each administrative step, the copy of a template included.
	adminTimeout = 2 * time.Minute
)

// server is a place to make databases and roles in.
type server struct {
	dsn string // of the maintenance database
	run int64  // random; tells this test binary's names from others'
	// lease is a session that holds an advisory lock on run for as long as the test binary lives.
	lease  *pgx.Conn
	serial atomic.Int64
	// process is kept for its input, whose end, were it collected as garbage, would end the server; nil where
	// the environment named the server.
	process *process
}

// shared returns the server that all tests of this binary share.
var shared = sync.OnceValues(func() (*server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	if dsn := os.Getenv(envDSN); dsn != "" {
		return openServer(ctx, dsn)
	}
	process, err := startProcess("shared", nil, "")
	if err != nil {
		return nil, err
	}
	s, err := openServer(ctx, process.dsn)
	if err != nil {
		return nil, errors.Join(err, process.close())
	}
	s.process = process
	return s, nil
})

// sharedServer fails the test where no server can be had.
func sharedServer(t testing.TB) *server {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return s
}

// openServer takes up a server and drops what dead test binaries left on it.
func openServer(ctx context.Context, dsn string) (*server, error) {
	lease, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, fmt.Errorf("connect to the test server: %w", err)
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	s := &server{dsn: dsn, run: int64(binary.BigEndian.Uint64(random[:]) >> 1), lease: lease}
	if _, err := lease.Exec(ctx, "SELECT pg_advisory_lock($1)", s.run); err != nil {
		return nil, errors.Join(err, lease.Close(ctx))
	}
	if err := s.sweep(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("drop what dead runs left: %w", err), lease.Close(ctx))
	}
	return s, nil
}

// newName returns a name for a database or role that no other run and no earlier call has.
func (s *server) newName() string {
	return fmt.Sprintf("%s%016x_%d", namePrefix, s.run, s.serial.Add(1))
}

// exec runs statements one after the other on a connection of its own to the maintenance database.
func (s *server) exec(statements ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.dsn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // the statements' own errors tell
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

func quote(name string) string {
	return pgx.Identifier{name}.Sanitize()
}

func quoteLiteral(value string) string {
	return "'" + strings.ReplaceAll(value, "'", "''") + "'"
}
