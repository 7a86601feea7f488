package observe

import (
	"log/slog"
	"sync"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// target is what the log knows of the target: the writers of a process find out each for itself.
type target struct {
	mu     sync.Mutex
	held   bool
	reason fencerow.ReasonCode // of the present hold
}

// TargetHeld notes that the ledger as a whole fails for a writer, so that its deliveries are on hold but for
// probes. The first writer's hold is logged, and raises an alert if it lasts. To be called on the change
// only.
func (o *Observer) TargetHeld(why fencerow.ReasonCode) {
	o.target.mu.Lock()
	defer o.target.mu.Unlock()
	if o.target.held {
		return
	}
	o.target.held, o.target.reason = true, why
	o.write(slog.LevelWarn, "target held", slog.String(keyReason, reason(why)))
	o.holdBegins(why)
}

// TargetResumed notes that a writer on hold was answered. For the log and the alerts that ends the hold, of
// other writers too: they may be on hold until they have something to deliver.
func (o *Observer) TargetResumed() {
	o.target.mu.Lock()
	defer o.target.mu.Unlock()
	if !o.target.held {
		return
	}
	o.target.held = false
	o.write(slog.LevelInfo, "target resumed", slog.String(keyReason, reason(o.target.reason)))
	o.holdEnds()
}

// hold is what alerts know of the target's hold.
type hold struct {
	reason fencerow.ReasonCode // of the present hold, or of the last
	timer  *time.Timer         // nil without a hold that may have to be told
	number int                 // of holds so far; a timer that comes late is known by it
	long   bool                // it has lasted long enough to be told
	told   bool                // it was told, so that its end must be
}

func (h *hold) stop() {
	if h.timer != nil {
		h.timer.Stop()
	}
}

// holdBegins has the hold told if it lasts. A short one, as when a token is rotated, is nobody's business.
func (o *Observer) holdBegins(why fencerow.ReasonCode) {
	o.alerts.mu.Lock()
	defer o.alerts.mu.Unlock()
	h := &o.alerts.hold
	if o.alerts.closed {
		return
	}
	h.stop()
	*h = hold{reason: why, number: h.number + 1}
	number := h.number
	h.timer = time.AfterFunc(o.alerts.heldAfter, func() { o.holdLasts(number) })
}

func (o *Observer) holdLasts(number int) {
	o.alerts.mu.Lock()
	defer o.alerts.mu.Unlock()
	h := &o.alerts.hold
	if number != h.number || h.timer == nil || o.alerts.closed {
		return // it is over
	}
	h.long = true
	if o.raiseLocked(cause{event: AlertTargetHeld, reason: h.reason}, 1) {
		h.told = true
	}
}

// holdEnds tells that a hold is over which was told. One that was only counted, since its cause has a window,
// is told with its end when the window ends.
func (o *Observer) holdEnds() {
	o.alerts.mu.Lock()
	defer o.alerts.mu.Unlock()
	h := &o.alerts.hold
	h.stop()
	if h.told && !o.alerts.closed {
		o.tell(cause{event: AlertTargetResumed, reason: fencerow.ReasonCode(reason(h.reason))}, 1)
	}
	*h = hold{reason: h.reason, number: h.number}
}

// toldHeld is called when counted holds of a reason were told. If the last of them goes on its end is still
// to come; else it is told now.
func (o *Observer) toldHeld(why fencerow.ReasonCode) {
	h := &o.alerts.hold
	if h.long && (why == "" || fencerow.ReasonCode(reason(h.reason)) == why) {
		h.told = true
		return
	}
	o.tell(cause{event: AlertTargetResumed, reason: why}, 1)
}
