package writer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fourblocks2020/fencerow"
)

func TestPoll(t *testing.T) {
	bubble(t, "RunOnceRecordsEveryRow", func(t *testing.T) {
		h := newHarness(t, nil)
		h.enqueue("e", 7)
		res := h.runOnce()
		equal(t, "claimed", res.Claimed, 7)
		equal(t, "completed", h.counts()[fencerow.StatusCompleted], 7)
		equal(t, "counted", h.obs.Metrics().Outcomes.Completed, 7)
		equal(t, "batches", h.obs.Metrics().Claims.ClaimedBatches, 1)

		claims, recorded := h.records("batch claimed"), h.records("outcome recorded")
		if len(claims) != 1 || idsOf(claims[0]) != 7 || claims[0]["count"] != 7.0 {
			t.Errorf("claim records: %v", claims)
		}
		if len(recorded) != 1 || idsOf(recorded[0]) != 7 {
			t.Errorf("success records: %v", recorded)
		}
	})

	bubble(t, "PollDoesNotWaitForDeliveries", func(t *testing.T) {
		h := newHarness(t, nil)
		h.ledger.set(after(5*time.Second, delivered()))
		h.enqueue("first", 2)
		start := time.Now()
		_, err := h.w.Poll(t.Context())
		check(t, err)
		h.enqueue("second", 2)
		res, err := h.w.Poll(t.Context())
		check(t, err)
		equal(t, "claimed by the second poll", res.Claimed, 2)
		equal(t, "time taken", time.Since(start), 0)
		pass(6 * time.Second)
		equal(t, "completed", h.counts()[fencerow.StatusCompleted], 4)
	})

	bubble(t, "DeliveriesOfAllClaimsShareTheBound", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.BatchLimit = 10; c.Budget = 30 })
		h.ledger.set(after(time.Second, delivered()))
		h.enqueue("e", 30)
		for range 3 {
			_, err := h.w.Poll(t.Context())
			check(t, err)
		}
		pass(10 * time.Second)
		equal(t, "completed", h.counts()[fencerow.StatusCompleted], 30)
		equal(t, "deliveries at once", h.ledger.peak, 4)
	})

	bubble(t, "NoMoreIsClaimedThanTheBudget", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.BatchLimit = 10; c.Budget = 15 })
		h.ledger.set(after(time.Second, delivered()))
		h.enqueue("e", 40)
		var got []string
		for range 3 {
			res, err := h.w.Poll(t.Context())
			check(t, err)
			got = append(got, fmt.Sprint(res.Claimed, res.Skipped))
		}
		equal(t, "polls", strings.Join(got, ", "), "10, 5, 0no_room")
		equal(t, "empty polls", h.obs.Metrics().Claims.EmptyPolls, 0)
		check(t, h.w.Shutdown(t.Context()))
	})

	bubble(t, "WakeFollowsRoomUntilTheBacklogIsDone", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.BatchLimit = 10 })
		h.ledger.set(after(100*time.Millisecond, delivered()))
		h.enqueue("e", 95)
		start := time.Now()
		for h.counts()[fencerow.StatusCompleted] < 95 {
			_, err := h.w.Poll(t.Context())
			check(t, err)
			select {
			case <-h.w.Wake():
			case <-time.After(time.Minute):
				synctest.Wait()
			}
		}
		// 95 deliveries of 100 ms by four at a time, and the last minute's wait without a wake.
		if took := time.Since(start) - time.Minute; took > 3*time.Second {
			t.Errorf("the backlog took %v", took)
		}
	})

	bubble(t, "ClaimOfWhichNothingStartedWakesNobody", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.BatchLimit = 10 })
		h.answerClaimsAfter(18 * time.Second) // the window to start in is 17 s
		h.enqueue("e", 95)
		res := h.runOnce()
		equal(t, "claimed", res.Claimed, 10)
		equal(t, "more", res.More, false)
		pass(time.Minute)
		select {
		case <-h.w.Wake():
			t.Error("woken")
		default:
		}
		equal(t, "sent", len(h.ledger.take()), 0)
		equal(t, "leased", h.leased(), 0)
	})

	bubble(t, "AClaimIsNoLargerThanWhatCanStartAtTheRecentPace", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.BatchLimit = 1000 })
		h.ledger.set(after(2*time.Second, delivered()))
		h.enqueue("e", 1000)
		h.runOnce() // learns the pace; what did not fit was released
		res := h.runOnce()
		// 30 s lease, 10 s for a delivery, 3 s margin: 17 s to start in, four at a time, 2 s each.
		equal(t, "claimed", res.Claimed, 34)
		equal(t, "leased", h.leased(), 0)
		res, err := h.w.Poll(t.Context())
		check(t, err)
		equal(t, "claimed", res.Claimed, 34)
		res, err = h.w.Poll(t.Context())
		check(t, err)
		equal(t, "skipped behind those that wait", res.Skipped, SkippedNoRoom)
		check(t, h.w.Shutdown(t.Context()))
	})

	bubble(t, "BusyStoreIsNeitherEmptyNorAFailure", func(t *testing.T) {
		h := newHarness(t, nil)
		h.faults.fail("ClaimBatch", 1, errBusy)
		equal(t, "skipped", h.runOnce().Skipped, SkippedStoreBusy)
		equal(t, "empty polls", h.obs.Metrics().Claims.EmptyPolls, 0)
		equal(t, "log", h.log.String(), "")
	})

	bubble(t, "HeldInstanceIsNotAnEmptyPoll", func(t *testing.T) {
		h := newHarness(t, nil)
		h.enqueue("e", 1)
		_, err := h.store.Hold(t.Context(), self)
		check(t, err)
		equal(t, "skipped", h.runOnce().Skipped, SkippedInstanceHeld)
		_, err = h.store.Resume(t.Context(), self)
		check(t, err)
		equal(t, "claimed after resume", h.runOnce().Claimed, 1)
		equal(t, "empty polls", h.obs.Metrics().Claims.EmptyPolls, 0)
	})

	bubble(t, "UnreachableStoreIsAnErrorAndTheNextPollGoesOn", func(t *testing.T) {
		h := newHarness(t, nil)
		h.enqueue("e", 1)
		gone := fencerow.NewError("claim batch", fencerow.ErrStoreUnavailable, nil)
		h.faults.fail("ClaimBatch", 1, gone)
		if _, err := h.w.RunOnce(t.Context()); !errors.Is(err, fencerow.ErrStoreUnavailable) {
			t.Errorf("error: %v", err)
		}
		equal(t, "claimed", h.runOnce().Claimed, 1)
	})

	bubble(t, "CancelledContextClaimsNothing", func(t *testing.T) {
		h := newHarness(t, nil)
		h.enqueue("e", 1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		res, err := h.w.RunOnce(ctx)
		check(t, err)
		equal(t, "skipped", res.Skipped, SkippedStopping)
	})

	bubble(t, "BackToBackPollsOfManyCallersDeliverEachRowOnce", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.BatchLimit = 50; c.Budget = 100 })
		h.enqueue("e", 1000)
		var polls atomic.Int64
		done := make(chan struct{})
		for range 4 {
			go func() {
				for h.counts()[fencerow.StatusCompleted] < 1000 {
					if _, err := h.w.RunOnce(t.Context()); err != nil {
						t.Error(err)
					}
					polls.Add(1)
				}
				done <- struct{}{}
			}()
		}
		for range 4 {
			<-done
		}
		ids := map[fencerow.CorrelationID]int{}
		for _, s := range h.ledger.take() {
			ids[s.id]++
		}
		equal(t, "entries sent", len(ids), 1000)
		for id, n := range ids {
			equal(t, string(id), n, 1)
		}
	})
}

