package writer

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// tick is one poll of a daemon, a second after the last.
func (h *harness) tick() PollResult {
	h.t.Helper()
	res := h.runOnce()
	pass(time.Second)
	return res
}

// failing is when the target was last seen to fail.
func (h *harness) failing() time.Time {
	h.w.health.mu.Lock()
	defer h.w.health.mu.Unlock()
	return h.w.health.failing
}

func TestTargetHold(t *testing.T) {
	for name, failure := range map[string]fencerow.Answer{
		"Refused":            refused,
		"Unavailable":        unavailable,
		"CredentialsRefused": retryable(fencerow.ReasonCredentialsRefused, fencerow.Answered, fencerow.ScopeTarget),
		"WrongAddress":       retryable(fencerow.ReasonEndpointRefused, fencerow.Answered, fencerow.ScopeTarget),
		"Throttled":          retryable(fencerow.ReasonThrottled, fencerow.Answered, fencerow.ScopeTarget),
	} {
		bubble(t, "OutageCostsOneRequestAPollAndNoAttempt/"+name, func(t *testing.T) {
			h := newHarness(t, func(c *Config) { c.MaxAttempts = 3 })
			h.ledger.always(failure)
			h.enqueue("e", 50)
			h.tick()
			if n := len(h.ledger.take()); n > 4 {
				t.Errorf("the poll that found out sent %d requests with 4 at once", n)
			}
			for range 900 {
				res := h.tick()
				equal(t, "more", res.More, false)
				if n := len(h.ledger.take()); n > 1 {
					t.Fatalf("a poll of the hold sent %d requests", n)
				}
			}
			equal(t, "pending", h.counts()[fencerow.StatusPending], 50)
			for i := range 50 {
				equal(t, "attempts", h.attempts(fencerow.CorrelationID(fmt.Sprintf("e-%d", i+1))), 0)
			}
			h.ledger.always(delivered())
			for range 5 {
				h.tick()
			}
			equal(t, "completed soon after it is back", h.counts()[fencerow.StatusCompleted], 50)
			held, resumed := h.records("target held"), h.records("target resumed")
			if len(held) != 1 || len(resumed) != 1 || held[0]["reason"] != string(failure.Reason) {
				t.Errorf("held: %v, resumed: %v", held, resumed)
			}
		})
	}

	bubble(t, "RestOfTheBatchIsReleasedAtNoCost", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.Concurrency = 1 })
		h.ledger.always(refused)
		h.enqueue("e", 10)
		h.runOnce()
		equal(t, "sent", len(h.ledger.take()), 1)
		equal(t, "leased", h.leased(), 0)
		equal(t, "attempts", h.attempts("e-7"), 0)
		equal(t, "uncertain", h.show("e-7").Pending.Uncertain, false)
	})

	bubble(t, "AnotherClaimInFlightIsReleasedToo", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.Concurrency = 1; c.BatchLimit = 5 })
		h.ledger.set(after(time.Second, unavailable))
		h.enqueue("e", 10)
		for range 2 {
			_, err := h.w.Poll(t.Context())
			check(t, err)
		}
		pass(2 * time.Second)
		equal(t, "sent", len(h.ledger.take()), 1)
		equal(t, "leased", h.leased(), 0)
	})

	bubble(t, "AnswersToEarlierDeliveriesDoNotEndTheHold", func(t *testing.T) {
		h := newHarness(t, nil)
		h.ledger.set(func(ctx context.Context, d fencerow.Delivery) fencerow.Answer {
			if d.Entry.CorrelationID == "e-1" {
				return after(time.Second, refused)(ctx, d)
			}
			return after(2*time.Second, delivered())(ctx, d)
		})
		h.enqueue("e", 4)
		h.runOnce()
		equal(t, "resumed", len(h.records("target resumed")), 0)
		h.ledger.always(delivered())
		pass(time.Second)
		h.runOnce()
		equal(t, "resumed by the probe", len(h.records("target resumed")), 1)
	})

	bubble(t, "RetryAfterHoldsProbesUntilItHasPassed", func(t *testing.T) {
		h := newHarness(t, nil)
		throttled := retryable(fencerow.ReasonThrottled, fencerow.Answered, fencerow.ScopeTarget)
		throttled.RetryAfter = time.Minute
		h.ledger.always(throttled)
		h.enqueue("e", 10)
		h.tick()
		h.ledger.take()
		for range 59 {
			equal(t, "skipped", h.tick().Skipped, SkippedTargetHeld)
		}
		equal(t, "sent meanwhile", len(h.ledger.take()), 0)
		h.ledger.always(delivered())
		equal(t, "claimed by the probe", h.tick().Claimed, 1)
		h.tick()
		equal(t, "completed", h.counts()[fencerow.StatusCompleted], 10)
		equal(t, "empty polls", h.obs.Metrics().Claims.EmptyPolls, 0)
	})

	bubble(t, "RetryAfterOfTenYearsHoldsForAnHour", func(t *testing.T) {
		h := newHarness(t, nil)
		throttled := retryable(fencerow.ReasonThrottled, fencerow.Answered, fencerow.ScopeTarget)
		throttled.RetryAfter = 10 * 365 * 24 * time.Hour
		h.ledger.always(throttled)
		h.enqueue("e", 3)
		h.tick()
		h.ledger.always(delivered())
		pass(time.Hour)
		equal(t, "claimed", h.tick().Claimed, 1)
	})

	for name, pause := range map[string]time.Duration{"AtOnce": 0, "AfterAPause": time.Second} {
		bubble(t, "ThrottlingLedgerUsesUpNoAttempt/"+name, func(t *testing.T) {
			h := newHarness(t, func(c *Config) {
				c.MaxAttempts, c.BackoffBase, c.BackoffCap = 3, 100*time.Millisecond, time.Second
			})
			throttled := retryable(fencerow.ReasonThrottled, fencerow.Answered, fencerow.ScopeTarget)
			throttled.RetryAfter = pause
			var mu sync.Mutex
			let := map[int64]int{} // in each second, the first few
			h.ledger.set(func(context.Context, fencerow.Delivery) fencerow.Answer {
				mu.Lock()
				defer mu.Unlock()
				if let[time.Now().Unix()]++; let[time.Now().Unix()] > 5 {
					return throttled
				}
				return delivered()
			})
			h.enqueue("e", 200)
			for range 600 {
				h.runOnce()
				pass(100 * time.Millisecond)
			}
			equal(t, "completed", h.counts()[fencerow.StatusCompleted], 200)
			sent := h.ledger.take()
			for _, s := range sent {
				equal(t, "attempt", s.attempt, 1)
			}
			if len(sent) > 200+600+4*60 {
				t.Errorf("%d requests for 200 entries: more than a probe a poll, and what was under way", len(sent))
			}
		})
	}

	for name, failure := range map[string]fencerow.Answer{
		"NotFound": retryable(fencerow.ReasonEndpointRefused, fencerow.Answered, fencerow.ScopeTarget),
		"503":      unavailable,
	} {
		bubble(t, "EntryThatAloneBlamesTheTargetHoldsNobodyUp/"+name, func(t *testing.T) {
			h := newHarness(t, func(c *Config) { c.MaxAttempts = 5 })
			h.ledger.only("poison-1", failure)
			h.enqueue("poison", 1)
			polls := 0
			for h.show("poison-1").Status == fencerow.StatusPending && polls < 3600 {
				h.enqueue(fmt.Sprint("e", polls), 2)
				h.tick()
				polls++
			}
			equal(t, "status", h.show("poison-1").Status, fencerow.StatusDeadLettered)
			h.tick()
			h.tick()
			equal(t, "others completed", h.counts()[fencerow.StatusCompleted], int64(2*polls))
			// A draw does not count if nobody was answered since the one before, as can happen once here: the
			// order in which deliveries end is free.
			if n := len(h.records("target held")); n > drawsToBlame {
				t.Errorf("the target was held %d times for one entry", n)
			}
		})
	}

	bubble(t, "EntryKnownForItIsNotChargedInARealOutage", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.MaxAttempts = 20 })
		h.ledger.only("poison-1", unavailable)
		h.enqueue("poison", 1)
		for i := range 20 {
			h.enqueue(fmt.Sprint("e", i), 1)
			h.tick()
		}
		h.ledger.always(unavailable)
		h.enqueue("late", 3)
		h.tick()
		before := h.attempts("poison-1")
		if before == 0 {
			t.Fatal("the poison was never charged")
		}
		for range 900 {
			h.tick()
		}
		if n := h.attempts("poison-1"); n > before+1 {
			t.Errorf("the outage charged it %d times", n-before)
		}
	})
}

