package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/daemon"
	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
	"github.com/fourblocks2020/fencerow/internal/migrate"
	"github.com/fourblocks2020/fencerow/internal/pgstore"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

const (
	self fencerow.InstanceKey = "instance-a"
	// sentinel stands for everything that must never be shown.
	sentinel = "s3cr3t-sentinel"
	// patience bounds every wait; what is waited for comes much sooner.
	patience = 30 * time.Second
)

// binary is the daemon, built for these tests.
var binary string

func TestMain(m *testing.M) {
	directory, err := os.MkdirTemp("", "fencerowd-test-")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(directory, "fencerowd")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		panic("build: " + string(out))
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		_ = os.RemoveAll(directory)
		os.Exit(status)
	}))
}

var schema = pgtest.NewTemplate(func(ctx context.Context, dsn string) error {
	_, err := migrate.Up(ctx, dsn)
	return err
})

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

// process is a running fencerowd.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout bytes.Buffer
	ended  chan struct{} // closed when it has ended and all it wrote was read

	mu      sync.Mutex
	changed chan struct{} // closed and replaced with each line
	lines   []string
}

// start runs the binary with these settings and no others.
func start(t *testing.T, settings map[string]string, args ...string) *process {
	t.Helper()
	p := &process{t: t, ended: make(chan struct{}), changed: make(chan struct{})}
	p.cmd = exec.Command(binary, args...)
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	for name, value := range settings {
		p.cmd.Env = append(p.cmd.Env, "FENCEROW_"+name+"="+value)
	}
	p.cmd.Stdout = &p.stdout
	stderr, err := p.cmd.StderrPipe()
	check(t, err)
	check(t, p.cmd.Start())
	go func() {
		defer close(p.ended)
		for scanner := bufio.NewScanner(stderr); scanner.Scan(); {
			p.add(scanner.Text())
		}
		_ = p.cmd.Wait() // the status is read from its state
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it has most likely ended
		<-p.ended
		if t.Failed() {
			t.Logf("stderr:\n%s", p.stderr())
		}
	})
	return p
}

func (p *process) add(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, line)
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *process) stderr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// event is one record of the log.
type event struct {
	Level          string   `json:"level"`
	Msg            string   `json:"msg"`
	Reason         string   `json:"reason"`
	ExcType        string   `json:"exc_type"`
	Outcome        string   `json:"outcome"`
	Count          int      `json:"count"`
	OpsListen      string   `json:"ops_listen"`
	CorrelationIDs []string `json:"correlation_ids"`
}

// events returns the records named msg so far.
func (p *process) events(msg string) []event {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []event
	for _, line := range p.lines {
		var e event
		if json.Unmarshal([]byte(line), &e) == nil && e.Msg == msg {
			found = append(found, e)
		}
	}
	return found
}

// await returns when the log so far is as it should be.
func (p *process) await(what string, is func() bool) {
	p.t.Helper()
	late := time.After(patience)
	for {
		p.mu.Lock()
		changed := p.changed
		p.mu.Unlock()
		if is() {
			return
		}
		select {
		case <-changed:
		case <-p.ended:
			if is() {
				return
			}
			p.t.Fatalf("it ended before %s:\n%s", what, p.stderr())
		case <-late:
			p.t.Fatalf("%s did not come:\n%s", what, p.stderr())
		}
	}
}

func (p *process) awaitEvents(msg string, n int) {
	p.t.Helper()
	p.await(fmt.Sprintf("event %d of %q", n, msg), func() bool { return len(p.events(msg)) >= n })
}

// completed is how many entries were completed so far.
func (p *process) completed() int {
	sum := 0
	for _, e := range p.events("outcome recorded") {
		if e.Outcome == string(fencerow.OutcomeCompleted) {
			sum += e.Count
		}
	}
	return sum
}

func (p *process) awaitCompleted(n int) {
	p.t.Helper()
	p.await(fmt.Sprintf("completion of entry %d", n), func() bool { return p.completed() >= n })
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	check(p.t, p.cmd.Process.Signal(s))
}

// wait returns the exit status; -1 if a signal ended it.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatal("it does not end")
	}
	equal(p.t, "standard output", p.stdout.String(), "")
	return p.cmd.ProcessState.ExitCode()
}

// stop ends it in order.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	equal(p.t, "status", p.wait(), 0)
}

// client asks the daemon at the address that it logged.
func (p *process) client(token string) *daemon.Client {
	p.t.Helper()
	p.awaitEvents("started", 1)
	c, err := daemon.NewClient("http://"+p.events("started")[0].OpsListen, fencerow.NewSecret(token))
	check(p.t, err)
	return c
}

// scene is a database, a ledger, and the settings of a daemon between them.
type scene struct {
	t        *testing.T
	store    *pgstore.Store
	stub     *ledgerstub.Stub
	settings map[string]string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	return newSceneOn(t, pgtest.NewDatabase(t, schema))
}

func newSceneOn(t *testing.T, db *pgtest.Database) *scene {
	t.Helper()
	store, err := pgstore.Open(pgstore.Config{DSN: fencerow.NewSecret(db.DSN())})
	check(t, err)
	t.Cleanup(store.Close)
	s := &scene{t: t, store: store, stub: ledgerstub.New(ledgerstub.Options{})}
	s.settings = map[string]string{
		"DSN": db.DSN(), "INSTANCE_KEY": string(self), "LEDGER_URL": serveStub(t, s.stub), "LOG_FORMAT": "json",
		"LEDGER_INTERVAL_SEC": "0.05", "OPS_LISTEN": "127.0.0.1:0", "GRACE": "5s",
	}
	return s
}

// serveStub serves the ledger on a socket until the test ends, and returns where entries are posted.
func serveStub(t *testing.T, stub *ledgerstub.Stub) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
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

func (s *scene) rule(r ledgerstub.Rule) {
	s.t.Helper()
	_, err := s.stub.AddRule(r)
	check(s.t, err)
}

func (s *scene) start() *process { return start(s.t, s.settings) }

// enqueue adds n entries of the instance, named prefix-0 and so on.
func (s *scene) enqueue(instance fencerow.InstanceKey, prefix string, n int) {
	s.t.Helper()
	entries := make([]fencerow.NewEntry, n)
	for i := range entries {
		entries[i] = fencerow.NewEntry{
			CorrelationID: fencerow.CorrelationID(fmt.Sprintf("%s-%d", prefix, i)), EntryKind: "fill",
			Payload: json.RawMessage(`{"note":"` + sentinel + `"}`),
		}
	}
	for chunk := range slices.Chunk(entries, fencerow.MaxEnqueue) {
		_, err := s.store.EnqueueMany(context.Background(), fencerow.EnqueueParams{Instance: instance,
			Entries: chunk})
		check(s.t, err)
	}
}

// atRest fails the test unless nothing is leased and no pending row has used up an attempt; it returns how
// many are pending.
func (s *scene) atRest() int {
	s.t.Helper()
	ctx := context.Background()
	claims, err := s.store.Claims(ctx, self)
	check(s.t, err)
	equal(s.t, "claims left", len(claims), 0)
	rows, err := s.store.ListPending(ctx, fencerow.ListPendingParams{Instance: self, Limit: fencerow.MaxPage})
	check(s.t, err)
	for _, row := range rows {
		equal(s.t, "attempts of "+string(row.CorrelationID), row.Attempts, 0)
	}
	return len(rows)
}
