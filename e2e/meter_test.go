package e2e

import (
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

// meter stands between a client and PostgreSQL and counts what the client asks.
type meter struct {
	dsn      string // leads through it
	network  string // of the server
	address  string
	listener net.Listener
	wait     sync.WaitGroup

	roundTrips, statements, prepared, connections atomic.Int64
}

// traffic is what a meter has counted.
type traffic struct {
	// RoundTrips are the requests after which a client waits for the server.
	RoundTrips int64
	// Statements are executions.
	Statements int64
	// Prepared are statements that were parsed, Connections those that were opened.
	Prepared, Connections int64
}

func (x traffic) since(y traffic) traffic {
	return traffic{
		x.RoundTrips - y.RoundTrips, x.Statements - y.Statements, x.Prepared - y.Prepared,
		x.Connections - y.Connections,
	}
}

func newMeter(t *testing.T, db *pgtest.Database) *meter {
	t.Helper()
	server, err := pgx.ParseConfig(db.DSN())
	check(t, err)
	m := &meter{network: "tcp", address: net.JoinHostPort(server.Host, strconv.Itoa(int(server.Port)))}
	if strings.HasPrefix(server.Host, "/") {
		m.network = "unix"
		m.address = filepath.Join(server.Host, ".s.PGSQL."+strconv.Itoa(int(server.Port)))
	}
	m.listener, err = net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	// What is encrypted cannot be counted.
	m.dsn = db.DSN(pgtest.Via(m.listener.Addr().String()), pgtest.With("sslmode", "disable"))
	m.wait.Go(m.accept)
	t.Cleanup(func() {
		check(t, m.listener.Close())
		m.wait.Wait()
	})
	return m
}

func (m *meter) read() traffic {
	return traffic{m.roundTrips.Load(), m.statements.Load(), m.prepared.Load(), m.connections.Load()}
}

func (m *meter) accept() {
	for {
		client, err := m.listener.Accept()
		if err != nil {
			return // closed
		}
		m.connections.Add(1)
		m.wait.Go(func() { m.relay(client) })
	}
}

// relay ends when either side does.
func (m *meter) relay(client net.Conn) {
	defer client.Close() // closed twice, once for each direction
	server, err := net.Dial(m.network, m.address)
	if err != nil {
		return
	}
	defer server.Close()
	m.wait.Go(func() {
		_, _ = io.Copy(client, server) // its end is the end of the connection
		_ = client.Close()
	})
	_, _ = io.Copy(server, io.TeeReader(client, &frames{count: m.count}))
}

// count takes one message of the client.
func (m *meter) count(kind byte) {
	switch kind {
	case 'S': // Sync
		m.roundTrips.Add(1)
	case 'Q': // a simple query
		m.roundTrips.Add(1)
		m.statements.Add(1)
	case 'E': // Execute
		m.statements.Add(1)
	case 'P': // Parse
		m.prepared.Add(1)
	}
}

// frames cuts what a client writes into messages: a type and a length that counts itself, but for the first
// message, which has no type.
type frames struct {
	count   func(kind byte)
	started bool
	header  []byte
	left    int // of the message's body
}

func (f *frames) Write(chunk []byte) (int, error) {
	written := len(chunk)
	for len(chunk) > 0 {
		if f.left > 0 {
			n := min(f.left, len(chunk))
			f.left, chunk = f.left-n, chunk[n:]
			continue
		}
		f.header, chunk = append(f.header, chunk[0]), chunk[1:]
		typed := 0
		if f.started {
			typed = 1
		}
		if len(f.header) < typed+4 {
			continue
		}
		f.left = int(binary.BigEndian.Uint32(f.header[typed:])) - 4
		if f.started {
			f.count(f.header[0])
		}
		f.started, f.header = true, f.header[:0]
	}
	return written, nil
}
