package writer

import (
	"errors"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
)

func TestBackfillBySeveralWriters(t *testing.T) {
	small := func(c *Config) { c.BatchLimit = 10 }
	group := func(h *harness, n int) []*Writer {
		writers := []*Writer{h.w}
		for range n - 1 {
			writers = append(writers, h.writer(small))
		}
		return writers
	}

	bubble(t, "DeliverEverythingOnceAndSumUp", func(t *testing.T) {
		h := newHarness(t, small)
		h.ledger.set(after(10*time.Millisecond, delivered()))
		h.enqueue("e", 95)
		res, err := Backfill(t.Context(), group(h, 3), 0)
		check(t, err)
		equal(t, "claimed", res.Claimed, 95)
		equal(t, "completed", res.Outcomes[fencerow.OutcomeCompleted], 95)
		equal(t, "sent", len(h.ledger.take()), 95)
		equal(t, "deliveries at once", h.ledger.peak, 3*testConfig().Concurrency)
		equal(t, "counted", h.obs.Metrics().Outcomes.Completed, 95)
	})

	bubble(t, "ShareALimit", func(t *testing.T) {
		for _, limit := range []int{1, 2, 3, 25} {
			h := newHarness(t, small)
			h.enqueue("e", 95)
			res, err := Backfill(t.Context(), group(h, 3), limit)
			check(t, err)
			equal(t, "claimed", res.Claimed, limit)
			equal(t, "completed", h.counts()[fencerow.StatusCompleted], int64(limit))
		}
	})

	bubble(t, "AreHeldOnceForTheLog", func(t *testing.T) {
		h := newHarness(t, small)
		h.ledger.always(refused)
		h.enqueue("e", 95)
		res, err := Backfill(t.Context(), group(h, 3), 0)
		check(t, err)
		equal(t, "stopped", res.Stopped, "connect_refused")
		equal(t, "leased", h.leased(), 0)
		equal(t, "records of the hold", len(h.records("target held")), 1)
	})

	bubble(t, "TellTheErrorOfAnyOfThem", func(t *testing.T) {
		h := newHarness(t, small)
		h.enqueue("e", 95)
		broken := h.writer(small)
		fails := &faults{Claimer: h.store}
		fails.fail("ClaimBatch", 1, errTimeout)
		broken.store = fails
		res, err := Backfill(t.Context(), []*Writer{h.w, broken}, 0)
		if !errors.Is(err, fencerow.ErrStoreTimeout) {
			t.Errorf("error: %v", err)
		}
		equal(t, "completed", res.Outcomes[fencerow.OutcomeCompleted], 95)
	})
}
