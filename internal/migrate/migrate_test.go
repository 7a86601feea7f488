package migrate

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
	"github.com/fourblocks2020/fencerow/sql/schema"
)

var update = flag.Bool("update", false, "write sql/schema.golden.sql and sql/schema/history.sha256 anew")

// envUp makes a run of this test binary a process that migrates the named database up, and does nothing else.
const envUp = "FENCEROW_MIGRATE_TEST_UP"

func TestMain(m *testing.M) {
	if dsn := os.Getenv(envUp); dsn != "" {
		change, err := Up(context.Background(), dsn)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Fprintf(os.Stdout, "%d %d\n", change.From, change.To)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// runnerFor returns a runner as the exported functions make it.
func runnerFor(t *testing.T, dsn string) *runner {
	t.Helper()
	r, err := newRunner(dsn)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// newRunnerOn returns a runner for an empty database.
func newRunnerOn(t *testing.T) (*runner, *pgtest.Database) {
	t.Helper()
	db := pgtest.NewDatabase(t, nil)
	return runnerFor(t, db.DSN()), db
}

func mustUp(t *testing.T, r *runner, want Change) {
	t.Helper()
	change, err := r.up(t.Context())
	if err != nil || change != want {
		t.Fatalf("up: %+v, %v; want %+v", change, err, want)
	}
}

func mustTo(t *testing.T, r *runner, version int) {
	t.Helper()
	if err := r.to(t.Context(), version); err != nil {
		t.Fatalf("to %d: %v", version, err)
	}
}

func mustDump(t *testing.T, r *runner) string {
	t.Helper()
	dump, err := r.dump(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return dump
}

func mustLines(t *testing.T, r *runner, query string) []string {
	t.Helper()
	lines, err := r.lines(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// mustMatch compares the database's schema with a dump.
func mustMatch(t *testing.T, r *runner, want string) {
	t.Helper()
	if have := mustDump(t, r); have != want {
		line, _ := firstDifference(want, have)
		t.Fatalf("the schema differs at line %d\nwant: %s\nhave: %s", line, lineOf(want, line), lineOf(have, line))
	}
}

func lineOf(text string, line int) string {
	if lines := strings.Split(text, "\n"); line <= len(lines) {
		return lines[line-1]
	}
	return ""
}

// mustFail fails where err is not an Error of this code, migration and SQLSTATE, or where a SQLSTATE comes
// without a hint.
func mustFail(t *testing.T, err error, code fencerow.Code, migration int, state string) {
	t.Helper()
	failure, ok := errors.AsType[*Error](err)
	if !ok || failure.Code() != code || failure.Migration != migration || failure.SQLState != state {
		t.Fatalf("failed with: %v; want %s, migration %d, SQLSTATE %q", err, code, migration, state)
	}
	if failure.Hint == "" && code != fencerow.ErrMigrationFailed {
		t.Errorf("%v comes without a hint", err)
	}
}

// mustBeAt fails where the database is not at version.
func mustBeAt(t *testing.T, dsn string, version int) {
	t.Helper()
	if status, err := ReadStatus(t.Context(), dsn); err != nil || status.Current != version {
		t.Errorf("status: %+v, %v; want version %d", status, err, version)
	}
}

// begin opens a transaction with the statements.
func begin(t *testing.T, db *pgtest.Database, statements string) *pgx.Conn {
	t.Helper()
	conn := db.Connect(t)
	run(t, conn, "BEGIN; "+statements)
	return conn
}

func run(t *testing.T, conn *pgx.Conn, statements string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statements); err != nil {
		t.Fatalf("%s: %v", statements, err)
	}
}

// one returns the one value that query gives.
func one[T any](t *testing.T, conn *pgx.Conn, query string, args ...any) (value T) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), query, args...).Scan(&value); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}

// latest is the newest version of the embedded history.
func latest(t *testing.T) int {
	t.Helper()
	steps, err := listSteps(schema.Files)
	if err != nil {
		t.Fatal(err)
	}
	return len(steps)
}

// withFiles returns a copy of the embedded files, to be changed.
func withFiles(t *testing.T) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	names, err := fs.Glob(schema.Files, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		body, err := fs.ReadFile(schema.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = &fstest.MapFile{Data: body}
	}
	return files
}

// await asks until query answers true. The condition is another session's state, which nothing announces.
func await(t *testing.T, conn *pgx.Conn, query string, args ...any) {
	t.Helper()
	for t.Context().Err() == nil {
		if one[bool](t, conn, query, args...) {
			return
		}
	}
	t.Fatal("the test ended before the condition came true")
}
