package writer

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/observe"
)

func TestRunTargeted(t *testing.T) {
	targeted := func(h *harness, id fencerow.CorrelationID, force bool) TargetedResult {
		h.t.Helper()
		res, err := h.w.RunTargeted(h.t.Context(), id, force)
		check(h.t, err)
		return res
	}

	bubble(t, "OneEntryIsDeliveredAndTheOthersAreLeft", func(t *testing.T) {
		h := newHarness(t, nil)
		h.enqueue("e", 3)
		res := targeted(h, "e-2", false)
		equal(t, "result", res, TargetedResult{
			CorrelationID: "e-2", ClaimResult: observe.ResultClaimed, Outcome: "completed",
		})
		equal(t, "completed", h.counts()[fencerow.StatusCompleted], 1)
		claims := h.records("targeted claim")
		if len(claims) != 1 || claims[0]["claim_result"] != "claimed" || claims[0]["correlation_id"] != "e-2" ||
			claims[0]["level"] != "INFO" {
			t.Errorf("claim records: %v", claims)
		}
	})

	for _, c := range []struct {
		claim  string
		before func(h *harness)
		result observe.ClaimResult
		why    fencerow.RefusedWhy
	}{
		{"Unknown", func(*harness) {}, observe.ResultUnavailable, fencerow.RefusedUnknown},
		{"Finished", func(h *harness) {
			h.enqueue("e", 1)
			h.runOnce()
		}, observe.ResultUnavailable, fencerow.RefusedFinished},
		{"NotDue", func(h *harness) {
			h.enqueue("e", 1)
			h.ledger.always(notReady)
			h.runOnce()
		}, observe.ResultUnavailable, fencerow.RefusedNotDue},
		{"Leased", func(h *harness) {
			h.enqueue("e", 1)
			h.reclaim("e-1")
		}, observe.ResultUnavailable, fencerow.RefusedLeased},
		{"Held", func(h *harness) {
			h.enqueue("e", 1)
			_, err := h.store.Hold(context.Background(), self)
			check(h.t, err)
		}, observe.ResultUnavailable, fencerow.RefusedHeld},
		{"Foreign", func(h *harness) {
			_, err := h.store.EnqueueMany(context.Background(), fencerow.EnqueueParams{
				Instance: "instance-b", Entries: []fencerow.NewEntry{
					{CorrelationID: "e-1", EntryKind: "fill", Payload: []byte(`{}`)},
				},
			})
			check(h.t, err)
		}, observe.ResultForeign, fencerow.RefusedForeign},
	} {
		bubble(t, "RefusalIsAResultThatSaysWhy/"+c.claim, func(t *testing.T) {
			h := newHarness(t, nil)
			c.before(h)
			h.ledger.take()
			res := targeted(h, "e-1", false)
			equal(t, "claim result", res.ClaimResult, c.result)
			equal(t, "why", res.Why, c.why)
			equal(t, "deliveries", len(h.ledger.take()), 0)
			m := h.obs.Metrics().Claims
			foreign := c.result == observe.ResultForeign
			if foreign != (m.ForeignInstance == 1) || foreign == (m.Unavailable == 1) {
				t.Errorf("counters: %+v", m)
			}
			record := h.records("targeted claim")[0]
			level := map[bool]string{true: "WARN", false: "INFO"}[foreign]
			if record["level"] != level || record["claim_result"] != string(c.result) {
				t.Errorf("record: %v", record)
			}
		})
	}

	bubble(t, "ForceTakesAnEntryThatWaitsForItsRetry", func(t *testing.T) {
		h := newHarness(t, nil)
		h.enqueue("e", 1)
		h.ledger.always(notReady)
		h.runOnce()
		h.ledger.always(delivered())
		equal(t, "outcome", targeted(h, "e-1", true).Outcome, fencerow.OutcomeCompleted)
	})

	bubble(t, "FailureSaysItsOutcomeAndReason", func(t *testing.T) {
		h := newHarness(t, nil)
		h.enqueue("e", 1)
		h.ledger.always(badRequest)
		res := targeted(h, "e-1", false)
		equal(t, "outcome", res.Outcome, fencerow.OutcomePermanentFailure)
		equal(t, "reason", res.Reason, "bad_request")
	})

	bubble(t, "LostClaimIsNoOutcome", func(t *testing.T) {
		h := newHarness(t, nil)
		h.enqueue("e", 1)
		h.ledger.set(func(context.Context, fencerow.Delivery) fencerow.Answer {
			<-time.After(40 * time.Second)
			h.complete(h.reclaim("e-1"))
			return delivered()
		})
		res := targeted(h, "e-1", false)
		equal(t, "result", res, TargetedResult{
			CorrelationID: "e-1", ClaimResult: observe.ResultLost, Reason: "finished",
		})
	})

	bubble(t, "TargetOnHoldIsAskedAllTheSame", func(t *testing.T) {
		h := newHarness(t, nil)
		h.enqueue("e", 5)
		down := refused
		down.RetryAfter = time.Hour
		h.ledger.always(down)
		h.runOnce()
		h.ledger.always(delivered())
		equal(t, "outcome", targeted(h, "e-5", true).Outcome, fencerow.OutcomeCompleted)
		equal(t, "resumed", len(h.records("target resumed")), 1)
	})

	bubble(t, "EntryIsDeliveredBeforeTheBacklog", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.Concurrency = 1; c.BatchLimit = 10 })
		h.ledger.set(after(time.Second, delivered()))
		h.enqueue("e", 20)
		for range 2 {
			_, err := h.w.Poll(t.Context())
			check(t, err)
		}
		h.enqueue("urgent", 1)
		start := time.Now()
		targeted(h, "urgent-1", false)
		if took := time.Since(start); took > 12*time.Second {
			t.Errorf("it took %v", took)
		}
		check(t, h.w.Shutdown(t.Context()))
	})

	bubble(t, "BadIDIsRefusedBeforeTheStoreIsAsked", func(t *testing.T) {
		h := newHarness(t, nil)
		h.faults.fail("ClaimOne", 1, errors.New("must not be called"))
		if _, err := h.w.RunTargeted(t.Context(), "two words", false); !errors.Is(err, fencerow.ErrInvalidInput) {
			t.Errorf("error: %v", err)
		}
	})

	bubble(t, "LostAnswerToTheClaimIsGivenBack", func(t *testing.T) {
		h := newHarness(t, nil)
		h.enqueue("e", 1)
		h.faults.lose("ClaimOne", 1, errTimeout)
		if _, err := h.w.RunTargeted(t.Context(), "e-1", false); !errors.Is(err, fencerow.ErrStoreTimeout) {
			t.Errorf("error: %v", err)
		}
		equal(t, "outcome", targeted(h, "e-1", false).Outcome, fencerow.OutcomeCompleted)
	})
}

