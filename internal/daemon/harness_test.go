package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/memstore"
	"github.com/fourblocks2020/fencerow/internal/observe"
	"github.com/fourblocks2020/fencerow/internal/slots"
	"github.com/fourblocks2020/fencerow/internal/writer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	self     fencerow.InstanceKey = "instance-a"
	worker   fencerow.WorkerID    = "worker-1"
	interval                      = time.Second
	// sentinel stands for everything that must never be shown.
	sentinel = "s3cr3t-sentinel"
)

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

// logs collects JSON records.
type logs struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.Write(p)
}

func (l *logs) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.String()
}

// at returns the records of a level, without their time.
func (l *logs) at(t testing.TB, level slog.Level) []map[string]any {
	t.Helper()
	var found []map[string]any
	for line := range strings.Lines(l.text()) {
		var record map[string]any
		check(t, json.Unmarshal([]byte(line), &record))
		if record["level"] == level.String() {
			delete(record, "time")
			found = append(found, record)
		}
	}
	return found
}

func (l *logs) observer(t testing.TB) *observe.Observer {
	t.Helper()
	handler, err := observe.NewHandler(l, observe.FormatJSON, slog.LevelDebug)
	check(t, err)
	observer, err := observe.New(handler, self, observe.Alerting{})
	check(t, err)
	return observer
}

// scripted is a writer whose polls do what the test says and note when they began.
type scripted struct {
	poll     func(n int) (writer.PollResult, error) // n counts from 1
	targeted func(ctx context.Context, id fencerow.CorrelationID, force bool) (writer.TargetedResult, error)
	shutdown func(ctx context.Context) error
	wake     chan struct{}

	mu    sync.Mutex
	start time.Time
	polls []time.Duration // since start
}

func newScripted(poll func(n int) (writer.PollResult, error)) *scripted {
	return &scripted{poll: poll, wake: make(chan struct{}, 1), start: time.Now()}
}

func idle(int) (writer.PollResult, error) { return writer.PollResult{}, nil }

func (s *scripted) Poll(context.Context) (writer.PollResult, error) {
	s.mu.Lock()
	s.polls = append(s.polls, time.Since(s.start))
	n := len(s.polls)
	s.mu.Unlock()
	return s.poll(n)
}

func (s *scripted) Wake() <-chan struct{} { return s.wake }

func (s *scripted) RunTargeted(
	ctx context.Context, id fencerow.CorrelationID, force bool,
) (writer.TargetedResult, error) {
	return s.targeted(ctx, id, force)
}

func (s *scripted) Shutdown(ctx context.Context) error {
	if s.shutdown == nil {
		return nil
	}
	return s.shutdown(ctx)
}

func (s *scripted) polledAt() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Duration(nil), s.polls...)
}

// breakable is a memory store that fails on command.
type breakable struct {
	*memstore.Store
	mu    sync.Mutex
	err   error
	hangs bool
	asked int // calls of Ready
}

func newBreakable() *breakable { return &breakable{Store: memstore.New(memstore.Options{})} }

func (b *breakable) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.err = err
}

// hang makes Ready answer only when its context ends.
func (b *breakable) hang() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hangs = true
}

func (b *breakable) Ready(ctx context.Context) (fencerow.SchemaVersion, error) {
	b.mu.Lock()
	b.asked++
	err, hangs := b.err, b.hangs
	b.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return 0, fencerow.NewError("read the schema version", fencerow.ErrStoreTimeout, ctx.Err())
	}
	if err != nil {
		return 0, err
	}
	return b.Store.Ready(ctx)
}

// storeDown is what a store that cannot be reached returns.
func storeDown() error {
	return fencerow.NewError("read the schema version", fencerow.ErrStoreUnavailable, errors.New(sentinel))
}

// bench is a daemon with its surroundings.
type bench struct {
	t     testing.TB
	store *breakable
	log   *logs
	cfg   Config
	d     *Daemon
}

// newBench makes a daemon without a listener; change may make it another.
func newBench(t testing.TB, w Writer, change func(*Config)) *bench {
	t.Helper()
	b := &bench{t: t, store: newBreakable(), log: &logs{}}
	observer := b.log.observer(t)
	b.cfg = Config{
		Store: b.store, Writers: []Writer{w}, Observer: observer, Worker: worker, Interval: interval,
		Grace: 10 * time.Second, Slots: slots.NewBuilder(b.store, self, worker, slots.CountersOf(observer)),
	}
	if change != nil {
		change(&b.cfg)
	}
	var err error
	b.d, err = New(b.cfg)
	check(t, err)
	return b
}

// start runs the daemon; the function returned stops it and returns what Run did.
func (b *bench) start() (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.d.Run(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

// runFor runs the daemon for a time that a synctest bubble makes up, and stops it.
func (b *bench) runFor(d time.Duration) {
	b.t.Helper()
	stop := b.start()
	pass(d)
	check(b.t, stop())
}

func sameRecord(t testing.TB, what string, got, want map[string]any) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func withOps(cfg *Config) { cfg.OpsListen = "127.0.0.1:0" }

// newPipedBench makes a daemon whose ops listener has no socket, for a synctest bubble.
func newPipedBench(t testing.TB, w Writer) *bench {
	t.Helper()
	b := newBench(t, w, withOps)
	b.d.ops.listen = piped
	return b
}

func piped(context.Context) (net.Listener, error) { return newPipes(), nil }

// pipes is a listener whose connections are made in memory, so that they can wait on a synctest bubble's
// clock.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	p.conns <- server
	return client, nil
}

// pass lets fake time pass and waits until all that was to happen by then has.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
