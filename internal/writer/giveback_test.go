package writer

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// inDebt returns a harness whose writer owes e-1 to e-4 one attempt each: the fifth failure blamed the
// target, and the entries were charged before.
func inDebt(t *testing.T, before int) *harness {
	h := newHarness(t, func(c *Config) { c.BatchLimit = 2; c.Concurrency = 1 })
	h.enqueue("e", 8)
	h.prepare("e-1", before, fencerow.ReasonNotReady, false)
	h.ledger.always(serverError)
	h.faults.fail("ClaimOne", 1000, errBusy) // nothing is given back yet
	for range 3 {
		h.runOnce()
	}
	equal(t, "held", len(h.records("target held")), 1)
	equal(t, "charged", h.attempts("e-1"), before+1)
	return h
}

func (f *faults) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.after = nil, nil
}

// giveBackLost is a store that gives an attempt back and loses the answer, the given number of times.
type giveBackLost struct {
	fencerow.Claimer
	times int
}

func (g *giveBackLost) RecordOutcomes(
	ctx context.Context, p fencerow.RecordParams,
) ([]fencerow.Verdict, error) {
	verdicts, err := g.Claimer.RecordOutcomes(ctx, p)
	if p.Outcomes[0].Charge == fencerow.ChargeGiveBack && g.times > 0 {
		g.times--
		return nil, errTimeout
	}
	return verdicts, err
}

func TestGiveBack(t *testing.T) {
	bubble(t, "AttemptsThatAnotherWorkerChargedAreLeft", func(t *testing.T) {
		h := inDebt(t, 0)
		h.faults.clear()
		h.prepare("e-1", 3, fencerow.ReasonNotReady, false)
		for range 5 {
			h.runOnce()
		}
		equal(t, "attempts", h.attempts("e-1"), 3)
		equal(t, "attempts of one charged by nobody else", h.attempts("e-2"), 0)
	})

	bubble(t, "LostAnswerTakesNothingTwice", func(t *testing.T) {
		h := inDebt(t, 2)
		h.faults.clear()
		h.w.store = &giveBackLost{h.store, 1}
		for range 6 {
			h.runOnce()
		}
		equal(t, "attempts", h.attempts("e-1"), 2)
		equal(t, "attempts of the others", h.attempts("e-2")+h.attempts("e-3")+h.attempts("e-4"), 0)
		equal(t, "leased", h.leased(), 0)
	})

	bubble(t, "LostAnswerTakesNothingFromAnotherWorker", func(t *testing.T) {
		h := inDebt(t, 0)
		h.faults.clear()
		h.w.store = &giveBackLost{h.store, 1}
		h.runOnce()
		h.prepare("e-1", 2, fencerow.ReasonNotReady, false)
		for range 5 {
			h.runOnce()
		}
		equal(t, "attempts", h.attempts("e-1"), 2)
	})

	bubble(t, "RecordThatFailedIsRepeated", func(t *testing.T) {
		h := inDebt(t, 0)
		h.faults.clear()
		var refused atomic.Bool
		h.w.store = &beforeGiveBack{h.store, func() error {
			if refused.CompareAndSwap(false, true) {
				return errTimeout
			}
			return nil
		}}
		for range 5 {
			h.runOnce()
		}
		equal(t, "attempts", h.attempts("e-1"), 0)
		equal(t, "leased", h.leased(), 0)
	})

	bubble(t, "StoreThatHangsHoldsAPollUpOnceAndNoDelivery", func(t *testing.T) {
		h := inDebt(t, 0)
		asked := 0
		h.faults.before = map[string]func() error{"ClaimOne": func() error {
			asked++
			<-time.After(minWriteTime)
			return errTimeout
		}}
		h.ledger.take()
		start := time.Now()
		h.runOnce()
		equal(t, "claims to give back", asked, 1)
		equal(t, "took", time.Since(start), minWriteTime)
		if sent := h.ledger.take(); len(sent) != 1 || sent[0].at != start {
			t.Errorf("sent %v, polled at %v", sent, start)
		}
	})

	bubble(t, "OnePollGivesBackAFew", func(t *testing.T) {
		h := newHarness(t, nil)
		h.faults.before = map[string]func() error{}
		asked := 0
		h.faults.before["ClaimOne"] = func() error { asked++; return nil }
		var ls []*lapse
		for i := range 10 {
			id := fencerow.CorrelationID(fmt.Sprint("gone-", i))
			ls = append(ls, &lapse{correlationID: id, life: 1, charges: 1, reason: fencerow.ReasonLedgerError})
		}
		h.w.health.owe(ls)
		for _, want := range []int{4, 8, 10, 10} {
			h.runOnce()
			equal(t, "asked so far", asked, want)
		}
	})

	bubble(t, "NothingIsClaimedForItAfterAShutdown", func(t *testing.T) {
		h := inDebt(t, 0)
		check(t, h.w.Shutdown(t.Context()))
		asked := 0
		h.faults.before = map[string]func() error{"ClaimOne": func() error { asked++; return errBusy }}
		_, err := h.w.Backfill(t.Context(), 0)
		check(t, err)
		equal(t, "asked", asked, 0)
	})
}

// beforeGiveBack asks before an attempt is given back whether that fails.
type beforeGiveBack struct {
	fencerow.Claimer
	ask func() error
}

func (b *beforeGiveBack) RecordOutcomes(
	ctx context.Context, p fencerow.RecordParams,
) ([]fencerow.Verdict, error) {
	if p.Outcomes[0].Charge == fencerow.ChargeGiveBack {
		if err := b.ask(); err != nil {
			return nil, err
		}
	}
	return b.Claimer.RecordOutcomes(ctx, p)
}