// Two writers poll for a day of one-second ticks with nothing to do.
func TestIdleWritersCountEveryPollAndLogNothing(t *testing.T) {
	const day = 86_400
	for _, instance := range []fencerow.InstanceKey{"instance-a", "instance-b"} {
		h := newHarness(t, nil)
		cfg := testConfig()
		cfg.Instance = instance
		obs := observerOf(t, h.log, instance)
		w, err := New(h.store, h.ledger, obs, cfg)
		check(t, err)
		for range day {
			res, err := w.RunOnce(t.Context())
			if err != nil || !res.Empty() {
				t.Fatalf("idle poll: %+v, %v", res, err)
			}
		}
		m := obs.Metrics()
		equal(t, "empty polls", m.Claims.EmptyPolls, day)
		equal(t, "claimed batches", m.Claims.ClaimedBatches, 0)
		equal(t, "log at any level", h.log.String(), "")
	}
}

func TestEmptyPollAllocatesLittleAndAlwaysTheSame(t *testing.T) {
	h := newHarness(t, nil)
	poll := func() { h.runOnce() }
	before := testing.AllocsPerRun(1000, poll)
	for range 10_000 {
		poll()
	}
	after := testing.AllocsPerRun(1000, poll)
	if before > 12 || after > before {
		t.Errorf("allocations of an empty poll: %v at first, %v after 10,000", before, after)
	}
}

