// Package e2e holds end-to-end tests: the real programs, built with the race detector, on a real PostgreSQL,
// with the stub ledger on a socket.
//
// Sizes are those that a machine with two cores can do in about a minute a test. FENCEROW_E2E_SCALE=1 gives
// every test its full size, 0.1 a tenth of it.
package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
	"github.com/fourblocks2020/fencerow/internal/migrate"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

const (
	// patience bounds every wait for something that comes much sooner.
	patience = 60 * time.Second
	// glance is how often a condition is looked at again.
	glance = 10 * time.Millisecond
	// cliPatience bounds one command.
	cliPatience = 5 * time.Minute
)

// programs is the directory that holds fencerow and fencerowd, built for these tests.
var programs string

func TestMain(m *testing.M) {
	os.Exit(runWithPrograms(m))
}

func runWithPrograms(m *testing.M) int {
	directory, err := os.MkdirTemp("", "fencerow-e2e-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(directory) //nolint:errcheck // a temporary directory
	programs = directory
	build := exec.Command("go", "build", "-race", "-o", directory, "./cmd/fencerow", "./cmd/fencerowd")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		panic("build: " + string(out))
	}
	return m.Run()
}

// size returns how many of something a test uses: full is what the test stands for, usual what it does when
// nothing is said.
func size(t testing.TB, full, usual int) int {
	t.Helper()
	if text := os.Getenv("FENCEROW_E2E_SCALE"); text != "" {
		scale, err := strconv.ParseFloat(text, 64)
		if err != nil || scale <= 0 {
			t.Fatalf("FENCEROW_E2E_SCALE is not a positive number")
		}
		return max(1, int(float64(full)*scale))
	}
	if testing.Short() {
		return max(1, usual/10)
	}
	return usual
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// until returns once is holds, and fails the test when it does not within the time given.
func until(t testing.TB, within time.Duration, what string, is func() bool) {
	t.Helper()
	again := time.NewTicker(glance)
	defer again.Stop()
	for late := time.After(within); !is(); {
		select {
		case <-again.C:
		case <-late:
			t.Fatalf("%s did not come within %s", what, within)
		}
	}
}

var schema = pgtest.NewTemplate(func(ctx context.Context, dsn string) error {
	_, err := migrate.Up(ctx, dsn)
	return err
})

// world is a database, a ledger on a socket, and the means to run the programs between them.
type world struct {
	t         *testing.T
	db        *pgtest.Database
	pool      *pgxpool.Pool
	stub      *ledgerstub.Stub
	ledgerURL string // where entries are posted
	// settings are given to each program, without their prefix FENCEROW_. A setting of a single program wins.
	settings map[string]string
	// build is where the programs are, if they are not those of today.
	build string
}

// program is the path of a program.
func (w *world) program(name string) string { return filepath.Join(cmp.Or(w.build, programs), name) }

// newWorld returns a world whose database has the newest schema.
func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOn(t, pgtest.NewDatabase(t, schema))
}

func newWorldOn(t *testing.T, db *pgtest.Database) *world {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), db.DSN())
	check(t, err)
	t.Cleanup(pool.Close)
	w := &world{t: t, db: db, pool: pool, stub: ledgerstub.New(ledgerstub.Options{})}
	w.ledgerURL = serve(t, w.stub)
	w.settings = map[string]string{
		"DSN": db.DSN(), "LEDGER_URL": w.ledgerURL, "LOG_FORMAT": "json", "LEDGER_INTERVAL_SEC": "0.1",
	}
	return w
}

// serve serves the ledger on a socket until the test ends, and returns where entries are posted.
func serve(t *testing.T, stub *ledgerstub.Stub) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	return serveOn(t, stub, listener)
}

// serveOn is serve on a listener that the test has made, such as one at the address of a ledger that was
// down.
func serveOn(t *testing.T, stub *ledgerstub.Stub, listener net.Listener) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- stub.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("stub ledger: %v", err)
		}
	})
	return "http://" + listener.Addr().String() + ledgerstub.EntriesPath
}