func TestStreak(t *testing.T) {
	for name, answer := range map[string]func(context.Context, fencerow.Delivery) fencerow.Answer{
		"500":  after(0, serverError),
		"Cut":  after(0, cut),
		"Hang": hang,
	} {
		bubble(t, "OutageThatLooksLikeTheEntriesFaultDeadLettersNothing/"+name, func(t *testing.T) {
			h := newHarness(t, func(c *Config) { c.MaxAttempts = 3 })
			h.ledger.set(answer)
			h.enqueue("e", 30)
			for range 300 {
				h.tick()
			}
			h.ledger.take()
			h.tick()
			if n := len(h.ledger.take()); n > 1 {
				t.Errorf("a poll sent %d requests although the target is known to be down", n)
			}
			equal(t, "pending", h.counts()[fencerow.StatusPending], 30)
			for i := range 30 {
				equal(t, "attempts", h.attempts(fencerow.CorrelationID(fmt.Sprintf("e-%d", i+1))), 0)
			}
			equal(t, "held", len(h.records("target held")), 1)
			h.ledger.always(delivered())
			for range 5 {
				h.tick()
			}
			equal(t, "completed", h.counts()[fencerow.StatusCompleted], 30)
		})
	}

	bubble(t, "FiveDifferentEntriesBlameTheTarget", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.Concurrency = 1 })
		h.ledger.always(serverError)
		h.enqueue("e", 10)
		h.runOnce()
		equal(t, "sent", len(h.ledger.take()), 5)
		for i := range 5 {
			equal(t, "attempts", h.attempts(fencerow.CorrelationID(fmt.Sprintf("e-%d", i+1))), 0)
		}
		equal(t, "uncertain", h.show("e-1").Pending.Uncertain, true)
		equal(t, "never sent", h.show("e-9").Pending.Uncertain, false)
	})

	bubble(t, "FourAreTheEntriesOwnFault", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.Concurrency = 1 })
		h.ledger.always(serverError)
		h.enqueue("e", 4)
		h.runOnce()
		for i := range 4 {
			equal(t, "attempts", h.attempts(fencerow.CorrelationID(fmt.Sprintf("e-%d", i+1))), 1)
		}
		equal(t, "held", len(h.records("target held")), 0)
	})

	bubble(t, "AnswerBetweenBreaksTheStreak", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.Concurrency = 1 })
		h.ledger.set(func(_ context.Context, d fencerow.Delivery) fencerow.Answer {
			if d.Entry.CorrelationID == "e-5" {
				return notReady // an answer, although not a success
			}
			return serverError
		})
		h.enqueue("e", 9)
		h.runOnce()
		equal(t, "sent", len(h.ledger.take()), 9)
		equal(t, "attempts", h.attempts("e-1"), 1)
		equal(t, "attempts", h.attempts("e-9"), 1)
		equal(t, "held", len(h.records("target held")), 0)
	})

	for _, waiting := range []int{1, streakLength - 1} {
		bubble(t, fmt.Sprint("OutageWithFewEntriesWaitingDeadLettersNothing/", waiting), func(t *testing.T) {
			h := newHarness(t, func(c *Config) { c.MaxAttempts = 3 })
			h.ledger.always(serverError)
			h.enqueue("e", waiting)
			for range 24 {
				h.runOnce()
				pass(time.Hour)
			}
			equal(t, "pending", h.counts()[fencerow.StatusPending], int64(waiting))
			equal(t, "attempts", h.attempts("e-1"), 2)
			equal(t, "uncertain", h.show("e-1").Pending.Uncertain, true)
			equal(t, "held", len(h.records("target held")), 0)
			equal(t, "sent", len(h.ledger.take()), 24*waiting)
			h.ledger.always(delivered())
			h.runOnce()
			equal(t, "completed", h.counts()[fencerow.StatusCompleted], int64(waiting))
		})
	}

	bubble(t, "SparedResultWaitsAsLongAsAChargedOne", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.MaxAttempts = 3 })
		h.ledger.always(serverError)
		h.enqueue("lone", 1)
		h.prepare("lone-1", 2, "", false)
		h.runOnce()
		pass(4*time.Second - 1) // base 1 s, third attempt
		equal(t, "claimed before", h.runOnce().Claimed, 0)
		pass(time.Second)
		equal(t, "claimed after", h.runOnce().Claimed, 1)
	})

	bubble(t, "AnswerToAnotherEntryMeanwhileDeadLettersALastAttempt", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.MaxAttempts = 3; c.Concurrency = 1 })
		h.ledger.only("e-1", cut)
		h.enqueue("e", 2)
		h.prepare("e-1", 2, "", false)
		pass(time.Second)
		h.runOnce()
		equal(t, "reason", h.life().Reason, fencerow.ReasonConnectionCut.AsUnverified())
	})

	bubble(t, "PoisonThatIsAlwaysClaimedAloneIsDeadLetteredWhileOthersAreAnsweredInBetween", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.MaxAttempts = 3 })
		h.ledger.only("poison-1", serverError)
		h.enqueue("poison", 1)
		polls := 0
		for ; h.show("poison-1").Status == fencerow.StatusPending && polls < 10; polls++ {
			h.runOnce()
			h.enqueue(fmt.Sprint("e", polls), 1)
			h.runOnce()
			pass(time.Hour)
		}
		equal(t, "polls", polls, 3-1+drawsToBlame)
		equal(t, "status", h.show("poison-1").Status, fencerow.StatusDeadLettered)
	})

	bubble(t, "UndecidedResultsWaitForTheEndOfTheirClaim", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.Concurrency = 1 })
		h.ledger.set(func(ctx context.Context, d fencerow.Delivery) fencerow.Answer {
			if d.Entry.CorrelationID == "e-1" {
				return serverError
			}
			return after(8*time.Second, serverError)(ctx, d)
		})
		h.enqueue("e", 2)
		_, err := h.w.Poll(t.Context())
		check(t, err)
		pass(7 * time.Second)
		equal(t, "attempts before", h.attempts("e-1"), 0)
		pass(2 * time.Second)
		equal(t, "attempts after", h.attempts("e-1"), 1)
	})

	bubble(t, "ChargesOfEarlierPollsAreGivenBack", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.BatchLimit = 2; c.Concurrency = 1 })
		h.ledger.always(serverError)
		h.enqueue("e", 8)
		h.runOnce()
		h.runOnce()
		equal(t, "charged", h.attempts("e-1")+h.attempts("e-2")+h.attempts("e-3")+h.attempts("e-4"), 4)
		h.runOnce() // the fifth
		equal(t, "held", len(h.records("target held")), 1)
		retries := h.obs.Metrics().Outcomes.RetryableFailure
		h.runOnce() // a probe; the charges are given back after it
		for i := range 8 {
			equal(t, "attempts", h.attempts(fencerow.CorrelationID(fmt.Sprintf("e-%d", i+1))), 0)
		}
		equal(t, "retries counted by giving back", h.obs.Metrics().Outcomes.RetryableFailure-retries, 1)
	})

	bubble(t, "ChargeIsGivenBackOnceAnotherWorkerLetsGoOfTheRow", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.BatchLimit = 2; c.Concurrency = 1 })
		h.ledger.always(serverError)
		h.enqueue("e", 8)
		h.runOnce()
		h.runOnce()
		other, err := h.store.ClaimOne(t.Context(), fencerow.ClaimOneParams{
			Instance: self, Worker: "other", Token: fencerow.NewClaimToken(), CorrelationID: "e-1",
			Lease: time.Minute, ForceDue: true,
		})
		check(t, err)
		h.runOnce()
		h.runOnce()
		equal(t, "still charged", h.attempts("e-2"), 0)
		h.release(other)
		equal(t, "charged", h.attempts("e-1"), 1)
		h.runOnce()
		equal(t, "given back", h.attempts("e-1"), 0)
	})

	bubble(t, "FailureThatBlamesTheTargetForgivesTheAmbiguousOnesJustBefore", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.Concurrency = 1 })
		h.ledger.set(func(_ context.Context, d fencerow.Delivery) fencerow.Answer {
			if d.Entry.CorrelationID == "e-4" {
				return refused
			}
			return cut
		})
		h.enqueue("e", 8)
		h.runOnce()
		equal(t, "sent", len(h.ledger.take()), 4)
		for i := range 8 {
			equal(t, "attempts", h.attempts(fencerow.CorrelationID(fmt.Sprintf("e-%d", i+1))), 0)
		}
	})

	bubble(t, "ProbeThatFailsAfterAnotherHasEndedTheHoldIsTheTargetsFault", func(t *testing.T) {
		h := newHarness(t, nil)
		h.ledger.always(unavailable)
		h.enqueue("e", 3)
		h.tick()
		h.ledger.take()
		h.ledger.set(after(3*time.Second, cut))
		_, err := h.w.Poll(t.Context())
		check(t, err)
		pass(time.Second)
		late := h.ledger.take()[0].id
		h.ledger.always(delivered())
		h.tick()
		equal(t, "resumed", len(h.records("target resumed")), 1)
		failing := h.failing()
		pass(3 * time.Second)
		equal(t, "attempts", h.attempts(late), 0)
		equal(t, "last failure of the target", h.failing(), failing)
	})

	bubble(t, "DeliveryThatFailsAfterAHoldBeganAndEndedIsTheTargetsFault", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.Concurrency = 2 })
		h.ledger.set(func(ctx context.Context, d fencerow.Delivery) fencerow.Answer {
			if d.Entry.CorrelationID == "e-1" {
				return after(3*time.Second, cut)(ctx, d)
			}
			return unavailable
		})
		h.enqueue("e", 2)
		_, err := h.w.Poll(t.Context())
		check(t, err)
		pass(time.Second)
		equal(t, "held", len(h.records("target held")), 1)
		h.ledger.always(delivered())
		h.enqueue("later", 1)
		h.tick()
		equal(t, "resumed", len(h.records("target resumed")), 1)
		pass(3 * time.Second)
		equal(t, "attempts", h.attempts("e-1"), 0)
	})

	bubble(t, "PoisonThatOverlapsAHoldEachTimeIsDeadLettered", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.MaxAttempts = 3 })
		var down atomic.Bool
		h.ledger.set(func(ctx context.Context, d fencerow.Delivery) fencerow.Answer {
			switch {
			case d.Entry.CorrelationID == "poison-1":
				return after(4*time.Second, cut)(ctx, d)
			case down.Load():
				return unavailable
			}
			return delivered()
		})
		h.enqueue("poison", 1)
		sends := 0
		for round := 0; h.show("poison-1").Status == fencerow.StatusPending && round < 100; round++ {
			h.enqueue(fmt.Sprint("e", round), 1)
			for poll := range 3 {
				down.Store(poll == 0)
				_, err := h.w.Poll(t.Context())
				check(t, err)
				pass(time.Second - time.Millisecond)
				h.enqueue(fmt.Sprint("later", round, "-", poll), 1)
			}
			pass(time.Hour)
			for _, s := range h.ledger.take() {
				if s.id == "poison-1" {
					sends++
				}
			}
		}
		equal(t, "status", h.show("poison-1").Status, fencerow.StatusDeadLettered)
		// Two are forgiven, as any entry's are.
		equal(t, "sends", sends, drawsToBlame-1+3)
		equal(t, "holds that they overlapped", len(h.records("target held")), sends)
	})

	bubble(t, "TwoPoisonsThatBlameNobodyElseAreDeadLettered", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.MaxAttempts = 5 })
		h.ledger.set(func(ctx context.Context, d fencerow.Delivery) fencerow.Answer {
			switch d.Entry.CorrelationID {
			case "poison-1":
				return serverError
			case "poison-2":
				return hang(ctx, d)
			}
			return delivered()
		})
		h.enqueue("poison", 2)
		for i := range 300 {
			h.enqueue(fmt.Sprint("e", i), 3)
			h.tick()
		}
		equal(t, "dead-lettered", h.counts()[fencerow.StatusDeadLettered], 2)
		equal(t, "completed", h.counts()[fencerow.StatusCompleted], 900)
	})

	bubble(t, "ManyPoisonsInARowAreFoundOut", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.MaxAttempts = 5; c.Concurrency = 1 })
		h.ledger.set(func(_ context.Context, d fencerow.Delivery) fencerow.Answer {
			if d.Entry.CorrelationID[0] == 'p' {
				return serverError
			}
			return delivered()
		})
		h.enqueue("poison", 6)
		for i := range 400 {
			h.enqueue(fmt.Sprint("e", i), 1)
			h.tick()
		}
		equal(t, "dead-lettered", h.counts()[fencerow.StatusDeadLettered], 6)
		equal(t, "completed", h.counts()[fencerow.StatusCompleted], 400)
	})
}

func TestOwnAnswerIsNoAnswerToOthers(t *testing.T) {
	var d draws
	answered := uint64(0)
	for range 2 * drawsToBlame {
		if d.draw(1, answered) {
			t.Fatal("blamed although nobody else was answered")
		}
		answered++
		d.discountOwnAnswer(1)
	}
	for i := range drawsToBlame - 1 {
		answered++ // another entry's
		equal(t, "blamed", d.draw(1, answered), i == drawsToBlame-2)
	}
}

func TestDrawsForgetTheOldest(t *testing.T) {
	var d draws
	for id := range fencerow.OutboxID(10 * maxDraws) {
		d.draw(id, uint64(id))
	}
	if n := len(d.young) + len(d.old); n > maxDraws {
		t.Errorf("%d entries are remembered", n)
	}
	equal(t, "draws of the last", d.find(10*maxDraws-1).times, 1)
	equal(t, "draws of the first", d.find(0).times, 0)
}
