package writer

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/observe"
)

// health is what the deliveries so far say about the ledger as a whole, the target: whether it is on hold,
// and which entries fail as if the target did although others are answered.
//
// Its lock is a leaf but for the observer, which is called under it so that holds and resumptions are logged
// in the order in which they happened.
type health struct {
	obs *observe.Observer

	// answered counts definite answers. troubled says that a hold or a streak is open, so that a success must
	// end it; without, a success only counts, which keeps the lock off the fast path.
	answered atomic.Uint64
	troubled atomic.Bool
	// holds numbers the holds. A delivery remembers the number at its start: only one that started after the
	// hold began can end it, so that the last answers of a target that is going down do not.
	holds atomic.Uint64

	mu        sync.Mutex
	held      bool
	reason    fencerow.ReasonCode
	notBefore time.Time // no probe before; from Retry-After
	failing   time.Time // the last failure that blamed the target, or the end of the pause it asked for
	streak    streak
	draws     draws
	owed      []*lapse // charged for what turned out to be the target's fault
}

// definite notes a definite answer to the entry, of a delivery that began when the given number of holds had
// begun. It reports whether anything changed that recorders or polls wait for.
func (h *health) definite(id fencerow.OutboxID, success bool, holds uint64) (changed bool) {
	h.answered.Add(1)
	if success && !h.troubled.Load() {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !success {
		h.draws.discountOwnAnswer(id)
	}
	changed = h.streak.breakUp()
	if h.held && holds == h.holds.Load() {
		h.held, h.notBefore, changed = false, time.Time{}, true
		h.obs.TargetResumed()
	}
	h.troubled.Store(h.held)
	return changed
}

// targetFailed notes an answer that blames the target. charged says that the entry is to blame instead: it
// draws such answers again and again while others are answered. began says that the target went on hold now.
func (h *health) targetFailed(
	id fencerow.OutboxID, why fencerow.ReasonCode, retryAfter time.Duration,
) (charged, began bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	// Throttling says itself that it is not the entry's fault: it lets some entries through and draws the others
	// again and again.
	if why != fencerow.ReasonThrottled && h.draws.draw(id, h.answered.Load()) {
		return true, false
	}
	pause := min(max(retryAfter, 0), MaxRetryAfter)
	if until := time.Now().Add(pause); pause > 0 && until.After(h.notBefore) {
		h.notBefore = until
	}
	h.failsLocked(pause)
	// What was ambiguous just before, and is not recorded yet, was the target's fault too.
	for _, l := range h.streak.forgive() {
		h.draws.draw(l.id, h.answered.Load())
	}
	return false, h.holdLocked(why)
}

// ambiguous notes a result that may be the entry's fault or the target's, and decides its fate where it can.
// began is as in targetFailed.
func (h *health) ambiguous(l *lapse) (began bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.held || l.holds != h.holds.Load() {
		// The target was on hold at some time since the delivery began: its fault, but for an entry known for it.
		l.fate = forgiven
		switch {
		case h.draws.draw(l.id, h.answered.Load()):
			l.fate = charged
		case h.held:
			h.failsLocked(0)
		}
		return false
	}
	if h.draws.offends(l.id, h.answered.Load()) {
		l.fate = charged
		return false
	}
	h.troubled.Store(true)
	if !h.streak.add(l) {
		return false
	}
	for _, l := range h.streak.forgive() {
		h.draws.draw(l.id, h.answered.Load())
		if l.charges > 0 {
			h.owed = append(h.owed, l)
		}
	}
	h.owed = h.owed[max(0, len(h.owed)-maxOwed):]
	h.failsLocked(0)
	return h.holdLocked(l.reason)
}

// failsLocked notes a failure that blames the target, which asked for a pause.
func (h *health) failsLocked(pause time.Duration) {
	if until := time.Now().Add(pause); until.After(h.failing) {
		h.failing = until
	}
	h.obs.TargetFailed(pause)
}

// forget ends a hold in which nothing failed for the time given, and reports whether it did. To be called
// when there was nothing to try: another daemon may have delivered what there was, and a hold that only a
// probe ends would go on for as long as nothing is enqueued.
func (h *health) forget(quiet time.Duration) bool {
	if !h.troubled.Load() {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.held || time.Since(h.failing) < quiet {
		return false
	}
	h.held, h.notBefore = false, time.Time{}
	h.troubled.Store(len(h.streak.lapses) > 0)
	h.obs.TargetForgotten(quiet)
	return true
}

func (h *health) holdLocked(why fencerow.ReasonCode) (began bool) {
	if h.held {
		return false
	}
	h.held, h.reason = true, why
	h.troubled.Store(true) // before the number: whoever sees the new one must see the hold
	h.holds.Add(1)
	h.obs.TargetHeld(why)
	return true
}

// hold returns the reason of the hold, and whether a probe may go out now; no hold is an empty reason.
func (h *health) hold(now time.Time) (why fencerow.ReasonCode, probe bool) {
	if !h.troubled.Load() {
		return "", true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.held {
		return "", true
	}
	return h.reason, !now.Before(h.notBefore)
}

// settleFate returns what becomes of a result that was set aside. An undecided one stays undecided unless it
// must be recorded now; then it is charged, and the charge is given back should the streak go on to five. A
// dead letter cannot be given back: at the last attempt an undecided result is spared, unless the entry has
// drawn enough of them while others were answered in between.
func (h *health) settleFate(l *lapse, must bool) fate {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case l.fate != undecided || !must:
		return l.fate
	case l.last && !h.draws.draw(l.id, h.answered.Load()):
		return spared
	case l.last:
		return charged
	}
	l.charges++
	return charged
}

// takeOwed removes and returns the charges to give back.
func (h *health) takeOwed() []*lapse {
	h.mu.Lock()
	defer h.mu.Unlock()
	owed := h.owed
	h.owed = nil
	return owed
}

// owe puts back charges that could not be given back yet.
func (h *health) owe(ls []*lapse) {
	if len(ls) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.owed = append(ls, h.owed...)
	h.owed = h.owed[max(0, len(h.owed)-maxOwed):]
}