func TestTrustWindow(t *testing.T) {
	bubble(t, "RowsThatCanNoLongerStartAreReleasedAtNoCost", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.Concurrency = 1 })
		h.ledger.set(after(9*time.Second, delivered()))
		h.enqueue("e", 5)
		start := time.Now()
		h.runOnce()
		// Started at 0 s and 9 s; at 18 s it is too late: 18 + 10 + 3 > 30.
		for i, s := range h.ledger.take() {
			if s.at.Sub(start) >= 17*time.Second {
				t.Errorf("delivery %d began %v after the claim was requested", i, s.at.Sub(start))
			}
		}
		equal(t, "completed", h.counts()[fencerow.StatusCompleted], 2)
		equal(t, "leased", h.leased(), 0)
		equal(t, "attempts of a released row", h.attempts("e-5"), 0)
		equal(t, "uncertain", h.show("e-5").Pending.Uncertain, false)
	})

	bubble(t, "RowsBehindHungDeliveriesAreReleasedWithoutWaitingForThem", func(t *testing.T) {
		h := newHarness(t, func(c *Config) {
			c.Lease, c.DeliveryTimeout, c.Concurrency = 10*time.Second, 8*time.Second, 1
		})
		h.ledger.set(hang)
		h.enqueue("e", 3)
		_, err := h.w.Poll(t.Context())
		check(t, err)
		pass(1100 * time.Millisecond) // 10 - 8 - 1 = 1 s to start in
		equal(t, "still leased", h.leased(), 1)
		check(t, h.w.Shutdown(t.Context()))
	})

	bubble(t, "WallClockThatJumpedEndsTheWindow", func(t *testing.T) {
		var jumped atomic.Int64
		h := newHarness(t, func(c *Config) {
			c.Concurrency = 1
			c.wallNow = func() time.Time { return time.Now().Round(0).Add(time.Duration(jumped.Load())) }
		})
		h.ledger.set(func(context.Context, fencerow.Delivery) fencerow.Answer {
			jumped.Store(int64(time.Minute)) // the machine was suspended: the monotonic clock stood still
			return delivered()
		})
		h.enqueue("e", 4)
		h.runOnce()
		equal(t, "deliveries", len(h.ledger.take()), 1)
		equal(t, "completed", h.counts()[fencerow.StatusCompleted], 1)
		equal(t, "leased", h.leased(), 0)
	})

	bubble(t, "DeliveryIsNotSentAfterTheWallClockJumped", func(t *testing.T) {
		var jumped atomic.Int64
		h := newHarness(t, func(c *Config) {
			c.wallNow = func() time.Time { return time.Now().Round(0).Add(time.Duration(jumped.Load())) }
		})
		h.ledger.set(func(ctx context.Context, _ fencerow.Delivery) fencerow.Answer {
			jumped.Store(int64(time.Minute)) // suspended while connecting
			if ctx.Err() == nil || !errors.Is(context.Cause(ctx), fencerow.ErrTrustWindowEnded) {
				t.Errorf("the context is %v, for %v", ctx.Err(), context.Cause(ctx))
			}
			return retryable(fencerow.ReasonTrustWindowEnded, fencerow.NotSent, fencerow.ScopeEntry)
		})
		h.enqueue("e", 1)
		start := time.Now()
		h.runOnce()
		equal(t, "released at once", time.Since(start) < time.Second, true)
		equal(t, "attempts", h.attempts("e-1"), 0)
		equal(t, "uncertain", h.show("e-1").Pending.Uncertain, false)
		equal(t, "leased", h.leased(), 0)
	})

	bubble(t, "RunningDeliveryEndsWithinASecondOfTheWallClock", func(t *testing.T) {
		var jumped atomic.Int64
		h := newHarness(t, func(c *Config) {
			c.wallNow = func() time.Time { return time.Now().Round(0).Add(time.Duration(jumped.Load())) }
		})
		h.ledger.set(func(ctx context.Context, d fencerow.Delivery) fencerow.Answer {
			jumped.Store(int64(time.Minute)) // suspended while waiting for the answer
			return hang(ctx, d)
		})
		h.enqueue("e", 1)
		start := time.Now()
		h.runOnce()
		if took := time.Since(start); took > clockPause+recordLinger {
			t.Errorf("it went on for %v", took)
		}
		equal(t, "reason", h.show("e-1").Pending.LastReason, fencerow.ReasonTrustWindowEnded)
		equal(t, "uncertain", h.show("e-1").Pending.Uncertain, true)
		equal(t, "attempts", h.attempts("e-1"), 0)
	})

	bubble(t, "NothingIsReadBackAfterTheWallClockJumped", func(t *testing.T) {
		var jumped atomic.Int64
		h := newHarness(t, func(c *Config) {
			c.wallNow = func() time.Time { return time.Now().Round(0).Add(time.Duration(jumped.Load())) }
		})
		h.ledger.set(func(context.Context, fencerow.Delivery) fencerow.Answer {
			jumped.Store(int64(time.Minute))
			return fencerow.Answer{Class: fencerow.AnswerConflict, Certainty: fencerow.Answered,
				Scope: fencerow.ScopeEntry, Reason: fencerow.ReasonEchoConflict, Resolve: true}
		})
		h.ledger.resolve = func(context.Context, *fencerow.Entry) fencerow.Resolution {
			t.Error("asked")
			return fencerow.Resolution{Result: fencerow.ResolveFailed}
		}
		h.enqueue("e", 1)
		h.runOnce()
		equal(t, "reason", h.show("e-1").Pending.LastReason, fencerow.ReasonEchoConflict)
	})

	bubble(t, "WallClockSetBackDoesNotLengthenTheWindow", func(t *testing.T) {
		var jumped atomic.Int64
		h := newHarness(t, func(c *Config) {
			c.Concurrency = 1
			c.wallNow = func() time.Time { return time.Now().Round(0).Add(time.Duration(jumped.Load())) }
		})
		h.ledger.set(func(ctx context.Context, d fencerow.Delivery) fencerow.Answer {
			jumped.Store(-int64(time.Hour))
			return after(9*time.Second, delivered())(ctx, d)
		})
		h.enqueue("e", 4)
		h.runOnce()
		equal(t, "deliveries", len(h.ledger.take()), 2)
	})

	bubble(t, "DeliveryContextEndsWithItsTimeout", func(t *testing.T) {
		h := newHarness(t, nil)
		h.ledger.set(hang)
		h.enqueue("e", 1)
		start := time.Now()
		h.runOnce()
		equal(t, "took", time.Since(start), DefaultDeliveryTimeout)
		equal(t, "reason", h.show("e-1").Pending.LastReason, fencerow.ReasonDeliveryTimeout)
		equal(t, "uncertain", h.show("e-1").Pending.Uncertain, true)
	})

	bubble(t, "ReadBackEndsWithTheWindow", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.Lease, c.DeliveryTimeout = 10*time.Second, 5*time.Second })
		h.ledger.set(after(5*time.Second-1, fencerow.Answer{
			Class: fencerow.AnswerConflict, Certainty: fencerow.Answered, Scope: fencerow.ScopeEntry,
			Reason: fencerow.ReasonEchoConflict, Resolve: true,
		}))
		var cause error
		h.ledger.resolve = func(ctx context.Context, _ *fencerow.Entry) fencerow.Resolution {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return fencerow.Resolution{Result: fencerow.ResolveFailed}
		}
		h.enqueue("e", 1)
		start := time.Now()
		h.runOnce()
		if took := time.Since(start); took > 9*time.Second+recordLinger {
			t.Errorf("the read-back went on until %v after the claim", took)
		}
		if !errors.Is(cause, fencerow.ErrTrustWindowEnded) {
			t.Errorf("cause: %v", cause)
		}
	})
}

