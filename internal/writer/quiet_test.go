package writer

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// elsewhere has another daemon's writer, with a log of its own, deliver what is due.
func (h *harness) elsewhere() {
	h.t.Helper()
	w, err := New(h.faults, h.ledger, observerOf(h.t, &syncBuffer{}, self), testConfig())
	check(h.t, err)
	_, err = w.RunOnce(h.t.Context())
	check(h.t, err)
}

func TestAHoldThatHasNothingToProbe(t *testing.T) {
	// outage is a ledger that is down for four seconds, with one entry that another daemon delivers then.
	outage := func(t *testing.T, h *harness) {
		h.ledger.always(unavailable)
		h.enqueue("e", 1)
		for range 4 {
			h.tick()
		}
		h.ledger.always(delivered())
		h.elsewhere()
		equal(t, "completed", h.counts()[fencerow.StatusCompleted], 1)
	}

	bubble(t, "EndsQuietlyAndIsNoAlert", func(t *testing.T) {
		h := newHarness(t, nil)
		outage(t, h)
		for range 300 {
			h.tick()
		}
		equal(t, "held", len(h.records("target held")), 1)
		equal(t, "resumed", len(h.records("target resumed")), 1)
		equal(t, "alerts", len(h.records("alert")), 0)
		h.enqueue("more", 10)
		equal(t, "claimed at once", h.runOnce().Claimed, 10)
	})

	bubble(t, "HidesNoLaterOutage", func(t *testing.T) {
		h := newHarness(t, nil)
		outage(t, h)
		for range 60 {
			h.tick()
		}
		h.ledger.always(refused)
		h.enqueue("later", 3)
		for range 90 {
			h.tick()
		}
		held := h.records("target held")
		if len(held) != 2 || held[1]["reason"] != string(fencerow.ReasonConnectRefused) {
			t.Errorf("held: %v", held)
		}
		alerts := h.records("alert")
		if len(alerts) != 1 || alerts[0]["alert"] != "target_held" ||
			alerts[0]["reason"] != string(fencerow.ReasonConnectRefused) {
			t.Errorf("alerts: %v", alerts)
		}
	})

	bubble(t, "GoesOnWhileAProbeIsUnderWay", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.DeliveryTimeout = 10 * time.Second })
		h.ledger.always(unavailable)
		h.enqueue("e", 1)
		h.tick()
		h.ledger.set(func(ctx context.Context, d fencerow.Delivery) fencerow.Answer {
			a := hang(ctx, d)
			a.Resolve = true
			return a
		})
		h.ledger.resolve = func(ctx context.Context, _ *fencerow.Entry) fencerow.Resolution {
			<-ctx.Done()
			return fencerow.Resolution{Result: fencerow.ResolveFailed}
		}
		for range 21 { // with its read-back the probe takes as long as the quiet time, and begins in it
			_, err := h.w.Poll(t.Context())
			check(t, err)
			pass(time.Second)
		}
		equal(t, "resumed", len(h.records("target resumed")), 0)
		h.ledger.resolve = nil
		h.ledger.always(unavailable)
		for range 120 {
			h.tick()
		}
		equal(t, "resumed", len(h.records("target resumed")), 0)
		equal(t, "held", len(h.records("target held")), 1)
	})

	bubble(t, "GoesOnWhileTheLedgerAskedNotToBeTried", func(t *testing.T) {
		h := newHarness(t, nil)
		pause := unavailable
		pause.RetryAfter = 5 * time.Minute
		h.ledger.always(pause)
		h.enqueue("e", 1)
		for range 310 {
			h.tick()
		}
		equal(t, "sent", len(h.ledger.take()), 2)
		equal(t, "resumed", len(h.records("target resumed")), 0)
		equal(t, "alerts", len(h.records("alert")), 1)
	})

	bubble(t, "EndsForTheLogOnlyWhenNoWriterOfTheProcessMeetsAFailure", func(t *testing.T) {
		h := newHarness(t, nil)
		idle := h.writer(func(c *Config) { c.Worker = "worker-2" })
		h.ledger.always(unavailable)
		h.enqueue("e", 2)
		_, err := idle.RunOnce(t.Context())
		check(t, err)
		pass(time.Second)
		for range 60 { // the first takes the entries each time; the other finds nothing
			h.runOnce()
			h.runOnce()
			_, err := idle.RunOnce(t.Context())
			check(t, err)
			pass(time.Second)
		}
		why, _ := idle.health.hold(time.Now())
		equal(t, "the idle one's hold", why, "")
		equal(t, "resumed", len(h.records("target resumed")), 0)
		h.ledger.always(delivered())
		h.tick()
		equal(t, "resumed", len(h.records("target resumed")), 1)
	})
}

