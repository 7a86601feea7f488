package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
	"github.com/fourblocks2020/fencerow/internal/migrate"
	"github.com/fourblocks2020/fencerow/internal/pgstore"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

var update = flag.Bool("update", false, "write the golden files")

// binary is the command as it is shipped, built once.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.fuzzworker").Value.String() == "true" {
		os.Exit(m.Run()) // it runs no command, and building one would come off the time of fuzzing
	}
	dir, err := os.MkdirTemp("", "fencerow-test-")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "fencerow")
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		panic(err)
	}
	status := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		panic(err)
	}
	os.Exit(status)
}

const desk = "desk-1"

var schema = pgtest.NewTemplate(func(ctx context.Context, dsn string) error {
	_, err := migrate.Up(ctx, dsn)
	return err
})

// command runs the binary with settings of its own: nothing of the test's environment but what a process
// needs.
type command struct {
	env   []string
	stdin string
	pipe  *os.File // standard input instead of stdin
}

// at returns a command on a database, for an instance.
func at(dsn string, instance string) command {
	return command{env: []string{"FENCEROW_DSN=" + dsn, "FENCEROW_INSTANCE_KEY=" + instance}}
}

func (c command) with(settings ...string) command {
	c.env = append(append([]string{}, c.env...), settings...)
	return c
}

func (c command) reading(stdin string) command {
	c.stdin = stdin
	return c
}

type result struct {
	status         int
	stdout, stderr string
}

// runLimit bounds a run of the binary.
const runLimit = 2 * time.Minute

func (c command) start(t testing.TB, args ...string) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), runLimit)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append([]string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}, c.env...)
	cmd.Stdin = strings.NewReader(c.stdin)
	if c.pipe != nil {
		cmd.Stdin = c.pipe
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, &stdout, &stderr
}

func (c command) run(t testing.TB, args ...string) result {
	t.Helper()
	cmd, stdout, stderr := c.start(t, args...)
	err := cmd.Wait()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// want runs the binary and fails the test unless it ends with the status.
func (c command) want(t testing.TB, status int, args ...string) result {
	t.Helper()
	r := c.run(t, args...)
	if r.status != status {
		t.Fatalf("fencerow %s: status %d, want %d\nstdout: %s\nstderr: %s",
			strings.Join(args, " "), r.status, status, r.stdout, r.stderr)
	}
	return r
}

// document runs the binary with --json and reads its document.
func document[T any](t testing.TB, c command, status int, args ...string) T {
	t.Helper()
	r := c.want(t, status, append([]string{"--json"}, args...)...)
	var doc T
	d := json.NewDecoder(strings.NewReader(r.stdout))
	d.DisallowUnknownFields()
	if err := d.Decode(&doc); err != nil {
		t.Fatalf("fencerow %s prints %q: %v", strings.Join(args, " "), r.stdout, err)
	}
	if d.More() || strings.Count(r.stdout, "\n") != 1 {
		t.Errorf("fencerow %s prints more than one line of JSON: %q", strings.Join(args, " "), r.stdout)
	}
	return doc
}

func mustContain(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in %q", part, text)
		}
	}
}

// golden compares with a file of testdata, or writes it with -update.
func golden(t testing.TB, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; if that is meant, run go test -update. Got:\n%s", path, got)
	}
}

// line is an entry's line.
func line(id string) string {
	return fmt.Sprintf(`{"correlation_id":%q,"entry_kind":"fill","slot_id":"slot-1","cash_delta":"-12.50",`+
		`"currency":"EUR","payload":{"id":%q}}`, id, id) + "\n"
}

func enqueue(t testing.TB, c command, ids ...string) {
	t.Helper()
	var lines strings.Builder
	for _, id := range ids {
		lines.WriteString(line(id))
	}
	c.reading(lines.String()).want(t, 0, "enqueue", "-")
}

// startStub serves a stub ledger and returns its address for entries.
func startStub(t testing.TB) (*ledgerstub.Stub, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stub := ledgerstub.New(ledgerstub.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- stub.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("the stub ledger: %v", err)
		}
	})
	return stub, "http://" + listener.Addr().String() + ledgerstub.EntriesPath
}

func addRule(t testing.TB, stub *ledgerstub.Stub, rule ledgerstub.Rule) {
	t.Helper()
	if _, err := stub.AddRule(rule); err != nil {
		t.Fatal(err)
	}
}

func status(code int) ledgerstub.Fault {
	return ledgerstub.Fault{Mode: ledgerstub.ModeStatus, Status: code}
}

func openTestStore(t testing.TB, dsn string) *pgstore.Store {
	t.Helper()
	store, err := pgstore.Open(pgstore.Config{DSN: fencerow.NewSecret(dsn), MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

// withLegacy returns a database with rows from before ownership, brought up to now.
func withLegacy(t testing.TB, insert ...string) *pgtest.Database {
	t.Helper()
	db := pgtest.NewDatabase(t, schema)
	if _, err := migrate.DownTo(t.Context(), db.DSN(), 1); err != nil {
		t.Fatal(err)
	}
	for _, statement := range insert {
		db.Exec(t, statement)
	}
	if _, err := migrate.Up(t.Context(), db.DSN()); err != nil {
		t.Fatal(err)
	}
	return db
}

const insertLegacy = "INSERT INTO fencerow.ledger_outbox " +
	"(correlation_id, entry_kind, slot_id, cash_delta, currency, payload) VALUES "

func writeFile(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// freePort returns a port that nobody listens on just now.
func freePort(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() // for somebody else to take
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