func TestConfigurationThatCannotHoldIsRefused(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"NoInstance":  func(c *Config) { c.Instance = "" },
		"BadInstance": func(c *Config) { c.Instance = "two words" },
		"NoWorker":    func(c *Config) { c.Worker = "" },
		"TimeoutEqualsLeaseLessMargin": func(c *Config) {
			c.Lease, c.DeliveryTimeout = 10*time.Second, 9*time.Second
		},
		"NoTimeToStart": func(c *Config) {
			c.Lease, c.DeliveryTimeout = 10*time.Second, 8*time.Second+1
		},
		"NoTimeToStartOfAShortLease": func(c *Config) {
			c.Lease, c.DeliveryTimeout = time.Second, 601*time.Millisecond
		},
		"DefaultTimeoutWithShortLease": func(c *Config) { c.Lease = 5 * time.Second },
		"LeaseTooShort":                func(c *Config) { c.Lease = time.Millisecond },
		"LeaseTooLong":                 func(c *Config) { c.Lease = 2 * time.Hour },
		"BatchTooLarge":                func(c *Config) { c.BatchLimit = fencerow.MaxBatch + 1 },
		"NegativeBatch":                func(c *Config) { c.BatchLimit = -1 },
		"BudgetBelowBatch":             func(c *Config) { c.Budget = 99 },
		"NoConcurrency":                func(c *Config) { c.Concurrency = -1 },
		"TooManyAttempts":              func(c *Config) { c.MaxAttempts = fencerow.MaxAttempts + 1 },
		"CapBelowBase":                 func(c *Config) { c.BackoffBase = time.Minute; c.BackoffCap = time.Second },
		"CapAboveDelay":                func(c *Config) { c.BackoffCap = 48 * time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, nil)
			cfg := testConfig()
			change(&cfg)
			_, err := New(h.store, h.ledger, h.obs, cfg)
			if _, ok := errors.AsType[*fencerow.InputError](err); !ok {
				t.Errorf("error: %v", err)
			}
		})
	}
	t.Run("DeliveryTimeoutThatJustFits", func(t *testing.T) {
		cfg := testConfig()
		cfg.Lease, cfg.DeliveryTimeout = 10*time.Second, 8*time.Second
		check(t, cfg.Validate())
		cfg.Lease, cfg.DeliveryTimeout = time.Second, 600*time.Millisecond
		check(t, cfg.Validate())
	})
	t.Run("ObserverOfAnotherInstance", func(t *testing.T) {
		h := newHarness(t, nil)
		_, err := New(h.store, h.ledger, observerOf(t, h.log, "instance-b"), testConfig())
		if !errors.Is(err, fencerow.ErrInvalidInput) {
			t.Errorf("error: %v", err)
		}
	})
}

