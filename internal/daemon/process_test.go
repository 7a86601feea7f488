package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/memstore"
	"github.com/fourblocks2020/fencerow/internal/observe"
	"github.com/fourblocks2020/fencerow/internal/writer"
)

// ledgerFunc is a ledger in one function.
type ledgerFunc func(ctx context.Context, d fencerow.Delivery) fencerow.Answer

func (f ledgerFunc) Deliver(ctx context.Context, d fencerow.Delivery) fencerow.Answer {
	return f(ctx, d)
}

func delivered() fencerow.Answer {
	return fencerow.Answer{Class: fencerow.AnswerDelivered, Certainty: fencerow.Answered,
		Scope: fencerow.ScopeEntry}
}

// clock is a store's clock that a test sets forward.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *clock) forward(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

// realWriter is a writer of the store under the bench's observer.
func realWriter(t *testing.T, store fencerow.Claimer, log *logs, ledger ledgerFunc) *writer.Writer {
	t.Helper()
	w, err := writer.New(store, ledger, log.observer(t), writer.Config{Instance: self, Worker: worker})
	check(t, err)
	return w
}

func TestProcess(t *testing.T) {
	var now clock
	store := memstore.New(memstore.Options{Now: now.now})
	enqueue := func(instance fencerow.InstanceKey, ids ...fencerow.CorrelationID) {
		t.Helper()
		for _, id := range ids {
			_, err := store.EnqueueMany(t.Context(), fencerow.EnqueueParams{
				Instance: instance, Entries: []fencerow.NewEntry{entry(id)},
			})
			check(t, err)
		}
	}
	claim := func(id fencerow.CorrelationID) *fencerow.Claim {
		t.Helper()
		c, err := store.ClaimOne(t.Context(), fencerow.ClaimOneParams{
			Instance: self, Worker: "other", Token: fencerow.NewClaimToken(), CorrelationID: id, Lease: time.Minute,
			ForceDue: true,
		})
		check(t, err)
		return c
	}
	// The ledger answers by what the correlation id begins with.
	ledger := func(_ context.Context, d fencerow.Delivery) fencerow.Answer {
		answer := fencerow.Answer{Certainty: fencerow.Answered, Scope: fencerow.ScopeEntry}
		switch kind, _, _ := strings.Cut(string(d.Entry.CorrelationID), "-"); kind {
		case "retry":
			answer.Class, answer.Reason = fencerow.AnswerRetryable, fencerow.ReasonNotReady
		case "refuse":
			answer.Class, answer.Reason = fencerow.AnswerPermanent, fencerow.ReasonBadRequest
		case "lose":
			now.forward(time.Hour)
			c := claim(d.Entry.CorrelationID)
			_, err := store.RecordOutcomes(context.Background(), fencerow.RecordParams{
				Instance: self, Token: c.Token,
				Outcomes: []fencerow.Outcome{{OutboxID: d.Entry.OutboxID, Kind: fencerow.OutcomeCompleted}},
			})
			check(t, err)
			answer = delivered()
		default:
			answer = delivered()
		}
		return answer
	}
	enqueue(self, "done-1", "retry-1", "refuse-1", "lose-1", "leased-1", "..", ".", "a/b//c", "50%25?x=y#z")
	enqueue("instance-b", "foreign-1")
	log := &logs{}
	w := realWriter(t, store, log, ledger)
	s := serveOps(t, w, nil)
	s.log = log
	client := s.client("")

	tests := []struct {
		id      fencerow.CorrelationID
		force   bool
		before  func()
		claim   observe.ClaimResult
		outcome fencerow.OutcomeKind
		reason  string
	}{
		{id: "done-1", claim: observe.ResultClaimed, outcome: fencerow.OutcomeCompleted},
		{id: "done-1", claim: observe.ResultUnavailable, reason: "finished"},
		{id: "done-1", force: true, claim: observe.ResultUnavailable, reason: "finished"},
		{id: "retry-1", claim: observe.ResultClaimed, outcome: fencerow.OutcomeRetryableFailure,
			reason: "not_ready"},
		{id: "retry-1", claim: observe.ResultUnavailable, reason: "not_due"},
		{id: "retry-1", force: true, claim: observe.ResultClaimed, outcome: fencerow.OutcomeRetryableFailure,
			reason: "not_ready"},
		{id: "refuse-1", claim: observe.ResultClaimed, outcome: fencerow.OutcomePermanentFailure,
			reason: "bad_request"},
		{id: "leased-1", before: func() { claim("leased-1") }, claim: observe.ResultUnavailable, reason: "leased"},
		{id: "nowhere-1", claim: observe.ResultUnavailable, reason: "unknown"},
		{id: "foreign-1", claim: observe.ResultForeign, reason: "foreign_instance"},
		{id: "..", claim: observe.ResultClaimed, outcome: fencerow.OutcomeCompleted},
		{id: ".", claim: observe.ResultClaimed, outcome: fencerow.OutcomeCompleted},
		{id: "a/b//c", claim: observe.ResultClaimed, outcome: fencerow.OutcomeCompleted},
		{id: "50%25?x=y#z", claim: observe.ResultClaimed, outcome: fencerow.OutcomeCompleted},
		{id: "lose-1", claim: observe.ResultLost, reason: "finished"},
	}
	for _, tt := range tests {
		t.Run(string(tt.id)+"Is"+string(tt.claim)+string(tt.outcome)+tt.reason, func(t *testing.T) {
			if tt.before != nil {
				tt.before()
			}
			got, err := client.Process(t.Context(), self, tt.id, tt.force)
			check(t, err)
			equal(t, "result", got, ProcessResult{
				CorrelationID: tt.id, ClaimResult: string(tt.claim), Outcome: tt.outcome, Reason: tt.reason,
			})
		})
	}
	t.Run("HeldInstance", func(t *testing.T) {
		_, err := store.Hold(t.Context(), self)
		check(t, err)
		got, err := client.Process(t.Context(), self, "retry-1", true)
		check(t, err)
		equal(t, "reason", got.Reason, "instance_held")
	})
	t.Run("OtherInstance", func(t *testing.T) {
		_, err := client.Process(t.Context(), "instance-b", "foreign-1", false)
		if !errors.Is(err, ErrDaemonOtherInstance) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("StoreThatIsDown", func(t *testing.T) {
		store.Close()
		_, err := client.Process(t.Context(), self, "retry-1", true)
		if !errors.Is(err, fencerow.ErrStoreUnavailable) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("WriterThatStops", func(t *testing.T) {
		check(t, w.Shutdown(t.Context()))
		_, err := client.Process(t.Context(), self, "retry-1", true)
		if !errors.Is(err, writer.ErrStopping) {
			t.Errorf("got %v", err)
		}
	})
}

func TestAPanicIsAnAnswerAndOneRecordAndShowsNothing(t *testing.T) {
	w := newScripted(idle)
	w.targeted = func(context.Context, fencerow.CorrelationID, bool) (writer.TargetedResult,
		error) {
		panic(sentinel)
	}
	s := serveOps(t, w, nil)
	status, body := s.request(http.MethodPost, "/v1/process/a", nil)
	equal(t, "status", status, http.StatusInternalServerError)
	equal(t, "body", body, `{"error":"internal"}`+"\n")
	if strings.Contains(s.log.text(), sentinel) {
		t.Error("the log shows the panic")
	}
	errs := s.log.at(t, slog.LevelError)
	if len(errs) != 1 {
		t.Fatalf("got %d error records, want one: %v", len(errs), errs)
	}
	sameRecord(t, "record", errs[0], map[string]any{
		"level": "ERROR", "msg": "request failed", "reason": "ops_request_panicked",
		"instance_key": string(self), "exc_type": "string",
	})
}

func TestTooManyProcessRequestsAreRefused(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	w := answers()
	answer := w.targeted
	w.targeted = func(ctx context.Context, id fencerow.CorrelationID, force bool) (writer.TargetedResult,
		error) {
		entered <- struct{}{}
		<-leave
		return answer(ctx, id, force)
	}
	s := serveOps(t, w, nil)
	client := s.client("")
	var asking sync.WaitGroup
	for range maxOpsRequests {
		asking.Go(func() {
			_, err := client.Process(t.Context(), self, "a", false)
			if err != nil {
				t.Errorf("got %v", err)
			}
		})
		<-entered
	}
	_, err := client.Process(t.Context(), self, "a", false)
	if err == nil || err.Error() != "process by the daemon: too_many_requests" {
		t.Errorf("got %v", err)
	}
	close(leave)
	asking.Wait()
}

func TestADeliveryMayTakeLongerThanAnyOtherRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := answers()
		answer := w.targeted
		w.targeted = func(ctx context.Context, id fencerow.CorrelationID, force bool) (writer.TargetedResult,
			error) {
			select {
			case <-time.After(5 * opsTimeout):
			case <-ctx.Done():
				t.Error("the request was given up")
			}
			return answer(ctx, id, force)
		}
		b := newPipedBench(t, w)
		listener := newPipes()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			b.d.ops.serve(listener)
		}()
		client, err := NewClient("http://127.0.0.1:8311", fencerow.Secret{})
		check(t, err)
		client.http.Transport = &http.Transport{DialContext: listener.dial, DisableKeepAlives: true}
		got, err := client.Process(t.Context(), self, "a", false)
		check(t, err)
		equal(t, "outcome", got.Outcome, fencerow.OutcomeCompleted)
		b.d.ops.shutdown()
		<-ended
	})
}
