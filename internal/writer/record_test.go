package writer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// reclaim has another worker take a row, under a lease that has run out if there is one.
func (h *harness) reclaim(id fencerow.CorrelationID) *fencerow.Claim {
	h.t.Helper()
	claim, err := h.store.ClaimOne(context.Background(), fencerow.ClaimOneParams{
		Instance: self, Worker: "second", Token: fencerow.NewClaimToken(), CorrelationID: id, Lease: time.Minute,
	})
	check(h.t, err)
	return claim
}

func TestClaimLost(t *testing.T) {
	// A zombie: its delivery goes on past its lease, as that of a stopped process does.
	zombie := func(answer fencerow.Answer) func(context.Context, fencerow.Delivery) fencerow.Answer {
		return func(context.Context, fencerow.Delivery) fencerow.Answer {
			<-time.After(time.Minute)
			return answer
		}
	}

	for _, c := range []struct {
		claim string
		do    func(h *harness, second *fencerow.Claim)
		want  fencerow.LostReason
	}{
		{"Reclaimed", func(*harness, *fencerow.Claim) {}, fencerow.LostReclaimed},
		{"Finished", func(h *harness, second *fencerow.Claim) {
			h.complete(second)
		}, fencerow.LostFinished},
		{"Missing", func(h *harness, second *fencerow.Claim) {
			h.complete(second)
			_, err := h.store.Prune(context.Background(), fencerow.PruneParams{Instance: self, Limit: 10})
			check(h.t, err)
		}, fencerow.LostMissing},
	} {
		bubble(t, "LateSuccessIsReportedWithItsKindAndChangesNothing/"+c.claim, func(t *testing.T) {
			h := newHarness(t, nil)
			h.ledger.set(zombie(delivered()))
			h.enqueue("e", 1)
			_, err := h.w.Poll(t.Context())
			check(t, err)
			pass(40 * time.Second)
			c.do(h, h.reclaim("e-1"))
			before := fmt.Sprintf("%+v", h.snapshotOf("e-1"))
			pass(time.Minute)
			equal(t, "row", fmt.Sprintf("%+v", h.snapshotOf("e-1")), before)
			equal(t, "lost counted", h.obs.Metrics().Claims.Lost, 1)
			equal(t, "completed counted", h.obs.Metrics().Outcomes.Completed, 0)
			equal(t, "success records", len(h.records("outcome recorded")), 0)
			lost := h.records("claim lost")
			if len(lost) != 1 || lost[0]["reason"] != string(c.want) || lost[0]["dropped_outcome"] != "completed" ||
				lost[0]["claim_result"] != "lost" || lost[0]["level"] != "WARN" || lost[0]["correlation_id"] != "e-1" {
				t.Errorf("lost: %v", lost)
			}
			check(t, h.w.Shutdown(t.Context()))
		})
	}

	bubble(t, "FailureOfALostClaimIsNotRecorded", func(t *testing.T) {
		h := newHarness(t, nil)
		h.ledger.set(zombie(badRequest))
		h.enqueue("e", 1)
		_, err := h.w.Poll(t.Context())
		check(t, err)
		pass(40 * time.Second)
		h.reclaim("e-1")
		pass(time.Minute)
		equal(t, "counted", h.obs.Metrics().Outcomes.PermanentFailure, 0)
		equal(t, "status", h.show("e-1").Status, fencerow.StatusPending)
		check(t, h.w.Shutdown(t.Context()))
	})

	bubble(t, "RowThatExpiredWithItsClaimIsLostAlthoughItsEpochIsOurs", func(t *testing.T) {
		h := newHarness(t, nil)
		h.ledger.set(zombie(notReady))
		h.enqueue("e", 2)
		_, err := h.w.Poll(t.Context())
		check(t, err)
		pass(40 * time.Second)
		h.reclaim("e-2") // frees e-1, which nobody has claimed since
		pass(time.Minute)
		equal(t, "lost", h.obs.Metrics().Claims.Lost, 2)
		equal(t, "retries counted", h.obs.Metrics().Outcomes.RetryableFailure, 0)
		check(t, h.w.Shutdown(t.Context()))
	})

	bubble(t, "UnacknowledgedRetryThatWasNotDoneIsLostAlthoughExpiryCountedOne", func(t *testing.T) {
		h := newHarness(t, nil)
		h.ledger.always(notReady)
		h.stopIn("RecordOutcomes", &h.faults.before)
		h.enqueue("e", 2)
		_, err := h.w.Poll(t.Context())
		check(t, err)
		pass(40 * time.Second)
		h.reclaim("e-2") // frees e-1, which nobody has claimed since
		pass(time.Minute)
		equal(t, "lost", h.obs.Metrics().Claims.Lost, 2)
		equal(t, "retries counted", h.obs.Metrics().Outcomes.RetryableFailure, 0)
		check(t, h.w.Shutdown(t.Context()))
	})

	bubble(t, "UnacknowledgedRetryThatWasDoneCountsAlthoughAnotherHasTheRowNow", func(t *testing.T) {
		h := newHarness(t, nil)
		h.ledger.always(notReady)
		h.stopIn("RecordOutcomes", &h.faults.after)
		h.enqueue("e", 1)
		_, err := h.w.Poll(t.Context())
		check(t, err)
		pass(20 * time.Second)
		h.reclaim("e-1")
		pass(time.Minute)
		equal(t, "lost", h.obs.Metrics().Claims.Lost, 0)
		equal(t, "retries counted", h.obs.Metrics().Outcomes.RetryableFailure, 1)
		check(t, h.w.Shutdown(t.Context()))
	})

	for _, c := range []struct {
		claim string
		when  func(*faults) *map[string]func() error
		lost  int64
	}{
		{"UnacknowledgedReleaseThatWasNotDoneIsLost",
			func(f *faults) *map[string]func() error { return &f.before }, 1},
		{"UnacknowledgedReleaseThatWasDoneIsNotLostAlthoughAnotherHasTheRowNow",
			func(f *faults) *map[string]func() error { return &f.after }, 0},
	} {
		bubble(t, c.claim, func(t *testing.T) {
			h := newHarness(t, nil)
			h.stopIn("Release", c.when(h.faults))
			h.enqueue("e", 1)
			h.answerClaimsAfter(18 * time.Second) // too late to start: the row is given back
			_, err := h.w.Poll(t.Context())
			check(t, err)
			pass(20 * time.Second)
			h.reclaim("e-1")
			pass(time.Minute)
			equal(t, "lost", h.obs.Metrics().Claims.Lost, c.lost)
			check(t, h.w.Shutdown(t.Context()))
		})
	}

	bubble(t, "LateOutcomeThatNobodyReclaimedIsApplied", func(t *testing.T) {
		h := newHarness(t, nil)
		h.ledger.set(zombie(delivered()))
		h.enqueue("e", 1)
		h.runOnce()
		equal(t, "status", h.show("e-1").Status, fencerow.StatusCompleted)
		equal(t, "lost", h.obs.Metrics().Claims.Lost, 0)
	})

	bubble(t, "RowsToReleaseThatWereLostAreReported", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.Concurrency = 1 })
		var stopped sync.Once
		h.faults.before = map[string]func() error{"Release": func() error {
			stopped.Do(func() { <-time.After(40 * time.Second) }) // the process was stopped here
			return nil
		}}
		h.ledger.set(zombie(delivered()))
		h.enqueue("e", 2)
		_, err := h.w.Poll(t.Context())
		check(t, err)
		pass(40 * time.Second)
		h.reclaim("e-2")
		pass(time.Minute)
		equal(t, "lost", h.obs.Metrics().Claims.Lost, 2)
		dropped := map[any]any{}
		for _, r := range h.records("claim lost") {
			dropped[r["correlation_id"]] = r["dropped_outcome"]
		}
		equal(t, "dropped of the row that was delivered", dropped["e-1"], any("completed"))
		equal(t, "dropped of the row that was not", dropped["e-2"], any("none"))
		check(t, h.w.Shutdown(t.Context()))
	})

	bubble(t, "BatchMatesOfALostRowAreRecorded", func(t *testing.T) {
		h := newHarness(t, nil)
		h.ledger.set(zombie(delivered()))
		h.enqueue("e", 3)
		_, err := h.w.Poll(t.Context())
		check(t, err)
		// An operator's tool of the same instance finished e-2 under a claim of its own after the lease had run
		// out. The other rows of the expired claim were freed with it and are lost as well, each reported once.
		pass(40 * time.Second)
		h.complete(h.reclaim("e-2"))
		pass(time.Minute)
		equal(t, "lost", h.obs.Metrics().Claims.Lost, 3)
		equal(t, "records", len(h.records("claim lost")), 3)
		check(t, h.w.Shutdown(t.Context()))
	})
}

