package writer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/memstore"
	"github.com/fourblocks2020/fencerow/internal/observe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const self fencerow.InstanceKey = "instance-a"

// harness is a writer on a memory store, a ledger of the test's own, and everything that was logged. Tests
// run it in a synctest bubble, where time is fake and waits for whoever is at work.
type harness struct {
	t      testing.TB
	store  *memstore.Store
	faults *faults
	ledger *testLedger
	log    *syncBuffer
	obs    *observe.Observer
	w      *Writer
}

// testConfig has a lease of 30 s, deliveries of up to 10 s, and no jitter.
func testConfig() Config {
	return Config{Instance: self, Worker: "worker-1", Concurrency: 4, random: func() float64 { return 0 }}
}

func newHarness(t testing.TB, change func(*Config)) *harness {
	t.Helper()
	h := &harness{t: t, store: memstore.New(memstore.Options{}), ledger: &testLedger{}, log: &syncBuffer{}}
	h.faults = &faults{Claimer: h.store}
	handler, err := observe.NewHandler(h.log, observe.FormatJSON, slog.LevelDebug)
	check(t, err)
	h.obs, err = observe.New(handler, self, observe.Alerting{})
	check(t, err)
	h.w = h.writer(change)
	return h
}

// writer returns another writer on the same store, ledger and observer.
func (h *harness) writer(change func(*Config)) *Writer {
	h.t.Helper()
	cfg := testConfig()
	if change != nil {
		change(&cfg)
	}
	w, err := New(h.faults, h.ledger, h.obs, cfg)
	check(h.t, err)
	return w
}

// enqueue adds n entries named prefix-1 to prefix-n.
func (h *harness) enqueue(prefix string, n int) {
	h.t.Helper()
	entries := make([]fencerow.NewEntry, n)
	for i := range entries {
		entries[i] = fencerow.NewEntry{
			CorrelationID: fencerow.CorrelationID(fmt.Sprintf("%s-%d", prefix, i+1)),
			EntryKind:     "fill", Payload: json.RawMessage(`{"n":1}`),
		}
	}
	h.enqueueThese(entries...)
}

func (h *harness) enqueueThese(entries ...fencerow.NewEntry) {
	h.t.Helper()
	_, err := h.store.EnqueueMany(context.Background(), fencerow.EnqueueParams{Instance: self, Entries: entries})
	check(h.t, err)
}

func (h *harness) release(claim *fencerow.Claim) {
	h.t.Helper()
	_, err := h.store.Release(context.Background(), fencerow.ReleaseParams{
		Instance: self, Token: claim.Token, All: true,
	})
	check(h.t, err)
}

func (h *harness) runOnce() PollResult {
	h.t.Helper()
	res, err := h.w.RunOnce(h.t.Context())
	check(h.t, err)
	return res
}

func (h *harness) show(id fencerow.CorrelationID) *fencerow.EntryState {
	h.t.Helper()
	s, err := h.store.Show(context.Background(), fencerow.EntryParams{Instance: self, CorrelationID: id})
	check(h.t, err)
	return s
}

// attempts returns how many attempts of the pending entry are counted.
func (h *harness) attempts(id fencerow.CorrelationID) int {
	h.t.Helper()
	s := h.show(id)
	if s.Pending == nil {
		h.t.Fatalf("%s is %s, not pending", id, s.Status)
	}
	return s.Pending.Attempts
}

// life returns the last finished life of e-1.
func (h *harness) life() fencerow.FinishedLife {
	h.t.Helper()
	s := h.show("e-1")
	if len(s.Outcomes) == 0 {
		h.t.Fatalf("e-1 has no outcome; it is %s", s.Status)
	}
	return s.Outcomes[len(s.Outcomes)-1]
}

func (h *harness) counts() map[fencerow.Status]int64 {
	h.t.Helper()
	c, err := h.store.Counts(context.Background(), self)
	check(h.t, err)
	return c.ByStatus
}

func (h *harness) leased() int64 {
	h.t.Helper()
	c, err := h.store.Counts(context.Background(), self)
	check(h.t, err)
	return c.Leased
}