func TestBackoff(t *testing.T) {
	cfg := testConfig().withDefaults()
	for _, c := range []struct {
		name       string
		attempt    int
		retryAfter time.Duration
		random     float64
		want       time.Duration
	}{
		{"FirstRetryWaitsTheBase", 1, 0, 0, time.Second},
		{"DoublesEachTime", 4, 0, 0, 8 * time.Second},
		{"CapIsTheMost", 11, 0, 0, 10 * time.Minute},
		{"AttemptZeroIsTheFirst", 0, 0, 0, time.Second},
		{"AttemptTwoToThe31DoesNotOverflow", 1 << 31, 0, 0, 10 * time.Minute},
		{"UpperHalfIsJittered", 4, 0, 0.5, 6 * time.Second},
		{"RetryAfterLengthens", 1, time.Minute, 0, time.Minute},
		{"RetryAfterNeverShortens", 11, time.Second, 0, 10 * time.Minute},
		{"RetryAfterOfTenYearsIsAnHour", 1, 10 * 365 * 24 * time.Hour, 0, time.Hour},
		{"NegativeRetryAfterIsIgnored", 1, -5 * time.Second, 0, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg.random = func() float64 { return c.random }
			equal(t, "delay", cfg.backoff(c.attempt, c.retryAfter), c.want)
		})
	}
	t.Run("EveryAttemptIsWithinBounds", func(t *testing.T) {
		cfg.random = func() float64 { return 0.999 }
		attempts := slices.Collect(func(yield func(int) bool) {
			for i := range 100 {
				if !yield(i) || !yield(1<<i%(1<<31)) {
					return
				}
			}
		})
		for _, attempt := range attempts {
			if d := cfg.backoff(attempt, 0); d <= 0 || d > cfg.BackoffCap {
				t.Errorf("attempt %d: %v", attempt, d)
			}
		}
	})
}