func TestAStallIsNobodysFault(t *testing.T) {
	for name, answer := range map[string]fencerow.Answer{
		"TrustWindowEnded": retryable(fencerow.ReasonTrustWindowEnded, fencerow.Unknown, fencerow.ScopeEntry),
		"DeliveryTimeout":  retryable(fencerow.ReasonDeliveryTimeout, fencerow.Unknown, fencerow.ScopeEntry),
		"ConnectionCut":    cut,
		"NoConnection":     retryable(fencerow.ReasonConnectRefused, fencerow.NotSent, fencerow.ScopeTarget),
	} {
		bubble(t, "NeitherTheLedgersNorTheEntrys/"+name, func(t *testing.T) {
			var jumped atomic.Int64
			h := newHarness(t, func(c *Config) {
				c.Concurrency, c.MaxAttempts = 10, 1
				c.wallNow = func() time.Time { return time.Now().Round(0).Add(time.Duration(jumped.Load())) }
			})
			var sent atomic.Int64
			all := make(chan struct{})
			h.ledger.set(func(context.Context, fencerow.Delivery) fencerow.Answer {
				if sent.Add(1) == 10 {
					jumped.Add(int64(time.Minute)) // the machine was suspended
					close(all)
				}
				<-all
				return answer
			})
			h.enqueue("e", 10)
			h.runOnce()
			equal(t, "held", len(h.records("target held")), 0)
			for i := range 10 {
				equal(t, "attempts", h.attempts(fencerow.CorrelationID(fmt.Sprint("e-", i+1))), 0)
			}
			h.ledger.always(delivered())
			pass(time.Hour)
			h.runOnce()
			equal(t, "completed", h.counts()[fencerow.StatusCompleted], 10)
		})
	}

	bubble(t, "AnAnswerThatCameIsStillEvidence", func(t *testing.T) {
		var jumped atomic.Int64
		h := newHarness(t, func(c *Config) {
			c.wallNow = func() time.Time { return time.Now().Round(0).Add(time.Duration(jumped.Load())) }
		})
		h.ledger.set(func(context.Context, fencerow.Delivery) fencerow.Answer {
			jumped.Add(int64(time.Minute))
			return unavailable
		})
		h.enqueue("e", 1)
		h.runOnce()
		equal(t, "held", len(h.records("target held")), 1)
	})

	bubble(t, "AlsoWhereWhatWasUsedUpIsReadBack", func(t *testing.T) {
		var jumped atomic.Int64
		h := newHarness(t, func(c *Config) {
			c.MaxAttempts, c.Concurrency = 1, streakLength
			c.wallNow = func() time.Time { return time.Now().Round(0).Add(time.Duration(jumped.Load())) }
		})
		h.enqueue("e", streakLength)
		_, err := h.store.ClaimBatch(t.Context(), fencerow.ClaimBatchParams{
			Instance: self, Worker: "gone", Token: fencerow.NewClaimToken(), Limit: 5, Lease: fencerow.MinLease,
		})
		check(t, err)
		pass(time.Minute)
		var asked atomic.Int64
		all := make(chan struct{})
		h.ledger.resolve = func(context.Context, *fencerow.Entry) fencerow.Resolution {
			if asked.Add(1) == streakLength {
				jumped.Add(int64(time.Minute))
				close(all)
			}
			<-all
			return fencerow.Resolution{Result: fencerow.ResolveFailed}
		}
		h.runOnce()
		equal(t, "asked", asked.Load(), streakLength)
		equal(t, "held", len(h.records("target held")), 0)
		equal(t, "pending", h.counts()[fencerow.StatusPending], streakLength)
		equal(t, "uncertain", h.show("e-1").Pending.Uncertain, true)
	})
}