// records returns the log records whose message is event.
func (h *harness) records(event string) []map[string]any {
	h.t.Helper()
	var out []map[string]any
	for line := range strings.Lines(h.log.String()) {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			h.t.Fatalf("log line %q: %v", line, err)
		}
		if r["msg"] == event {
			out = append(out, r)
		}
	}
	return out
}

// idsOf returns how many correlation ids a record lists.
func idsOf(record map[string]any) int {
	ids, _ := record["correlation_ids"].([]any)
	return len(ids)
}

// testLedger answers what the test says; by default each entry is delivered.
type testLedger struct {
	mu      sync.Mutex
	answer  func(ctx context.Context, d fencerow.Delivery) fencerow.Answer
	resolve func(ctx context.Context, e *fencerow.Entry) fencerow.Resolution
	sent    []sending
	running int
	peak    int
}

// sending is one delivery in the ledger's journal.
type sending struct {
	id      fencerow.CorrelationID
	epoch   fencerow.ClaimEpoch
	attempt int
	at      time.Time
}

func (l *testLedger) Deliver(ctx context.Context, d fencerow.Delivery) fencerow.Answer {
	l.mu.Lock()
	l.sent = append(l.sent, sending{d.Entry.CorrelationID, d.Epoch, d.Attempt, time.Now()})
	l.running++
	l.peak = max(l.peak, l.running)
	answer := l.answer
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.running--
	}()
	if answer == nil {
		return delivered()
	}
	return answer(ctx, d)
}

func (l *testLedger) CanResolve() bool { return l.resolve != nil }

func (l *testLedger) Resolve(ctx context.Context, e *fencerow.Entry) fencerow.Resolution {
	return l.resolve(ctx, e)
}

func (l *testLedger) set(answer func(context.Context, fencerow.Delivery) fencerow.Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answer = answer
}

// always makes the ledger give everyone the same answer.
func (l *testLedger) always(a fencerow.Answer) {
	l.set(func(context.Context, fencerow.Delivery) fencerow.Answer { return a })
}

// only makes the ledger give one entry that answer and deliver the others.
func (l *testLedger) only(id fencerow.CorrelationID, a fencerow.Answer) {
	l.set(func(_ context.Context, d fencerow.Delivery) fencerow.Answer {
		if d.Entry.CorrelationID == id {
			return a
		}
		return delivered()
	})
}

// take returns the journal so far and begins a new one.
func (l *testLedger) take() []sending {
	l.mu.Lock()
	defer l.mu.Unlock()
	sent := l.sent
	l.sent = nil
	return sent
}

func delivered() fencerow.Answer {
	return success(fencerow.AnswerDelivered)
}

func success(class fencerow.AnswerClass) fencerow.Answer {
	return fencerow.Answer{Class: class, Certainty: fencerow.Answered, Scope: fencerow.ScopeEntry}
}

func retryable(why fencerow.ReasonCode, c fencerow.Certainty, s fencerow.Scope) fencerow.Answer {
	return fencerow.Answer{Class: fencerow.AnswerRetryable, Certainty: c, Scope: s, Reason: why}
}

var (
	refused     = retryable(fencerow.ReasonConnectRefused, fencerow.NotSent, fencerow.ScopeTarget)
	unavailable = retryable(fencerow.ReasonLedgerUnavailable, fencerow.Answered, fencerow.ScopeTarget)
	serverError = retryable(fencerow.ReasonLedgerError, fencerow.Unknown, fencerow.ScopeEntry)
	cut         = retryable(fencerow.ReasonConnectionCut, fencerow.Unknown, fencerow.ScopeEntry)
	notReady    = retryable(fencerow.ReasonNotReady, fencerow.Answered, fencerow.ScopeEntry)
	badRequest  = fencerow.Answer{
		Class: fencerow.AnswerPermanent, Certainty: fencerow.Answered, Scope: fencerow.ScopeEntry,
		Reason: fencerow.ReasonBadRequest,
	}
)

// hang answers as the adapter does when a deadline or a stop ends the delivery.
func hang(ctx context.Context, _ fencerow.Delivery) fencerow.Answer {
	<-ctx.Done()
	why := fencerow.ReasonDeliveryTimeout
	switch {
	case errors.Is(context.Cause(ctx), fencerow.ErrTrustWindowEnded):
		why = fencerow.ReasonTrustWindowEnded
	case errors.Is(ctx.Err(), context.Canceled):
		why = fencerow.ReasonDeliveryStopped
	}
	return retryable(why, fencerow.Unknown, fencerow.ScopeEntry)
}