// environment is the whole environment of one program.
func (w *world) environment(instance string, settings map[string]string) []string {
	all := maps.Clone(w.settings)
	all["INSTANCE_KEY"] = instance
	maps.Copy(all, settings)
	// The race detector has each program wait for a second at its end, for races to come.
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.t.TempDir(), "GORACE=atexit_sleep_ms=10"}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name] != "" {
			env = append(env, "FENCEROW_"+name+"="+all[name])
		}
	}
	return env
}

// result is what a command came to.
type result struct {
	status         int
	stdout, stderr string
}

// document reads the standard output of a command as one JSON document.
func document[T any](t testing.TB, r result) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(r.stdout), &v); err != nil {
		t.Fatalf("standard output is no such document: %v\n%s\nstandard error: %s", err, r.stdout, r.stderr)
	}
	return v
}

// run runs fencerow for an instance; an empty one gives it no instance key.
func (w *world) run(instance string, args ...string) result {
	w.t.Helper()
	return w.runWith(instance, nil, nil, args...)
}

// runWith is run with settings of its own, of which an empty one takes the world's away, and standard
// input.
func (w *world) runWith(instance string, settings map[string]string, stdin io.Reader, args ...string) result {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), cliPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.program("fencerow"), args...)
	cmd.Env = w.environment(instance, settings)
	cmd.Stdin = stdin
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		w.t.Fatalf("fencerow %s: %v", strings.Join(args, " "), err)
	}
	r := result{status: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String()}
	if strings.Contains(r.stderr, "DATA RACE") || r.status < 0 {
		w.t.Fatalf("fencerow %s: status %d\n%s", strings.Join(args, " "), r.status, r.stderr)
	}
	return r
}

// mustRun is run of a command that must end with status 0.
func (w *world) mustRun(instance string, args ...string) result {
	w.t.Helper()
	r := w.run(instance, args...)
	if r.status != 0 {
		w.t.Fatalf("fencerow %s: status %d\n%s%s", strings.Join(args, " "), r.status, r.stdout, r.stderr)
	}
	return r
}

// enqueueLines enqueues entries, one JSON object a line, with `fencerow enqueue -`; each must be new.
func (w *world) enqueueLines(instance string, lines []byte) {
	w.t.Helper()
	r := w.runWith(instance, nil, bytes.NewReader(lines), "enqueue", "--json", "-")
	if r.status != 0 {
		w.t.Fatalf("enqueue: status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	type counts struct{ Inserted, Duplicate, Conflict int }
	equal(w.t, "enqueued", document[counts](w.t, r), counts{Inserted: bytes.Count(lines, []byte("\n"))})
}

// one returns the only value of a query.
func one[T any](w *world, query string, args ...any) T {
	w.t.Helper()
	rows, err := w.pool.Query(w.t.Context(), query, args...)
	check(w.t, err)
	v, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	check(w.t, err)
	return v
}

// column returns the values of a query of one column.
func column[T any](w *world, query string, args ...any) []T {
	w.t.Helper()
	rows, err := w.pool.Query(w.t.Context(), query, args...)
	check(w.t, err)
	v, err := pgx.CollectRows(rows, pgx.RowTo[T])
	check(w.t, err)
	return v
}

// pendingOf is how many entries of an instance are not finished.
func (w *world) pendingOf(instance string) int {
	w.t.Helper()
	return one[int](w, `SELECT count(*) FROM fencerow.ledger_pending WHERE instance_key = $1`, instance)
}

// awaitDrained returns when an instance has no unfinished entry.
func (w *world) awaitDrained(within time.Duration, instance string) {
	w.t.Helper()
	until(w.t, within, "an empty outbox of "+instance, func() bool { return w.pendingOf(instance) == 0 })
}
