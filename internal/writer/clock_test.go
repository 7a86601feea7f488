package writer

import (
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// The host's clock may be wrong by any amount: the store's says whose lease stands and what is due.
func TestWallClockThatIsAnHourOffStealsAndLosesNothing(t *testing.T) {
	for name, off := range map[string]time.Duration{"Ahead": time.Hour, "Behind": -time.Hour} {
		bubble(t, name, func(t *testing.T) {
			h := newHarness(t, func(c *Config) {
				c.wallNow = func() time.Time { return time.Now().Round(0).Add(off) }
			})
			h.enqueue("e", 4)
			theirs := h.reclaim("e-4")
			h.ledger.set(after(9*time.Second, delivered()))
			equal(t, "claimed", h.runOnce().Claimed, 3)
			equal(t, "completed", h.counts()[fencerow.StatusCompleted], 3)
			equal(t, "claimed under another's lease", h.runOnce().Claimed, 0)
			h.complete(theirs)
			equal(t, "epoch of the other's outcome", h.show("e-4").Outcomes[0].Epoch, theirs.Epoch)
			h.enqueue("crashed", 1)
			h.reclaim("crashed-1")
			pass(time.Minute)
			equal(t, "claimed once the lease is over", h.runOnce().Claimed, 1)
			equal(t, "sent", len(h.ledger.take()), 4)
			equal(t, "lost", h.obs.Metrics().Claims.Lost, 0)
		})
	}
}