func TestBackfill(t *testing.T) {
	backfill := func(h *harness, limit int) BackfillResult {
		h.t.Helper()
		res, err := h.w.Backfill(h.t.Context(), limit)
		check(h.t, err)
		return res
	}
	small := func(c *Config) { c.BatchLimit = 10 }

	bubble(t, "EverythingDueIsDelivered", func(t *testing.T) {
		h := newHarness(t, small)
		h.ledger.set(after(10*time.Millisecond, delivered()))
		h.enqueue("e", 95)
		res := backfill(h, 0)
		equal(t, "claimed", res.Claimed, 95)
		equal(t, "completed", res.Outcomes[fencerow.OutcomeCompleted], 95)
		equal(t, "kinds", len(res.Outcomes), len(fencerow.OutcomeKinds()))
		equal(t, "stopped", res.Stopped, "")
	})

	bubble(t, "LimitIsNotPassed", func(t *testing.T) {
		h := newHarness(t, small)
		h.enqueue("e", 95)
		equal(t, "claimed", backfill(h, 25).Claimed, 25)
		equal(t, "completed", h.counts()[fencerow.StatusCompleted], 25)
	})

	bubble(t, "RowsThatASlowLedgerLeftBehindAreClaimedAgain", func(t *testing.T) {
		h := newHarness(t, small)
		h.ledger.set(after(9*time.Second, delivered()))
		h.enqueue("e", 20)
		res := backfill(h, 0)
		equal(t, "completed", res.Outcomes[fencerow.OutcomeCompleted], 20)
	})

	bubble(t, "TargetThatGoesOnHoldStopsIt", func(t *testing.T) {
		h := newHarness(t, small)
		h.ledger.always(refused)
		h.enqueue("e", 95)
		res := backfill(h, 0)
		equal(t, "stopped", res.Stopped, "connect_refused")
		equal(t, "leased", h.leased(), 0)
		equal(t, "completed", res.Outcomes[fencerow.OutcomeCompleted], 0)
	})

	bubble(t, "HoldThatTheLastRowsBroughtOnIsTold", func(t *testing.T) {
		h := newHarness(t, small)
		h.ledger.always(refused)
		h.enqueue("e", 5)
		equal(t, "stopped", backfill(h, 0).Stopped, "connect_refused")
	})

	bubble(t, "ChargesOfAStreakAreGivenBackBeforeItEnds", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.BatchLimit = 2; c.Budget = 2; c.Concurrency = 1 })
		h.ledger.always(serverError)
		h.enqueue("e", 9)
		res := backfill(h, 0)
		equal(t, "stopped", res.Stopped, "ledger_error")
		for _, id := range []fencerow.CorrelationID{"e-1", "e-2", "e-3", "e-4", "e-5"} {
			equal(t, "attempts", h.attempts(id), 0)
		}
	})

	bubble(t, "HeldInstanceStopsIt", func(t *testing.T) {
		h := newHarness(t, small)
		h.enqueue("e", 5)
		_, err := h.store.Hold(t.Context(), self)
		check(t, err)
		equal(t, "stopped", backfill(h, 0).Stopped, string(SkippedInstanceHeld))
	})

	bubble(t, "BusyStoreIsWaitedForAndThenAnError", func(t *testing.T) {
		h := newHarness(t, small)
		h.enqueue("e", 5)
		h.faults.fail("ClaimBatch", maxBusy, errBusy)
		equal(t, "claimed", backfill(h, 0).Claimed, 5)
		h.faults.fail("ClaimBatch", maxBusy+1, errBusy)
		if _, err := h.w.Backfill(t.Context(), 0); !errors.Is(err, fencerow.ErrStoreBusy) {
			t.Errorf("error: %v", err)
		}
	})

	bubble(t, "EndsWhenNothingStartsAnyMore", func(t *testing.T) {
		h := newHarness(t, small)
		h.answerClaimsAfter(18 * time.Second) // the window to start in is 17 s
		h.enqueue("e", 30)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		res, err := h.w.Backfill(ctx, 0)
		check(t, err)
		equal(t, "stopped", res.Stopped, StoppedNothingStarted)
		equal(t, "pending", h.counts()[fencerow.StatusPending], 30)
		equal(t, "leased", h.leased(), 0)
	})

	bubble(t, "ErrorStillSaysWhatWasDone", func(t *testing.T) {
		h := newHarness(t, small)
		h.ledger.set(after(10*time.Millisecond, delivered()))
		h.enqueue("e", 30)
		claims := 0
		h.faults.before = map[string]func() error{"ClaimBatch": func() error {
			if claims++; claims == 3 {
				return errTimeout
			}
			return nil
		}}
		res, err := h.w.Backfill(t.Context(), 0)
		if !errors.Is(err, fencerow.ErrStoreTimeout) {
			t.Errorf("error: %v", err)
		}
		equal(t, "completed", res.Outcomes[fencerow.OutcomeCompleted], 20)
	})

	bubble(t, "CancelLetsRunningDeliveriesEndAndReleasesTheRest", func(t *testing.T) {
		h := newHarness(t, small)
		h.ledger.set(after(2*time.Second, delivered()))
		h.enqueue("e", 95)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		res, err := h.w.Backfill(ctx, 0)
		check(t, err)
		equal(t, "stopped", res.Stopped, string(SkippedStopping))
		equal(t, "completed", res.Outcomes[fencerow.OutcomeCompleted], 8)
		equal(t, "leased", h.leased(), 0)
		equal(t, "attempts", h.attempts("e-50"), 0)
	})
}