// stopIn has the process stop for 50 s in its first such call, before or after it is done, and get no answer.
func (h *harness) stopIn(call string, when *map[string]func() error) {
	var stopped sync.Once
	if *when == nil {
		*when = map[string]func() error{}
	}
	(*when)[call] = func() (err error) {
		stopped.Do(func() {
			<-time.After(50 * time.Second)
			err = errTimeout
		})
		return err
	}
}

func (h *harness) complete(claim *fencerow.Claim) {
	h.t.Helper()
	_, err := h.store.RecordOutcomes(context.Background(), fencerow.RecordParams{
		Instance: self, Token: claim.Token,
		Outcomes: []fencerow.Outcome{{
			OutboxID: claim.Entries[0].OutboxID, Kind: fencerow.OutcomeCompleted,
		}},
	})
	check(h.t, err)
}

// snapshotOf returns what is stored of an entry, or that there is none.
func (h *harness) snapshotOf(id fencerow.CorrelationID) string {
	s, err := h.store.Show(context.Background(), fencerow.EntryParams{Instance: self, CorrelationID: id})
	if errors.Is(err, fencerow.ErrNotFound) {
		return "missing"
	}
	check(h.t, err)
	if s.Pending != nil {
		s.Pending.DueFor = 0 // it grows by itself
		return fmt.Sprintf("%s %+v %+v", s.Status, *s.Pending, s.Lease.Epoch)
	}
	return fmt.Sprintf("%s %+v", s.Status, s.Outcomes)
}