// after answers once d has passed, if the delivery lasts so long.
func after(d time.Duration, a fencerow.Answer) func(context.Context, fencerow.Delivery) fencerow.Answer {
	return func(ctx context.Context, delivery fencerow.Delivery) fencerow.Answer {
		select {
		case <-time.After(d):
			return a
		case <-ctx.Done():
			return hang(ctx, delivery)
		}
	}
}

// faults lets a real store's calls fail, before or after they were done.
type faults struct {
	fencerow.Claimer
	mu     sync.Mutex
	before map[string]func() error
	after  map[string]func() error
}

// fail makes call fail with err, n times, without being done.
func (f *faults) fail(call string, n int, err error) { f.plan(&f.before, call, n, err) }

// lose does call, n times, and then loses its answer to err.
func (f *faults) lose(call string, n int, err error) { f.plan(&f.after, call, n, err) }

func (f *faults) plan(when *map[string]func() error, call string, n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if *when == nil {
		*when = map[string]func() error{}
	}
	var calls atomic.Int64
	(*when)[call] = func() error {
		if calls.Add(1) > int64(n) {
			return nil
		}
		return err
	}
}

func (f *faults) met(when *map[string]func() error, call string) error {
	f.mu.Lock()
	plan := (*when)[call]
	f.mu.Unlock()
	if plan == nil {
		return nil
	}
	return plan() // may take its time
}

func faulty[P, R any](
	ctx context.Context, f *faults, call string, p P, do func(context.Context, P) (R, error),
) (R, error) {
	var none R
	if err := f.met(&f.before, call); err != nil {
		return none, err
	}
	r, err := do(ctx, p)
	if lost := f.met(&f.after, call); lost != nil {
		return none, lost
	}
	return r, err
}

func (f *faults) ClaimBatch(ctx context.Context, p fencerow.ClaimBatchParams) (*fencerow.Claim, error) {
	return faulty(ctx, f, "ClaimBatch", p, f.Claimer.ClaimBatch)
}

func (f *faults) ClaimOne(ctx context.Context, p fencerow.ClaimOneParams) (*fencerow.Claim, error) {
	return faulty(ctx, f, "ClaimOne", p, f.Claimer.ClaimOne)
}

func (f *faults) RecordOutcomes(ctx context.Context, p fencerow.RecordParams) ([]fencerow.Verdict, error) {
	return faulty(ctx, f, "RecordOutcomes", p, f.Claimer.RecordOutcomes)
}

func (f *faults) Release(ctx context.Context, p fencerow.ReleaseParams) ([]fencerow.Verdict, error) {
	return faulty(ctx, f, "Release", p, f.Claimer.Release)
}

// answerClaimsAfter has each claim of a batch be made at once and answered that much later.
func (h *harness) answerClaimsAfter(d time.Duration) {
	if h.faults.after == nil {
		h.faults.after = map[string]func() error{}
	}
	h.faults.after["ClaimBatch"] = func() error {
		<-time.After(d)
		return nil
	}
}

var (
	errTimeout = fencerow.NewError("test", fencerow.ErrStoreTimeout, context.DeadlineExceeded)
	errBusy    = fencerow.NewError("test", fencerow.ErrStoreBusy, nil)
)

// syncBuffer collects a log.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
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

// bubble runs a test with fake time.
func bubble(t *testing.T, claim string, f func(t *testing.T)) {
	t.Helper()
	t.Run(claim, func(t *testing.T) { synctest.Test(t, f) })
}

func observerOf(t testing.TB, log *syncBuffer, instance fencerow.InstanceKey) *observe.Observer {
	t.Helper()
	handler, err := observe.NewHandler(log, observe.FormatJSON, slog.LevelDebug)
	check(t, err)
	obs, err := observe.New(handler, instance, observe.Alerting{})
	check(t, err)
	return obs
}

// pass lets fake time pass and waits until all that was to happen by then has.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
