package natsrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/observe"
	"github.com/fourblocks2020/fencerow/internal/slots"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	self = fencerow.InstanceKey("instance-a")
	// sentinel stands for everything that must never be shown.
	sentinel = "s3cr3t-sentinel"
	patience = 30 * time.Second
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// store is a store of slots that does what the test says.
type store func(ctx context.Context) ([]fencerow.Slot, error)

func (s store) Slots(ctx context.Context, _ fencerow.InstanceKey) ([]fencerow.Slot, error) {
	return s(ctx)
}

func (store) ListPending(context.Context, fencerow.ListPendingParams) ([]fencerow.PendingEntry, error) {
	return nil, nil
}

func oneSlot(context.Context) ([]fencerow.Slot, error) {
	return []fencerow.Slot{{SlotID: "slot-1"}}, nil
}

// logs collects records, and tells when one comes.
type logs struct {
	mu     sync.Mutex
	buffer bytes.Buffer
	came   chan struct{} // of capacity 1
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.came <- struct{}{}:
	default:
	}
	return l.buffer.Write(p)
}

func (l *logs) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buffer.String()
}

// events returns each record as its name and its reason.
func (l *logs) events(t *testing.T) []string {
	t.Helper()
	var all []string
	for line := range strings.Lines(l.text()) {
		var record struct{ Msg, Reason string }
		check(t, json.Unmarshal([]byte(line), &record))
		all = append(all, strings.TrimSpace(record.Msg+" "+record.Reason))
	}
	return all
}

// await returns once there are n records.
func (l *logs) await(t *testing.T, n int) []string {
	t.Helper()
	for late := time.After(patience); ; {
		if got := l.events(t); len(got) >= n {
			return got
		}
		select {
		case <-l.came:
		case <-late:
			t.Fatalf("there are no %d records:\n%s", n, l.text())
		}
	}
}

// responder is a server that runs.
type responder struct {
	log  *logs
	stop func() // and wait for its end
}

// run runs a server for an instance until it is stopped, or the test ends.
func run(
	t *testing.T, cfg Config, instance fencerow.InstanceKey, list store, grace time.Duration,
) *responder {
	t.Helper()
	r := &responder{log: &logs{came: make(chan struct{}, 1)}}
	observer, err := observe.New(slog.NewJSONHandler(r.log, nil), instance, observe.Alerting{})
	check(t, err)
	builder := slots.NewBuilder(list, instance, "worker-1", slots.CountersOf(observer))
	s := NewServer(cfg, builder, observer, grace)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	r.stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(r.stop)
	return r
}

// up is run on a NATS server that is there; it returns when requests are heard.
func up(t *testing.T, cfg Config, instance fencerow.InstanceKey, list store) *responder {
	t.Helper()
	r := run(t, cfg, instance, list, time.Minute)
	if got := r.log.await(t, 1); got[0] != "nats connected" {
		t.Fatalf("it logs %q", got)
	}
	return r
}

// asker sends requests whose answers all come to one inbox.
type asker struct {
	t       *testing.T
	conn    *nats.Conn
	inbox   string
	answers *nats.Subscription
}

func newAsker(t *testing.T, url string) *asker {
	t.Helper()
	conn, err := nats.Connect(url)
	check(t, err)
	t.Cleanup(conn.Close)
	a := &asker{t: t, conn: conn, inbox: conn.NewRespInbox()}
	a.answers, err = conn.SubscribeSync(a.inbox)
	check(t, err)
	check(t, conn.Flush())
	return a
}

func (a *asker) send(request string) {
	a.t.Helper()
	check(a.t, a.conn.PublishRequest(slots.Subject, a.inbox, []byte(request)))
}

// received returns the answers that have come by now. The servers were stopped before, so that no more can.
func (a *asker) received() []string {
	a.t.Helper()
	check(a.t, a.conn.Flush())
	var all []string
	for {
		if n, _, err := a.answers.Pending(); err != nil || n == 0 {
			check(a.t, err)
			return all
		}
		m, err := a.answers.NextMsg(patience)
		check(a.t, err)
		all = append(all, strings.TrimSpace(string(m.Data)))
	}
}