func TestStoreTroubleWhileRecording(t *testing.T) {
	bubble(t, "LostAnswerToARecordCountsOnce", func(t *testing.T) {
		h := newHarness(t, nil)
		h.faults.lose("RecordOutcomes", 1, errTimeout)
		h.enqueue("e", 5)
		h.runOnce()
		equal(t, "completed counted", h.obs.Metrics().Outcomes.Completed, 5)
		equal(t, "lost", h.obs.Metrics().Claims.Lost, 0)
		equal(t, "success records", len(h.records("outcome recorded")), 1)
		equal(t, "sent", len(h.ledger.take()), 5)
	})

	bubble(t, "LostAnswerToARetryCountsOneAttempt", func(t *testing.T) {
		h := newHarness(t, nil)
		h.ledger.always(notReady)
		h.faults.lose("RecordOutcomes", 2, errTimeout)
		h.enqueue("e", 1)
		h.runOnce()
		equal(t, "attempts", h.attempts("e-1"), 1)
		equal(t, "counted", h.obs.Metrics().Outcomes.RetryableFailure, 1)
		equal(t, "lost", h.obs.Metrics().Claims.Lost, 0)
	})

	bubble(t, "RecordIsRepeatedUntilTheStoreIsBack", func(t *testing.T) {
		h := newHarness(t, nil)
		h.faults.fail("RecordOutcomes", 10, errTimeout)
		h.enqueue("e", 3)
		h.runOnce()
		equal(t, "completed", h.counts()[fencerow.StatusCompleted], 3)
		equal(t, "sent", len(h.ledger.take()), 3)
	})

	bubble(t, "RecordIsGivenUpWithTheWindowAndTheRowComesBackUncertain", func(t *testing.T) {
		h := newHarness(t, nil)
		var down atomic.Bool
		down.Store(true)
		h.faults.before = map[string]func() error{"RecordOutcomes": func() error {
			if down.Load() {
				return errTimeout
			}
			return nil
		}}
		h.enqueue("e", 2)
		start := time.Now()
		if _, err := h.w.RunOnce(t.Context()); !errors.Is(err, fencerow.ErrStoreTimeout) {
			t.Errorf("error: %v", err)
		}
		if took := time.Since(start); took > 27*time.Second {
			t.Errorf("given up after %v", took)
		}
		abandoned := h.records("record abandoned")
		if len(abandoned) != 1 || abandoned[0]["reason"] != "store_timeout" || abandoned[0]["count"] != 2.0 {
			t.Errorf("abandoned: %v", abandoned)
		}
		equal(t, "counted", h.obs.Metrics().Outcomes.Completed, 0)
		down.Store(false)
		pass(10 * time.Second)
		h.ledger.always(success(fencerow.AnswerDuplicate))
		equal(t, "claimed again", h.runOnce().Claimed, 2)
		equal(t, "outcome", h.life().Outcome, fencerow.OutcomeDuplicateCompleted)
		equal(t, "batch record", h.records("batch claimed")[1]["reclaimed_count"], any(2.0))
	})

	bubble(t, "StoreThatPanicsTakesNoGoroutineWithIt", func(t *testing.T) {
		h := newHarness(t, nil)
		h.faults.before = map[string]func() error{"RecordOutcomes": func() error { panic("secret") }}
		h.enqueue("e", 2)
		if _, err := h.w.RunOnce(t.Context()); !errors.Is(err, fencerow.ErrStoreFailed) {
			t.Errorf("error: %v", err)
		}
		if strings.Contains(h.log.String(), "secret") {
			t.Errorf("log: %s", h.log.String())
		}
		check(t, h.w.Shutdown(t.Context()))
	})

	bubble(t, "StoreThatAnswersTooLittleTakesNoGoroutineWithIt", func(t *testing.T) {
		h := newHarness(t, nil)
		h.w.store = shortAnswers{h.store}
		h.enqueue("e", 3)
		if _, err := h.w.RunOnce(t.Context()); err == nil {
			t.Error("no error")
		}
		equal(t, "exc_type", h.records("poll failed")[0]["exc_type"], any("runtime.boundsError"))
		check(t, h.w.Shutdown(t.Context()))
	})

	bubble(t, "OutcomesAreRecordedInGroupsAsTheyArrive", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.Concurrency = 10 })
		h.ledger.set(func(ctx context.Context, d fencerow.Delivery) fencerow.Answer {
			var n int
			fmt.Sscanf(string(d.Entry.CorrelationID), "e-%d", &n) //nolint:errcheck // the test's own ids
			return after(time.Duration(n)*time.Second, delivered())(ctx, d)
		})
		h.enqueue("e", 3)
		_, err := h.w.Poll(t.Context())
		check(t, err)
		for i := range 3 {
			pass(time.Second + 10*time.Millisecond)
			equal(t, "completed", h.counts()[fencerow.StatusCompleted], int64(i+1))
		}
	})
}

