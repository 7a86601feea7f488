package writer

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// recordTimes delivers n entries, four at a time, and returns when each group was written and how long it all
// took. The store takes no time.
func recordTimes(
	t *testing.T, n int, takes func(fencerow.Delivery) time.Duration,
) (times []time.Duration, took time.Duration) {
	t.Helper()
	return recordTimesOf(t, n, 4, takes)
}

func recordTimesOf(
	t *testing.T, n, workers int, takes func(fencerow.Delivery) time.Duration,
) (times []time.Duration, took time.Duration) {
	t.Helper()
	h := newHarness(t, func(c *Config) { c.BatchLimit, c.Concurrency = n, workers })
	h.ledger.set(func(ctx context.Context, d fencerow.Delivery) fencerow.Answer {
		return after(takes(d), delivered())(ctx, d)
	})
	h.enqueue("e", n)
	start := time.Now()
	h.faults.before = map[string]func() error{"RecordOutcomes": func() error {
		times = append(times, time.Since(start))
		return nil
	}}
	h.runOnce()
	equal(t, "completed", h.counts()[fencerow.StatusCompleted], int64(n))
	return times, time.Since(start)
}

func TestGroupsGrowWhileNobodyWaits(t *testing.T) {
	const fast = time.Millisecond
	always := func(d time.Duration) func(fencerow.Delivery) time.Duration {
		return func(fencerow.Delivery) time.Duration { return d }
	}
	atMost := func(t *testing.T, what string, got, most time.Duration) {
		t.Helper()
		if got > most {
			t.Errorf("%s after %v, want %v at most", what, got, most)
		}
	}

	bubble(t, "FastOnesAreWrittenTogether", func(t *testing.T) {
		times, took := recordTimes(t, 400, always(fast))
		if len(times) > 5 { // one each 32 ms
			t.Errorf("%d groups", len(times))
		}
		equal(t, "the last are written at once: took", took, 100*fast)
	})

	bubble(t, "LinesOfAFewEndWithThem", func(t *testing.T) {
		times, took := recordTimes(t, 4, always(fast))
		equal(t, "groups", len(times), 1)
		equal(t, "took", took, fast)
	})

	bubble(t, "FullGroupIsNotHeld", func(t *testing.T) {
		times, _ := recordTimes(t, 40, always(fast)) // half are there after five deliveries
		atMost(t, "the first group", times[0], 5*fast+recordLinger)
	})

	bubble(t, "NoneIsHeldForLongOnceAllHaveStarted", func(t *testing.T) {
		times, _ := recordTimes(t, 64, func(d fencerow.Delivery) time.Duration {
			switch d.Entry.CorrelationID {
			case "e-62", "e-63", "e-64":
				return time.Second
			}
			return fast
		})
		atMost(t, "the group before the last", times[len(times)-2], 16*fast+recordLinger)
	})

	bubble(t, "SlowOnesAreWrittenAsSoonAsBefore", func(t *testing.T) {
		times, _ := recordTimes(t, 400, always(slowDelivery))
		equal(t, "the first group", times[0], slowDelivery+recordLinger)
	})

	bubble(t, "OneSlowOneOfManyWorkersWaitsForTheGroup", func(t *testing.T) {
		times, _ := recordTimesOf(t, 1000, 12, func(d fencerow.Delivery) time.Duration {
			if d.Entry.CorrelationID == "e-1" {
				return slowDelivery
			}
			return fast
		})
		equal(t, "the first group", times[0], fast+longLinger)
	})

	bubble(t, "ManySlowOnesOfManyWorkersAreWrittenAsSoonAsBefore", func(t *testing.T) {
		const workers = 12
		var begun atomic.Int64 // the first of them is there before the others
		times, _ := recordTimesOf(t, 400, workers, func(fencerow.Delivery) time.Duration {
			return slowDelivery + time.Duration(min(begun.Add(1), workers))*fast
		})
		equal(t, "the first group", times[0], slowDelivery+fast+recordLinger)
	})

	bubble(t, "FastOnesEndTheirWaitForASlowOne", func(t *testing.T) {
		times, _ := recordTimes(t, 400, func(d fencerow.Delivery) time.Duration {
			if d.Entry.CorrelationID == "e-1" {
				return slowDelivery
			}
			return fast
		})
		atMost(t, "the slow one's group", times[0], slowDelivery+recordLinger)
	})
}

func TestPatienceEndsWithTooManyWhoWait(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                          string
		awaited, ready, running, next int
		patient                       bool
	}{
		{"NobodyWaits", 0, 1, 0, 2, true},
		{"FourThereAndFourAtWorkForTheOneThatWaits", 1, 4, 4, 9, true},
		{"ThreeThere", 1, 3, 4, 9, false},
		{"ThreeAtWork", 1, 4, 3, 9, false},
		{"SevenForTwo", 2, 7, 8, 17, false},
		{"EightForTwo", 2, 8, 8, 17, true},
		{"AlmostHalfOfTheClaim", 0, 49, 4, 53, true},
		{"HalfOfTheClaim", 0, 50, 4, 54, false},
		{"AllStarted", 0, 1, 4, 100, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := &batch{
				claim: &fencerow.Claim{Entries: make([]fencerow.ClaimedEntry, 100)}, next: c.next, running: c.running,
				ready: make([]result, c.ready), awaited: c.awaited,
			}
			equal(t, "patient", b.patient(), c.patient)
		})
	}
}
