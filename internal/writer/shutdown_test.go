package writer

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
)

func TestShutdown(t *testing.T) {
	grace := func(t *testing.T, d time.Duration) context.Context {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), d)
		t.Cleanup(cancel)
		return ctx
	}

	bubble(t, "WhileDeliveringLetsThemEndAndReleasesTheRest", func(t *testing.T) {
		h := newHarness(t, nil)
		h.ledger.set(after(2*time.Second, delivered()))
		h.enqueue("e", 20)
		_, err := h.w.Poll(t.Context())
		check(t, err)
		pass(time.Second)
		start := time.Now()
		check(t, h.w.Shutdown(grace(t, 5*time.Second)))
		equal(t, "took", time.Since(start), time.Second)
		equal(t, "completed", h.counts()[fencerow.StatusCompleted], 4)
		equal(t, "leased", h.leased(), 0)
		for _, id := range []fencerow.CorrelationID{"e-5", "e-20"} {
			equal(t, "attempts", h.attempts(id), 0)
			equal(t, "uncertain", h.show(id).Pending.Uncertain, false)
		}
	})

	bubble(t, "RestIsReleasedAtOnceNotAfterTheGrace", func(t *testing.T) {
		h := newHarness(t, nil)
		h.ledger.set(after(5*time.Second, delivered()))
		h.enqueue("e", 20)
		_, err := h.w.Poll(t.Context())
		check(t, err)
		pass(time.Second)
		go func() { check(t, h.w.Shutdown(grace(t, 10*time.Second))) }()
		pass(10 * time.Millisecond)
		equal(t, "leased", h.leased(), 4)
		pass(10 * time.Second)
	})

	bubble(t, "DeliveriesThatOutlastTheGraceAreReleasedUncertain", func(t *testing.T) {
		h := newHarness(t, nil)
		h.ledger.set(hang)
		h.enqueue("e", 6)
		_, err := h.w.Poll(t.Context())
		check(t, err)
		pass(time.Second)
		start := time.Now()
		if err := h.w.Shutdown(grace(t, 3*time.Second)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error: %v", err)
		}
		if took := time.Since(start); took > 3*time.Second+10*time.Millisecond {
			t.Errorf("took %v", took)
		}
		equal(t, "leased", h.leased(), 0)
		equal(t, "attempts", h.attempts("e-1"), 0)
		equal(t, "uncertain", h.show("e-1").Pending.Uncertain, true)
		equal(t, "uncertain though never sent", h.show("e-6").Pending.Uncertain, false)
		equal(t, "outcomes", h.obs.Metrics().Outcomes.RetryableFailure, 0)
	})

	bubble(t, "WhileClaimingAwaitsTheClaimAndReleasesIt", func(t *testing.T) {
		h := newHarness(t, nil)
		h.faults.before = map[string]func() error{"ClaimBatch": func() error {
			<-time.After(time.Second)
			return nil
		}}
		h.enqueue("e", 5)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _ = h.w.Poll(ctx) }()
		pass(500 * time.Millisecond)
		cancel()
		check(t, h.w.Shutdown(grace(t, 5*time.Second)))
		equal(t, "leased", h.leased(), 0)
		equal(t, "sent", len(h.ledger.take()), 0)
		equal(t, "attempts", h.attempts("e-1"), 0)
	})

	bubble(t, "WhileRecordingFinishesTheRecord", func(t *testing.T) {
		h := newHarness(t, nil)
		h.faults.before = map[string]func() error{"RecordOutcomes": func() error {
			<-time.After(time.Second)
			return nil
		}}
		h.enqueue("e", 3)
		_, err := h.w.Poll(t.Context())
		check(t, err)
		pass(500 * time.Millisecond)
		check(t, h.w.Shutdown(grace(t, 5*time.Second)))
		equal(t, "completed", h.counts()[fencerow.StatusCompleted], 3)
		equal(t, "leased", h.leased(), 0)
	})

	bubble(t, "StoreThatStaysAwayDoesNotHoldUpTheEnd", func(t *testing.T) {
		h := newHarness(t, nil)
		h.faults.fail("RecordOutcomes", 1000, errTimeout)
		h.enqueue("e", 3)
		_, err := h.w.Poll(t.Context())
		check(t, err)
		pass(time.Second)
		start := time.Now()
		if err := h.w.Shutdown(grace(t, 2*time.Second)); err == nil {
			t.Error("no error")
		}
		if took := time.Since(start); took > 2*time.Second+2*lastWrites {
			t.Errorf("took %v", took)
		}
		equal(t, "abandoned", len(h.records("record abandoned")), 1)
	})

	bubble(t, "NothingIsClaimedAfterwards", func(t *testing.T) {
		h := newHarness(t, nil)
		h.enqueue("e", 1)
		check(t, h.w.Shutdown(t.Context()))
		check(t, h.w.Shutdown(t.Context()))
		equal(t, "skipped", h.runOnce().Skipped, SkippedStopping)
		if _, err := h.w.RunTargeted(t.Context(), "e-1", true); !errors.Is(err, ErrStopping) {
			t.Errorf("targeted: %v", err)
		}
		res, err := h.w.Backfill(t.Context(), 0)
		check(t, err)
		equal(t, "backfill", res.Stopped, string(SkippedStopping))
	})

	bubble(t, "ClaimInDoubtIsLookedForOnceMore", func(t *testing.T) {
		h := newHarness(t, nil)
		late := &lateClaims{Claimer: h.store}
		h.w.store = late
		h.enqueue("e", 2)
		if _, err := h.w.Poll(t.Context()); err == nil {
			t.Error("no error")
		}
		late.commit(t)
		check(t, h.w.Shutdown(grace(t, time.Second)))
		equal(t, "leased", h.leased(), 0)
	})

	bubble(t, "CancelledRunOnceGivesRunningDeliveriesTheGrace", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.Grace = 3 * time.Second })
		h.ledger.set(hang)
		h.enqueue("e", 6)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := h.w.RunOnce(ctx)
		check(t, err)
		if took := time.Since(start); took > 4*time.Second+10*time.Millisecond {
			t.Errorf("took %v", took)
		}
		equal(t, "leased", h.leased(), 0)
		equal(t, "attempts", h.attempts("e-1"), 0)
	})

	bubble(t, "AnswerDuringTheStopIsRecorded", func(t *testing.T) {
		h := newHarness(t, nil)
		h.ledger.set(func(ctx context.Context, _ fencerow.Delivery) fencerow.Answer {
			<-ctx.Done() // the answer was on its way already
			return delivered()
		})
		h.enqueue("e", 1)
		_, err := h.w.Poll(t.Context())
		check(t, err)
		pass(time.Millisecond)
		if err := h.w.Shutdown(grace(t, time.Second)); err == nil {
			t.Error("no error")
		}
		equal(t, "status", h.show("e-1").Status, fencerow.StatusCompleted)
	})

	bubble(t, "AtAnyMomentLosesNothingAndLeavesNothingLeased", func(t *testing.T) {
		for moment := range 60 {
			h := newHarness(t, func(c *Config) { c.BatchLimit = 10 })
			h.ledger.set(after(7*time.Millisecond, delivered()))
			h.enqueue("e", 100)
			var stop atomic.Bool
			loop := make(chan struct{})
			go func() {
				defer close(loop)
				for !stop.Load() {
					if _, err := h.w.Poll(t.Context()); err != nil {
						t.Error(err)
					}
					<-time.After(time.Millisecond)
				}
			}()
			<-time.After(time.Duration(moment) * time.Millisecond)
			check(t, h.w.Shutdown(grace(t, time.Second)))
			stop.Store(true)
			<-loop
			equal(t, "leased", h.leased(), 0)
			done := h.counts()[fencerow.StatusCompleted]
			equal(t, "sent", int64(len(h.ledger.take())), done)
			equal(t, "kept", done+h.counts()[fencerow.StatusPending], 100)
		}
	})
}