// shortAnswers is a store with a defect: it leaves out a verdict.
type shortAnswers struct{ fencerow.Claimer }

func (s shortAnswers) RecordOutcomes(
	ctx context.Context, p fencerow.RecordParams,
) ([]fencerow.Verdict, error) {
	verdicts, err := s.Claimer.RecordOutcomes(ctx, p)
	return verdicts[:max(0, len(verdicts)-1)], err
}

func TestClaimInDoubt(t *testing.T) {
	bubble(t, "LostAnswerToAClaimIsGivenBackAtOnceAtNoCost", func(t *testing.T) {
		h := newHarness(t, nil)
		h.faults.lose("ClaimBatch", 1, errTimeout)
		h.enqueue("e", 4)
		if _, err := h.w.RunOnce(t.Context()); !errors.Is(err, fencerow.ErrStoreTimeout) {
			t.Errorf("error: %v", err)
		}
		equal(t, "leased", h.leased(), 0)
		equal(t, "claimed", h.runOnce().Claimed, 4)
		equal(t, "attempts", h.life().Attempts, 1)
		equal(t, "counted once", h.obs.Metrics().Outcomes.Completed, 4)
		equal(t, "in doubt", len(h.w.doubts), 0)
	})

	bubble(t, "ClaimThatCommitsAfterItsAnswerWasLostIsFoundAtALaterPoll", func(t *testing.T) {
		h := newHarness(t, nil)
		late := &lateClaims{Claimer: h.store}
		h.w.store = late
		h.enqueue("e", 4)
		if _, err := h.w.RunOnce(t.Context()); !errors.Is(err, fencerow.ErrStoreTimeout) {
			t.Errorf("error: %v", err)
		}
		late.commit(t)
		equal(t, "leased by the claim in doubt", h.leased(), 4)
		pass(time.Second)
		equal(t, "claimed", h.runOnce().Claimed, 4)
		equal(t, "completed", h.counts()[fencerow.StatusCompleted], 4)
		equal(t, "attempts", h.life().Attempts, 1)
	})

	for _, c := range []struct{ lease, looked time.Duration }{
		{5 * time.Second, 15 * time.Second}, {30 * time.Second, 15 * time.Second},
		{10 * time.Minute, 5 * time.Minute},
	} {
		bubble(t, "ClaimInDoubtIsForgottenAfterAWhile/"+c.lease.String(), func(t *testing.T) {
			h := newHarness(t, func(cfg *Config) { cfg.Lease, cfg.DeliveryTimeout = c.lease, 2*time.Second })
			h.faults.fail("ClaimBatch", 1, errTimeout)
			if _, err := h.w.RunOnce(t.Context()); err == nil {
				t.Error("no error")
			}
			pass(c.looked - 1)
			h.runOnce()
			equal(t, "in doubt before", len(h.w.doubts), 1)
			pass(1)
			h.runOnce()
			equal(t, "in doubt", len(h.w.doubts), 0)
		})
	}

	bubble(t, "ClaimsInDoubtAreBounded", func(t *testing.T) {
		h := newHarness(t, nil)
		h.faults.fail("ClaimBatch", 1000, errTimeout)
		h.faults.fail("Release", 1000, errTimeout)
		for range 500 {
			if _, err := h.w.RunOnce(t.Context()); err == nil {
				t.Fatal("no error")
			}
		}
		equal(t, "in doubt", len(h.w.doubts), maxDoubts)
	})

	for _, code := range []fencerow.Code{
		fencerow.ErrStoreData, fencerow.ErrStorePermission, fencerow.ErrStoreSchema, fencerow.ErrStoreReadOnly,
		fencerow.ErrStoreCredentials, fencerow.ErrStoreFull, fencerow.ErrStoreFailed,
	} {
		bubble(t, "ClaimWhoseEntriesCouldNotBeReadIsGivenBack/"+string(code), func(t *testing.T) {
			h := newHarness(t, nil)
			h.faults.lose("ClaimBatch", 1, fencerow.NewError("read entries", code, nil))
			h.enqueue("e", 4)
			if _, err := h.w.RunOnce(t.Context()); !errors.Is(err, code) {
				t.Errorf("error: %v", err)
			}
			equal(t, "leased", h.leased(), 0)
		})
	}

	for name, refusal := range map[string]error{
		"Busy": errBusy, "InstanceHeld": fencerow.NewError("claim batch", fencerow.ErrInstanceHeld, nil),
		"Input":   &fencerow.InputError{Field: "limit", Problem: "is bad"},
		"Refused": &fencerow.ClaimRefusedError{Why: fencerow.RefusedForeign},
	} {
		bubble(t, "RefusedClaimIsNotInDoubt/"+name, func(t *testing.T) {
			h := newHarness(t, nil)
			h.faults.fail("ClaimBatch", 1, refusal)
			h.faults.fail("Release", 1, errors.New("must not be called"))
			if _, err := h.w.RunOnce(t.Context()); err != nil && !errors.Is(err, refusal) {
				t.Errorf("error: %v", err)
			}
			equal(t, "in doubt", len(h.w.doubts), 0)
		})
	}
}

// lateClaims loses its first claim's answer before the server has done it.
type lateClaims struct {
	fencerow.Claimer
	held *fencerow.ClaimBatchParams
	done bool
}

func (l *lateClaims) ClaimBatch(ctx context.Context, p fencerow.ClaimBatchParams) (*fencerow.Claim, error) {
	if !l.done {
		l.held, l.done = &p, true
		return nil, errTimeout
	}
	return l.Claimer.ClaimBatch(ctx, p)
}

func (l *lateClaims) commit(t *testing.T) {
	t.Helper()
	_, err := l.Claimer.ClaimBatch(t.Context(), *l.held)
	check(t, err)
}
