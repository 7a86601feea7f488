package observe

import (
	"log/slog"
	"sync"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// target is what the log knows of the target: the writers of a process find out each for itself.
type target struct {
	mu   sync.Mutex
	held bool
	hold Hold // the present one
	// failing is until when the target is known to fail: the last failure, or the end of the pause that the
	// ledger asked for then.
	failing time.Time
}

// Hold is since when the target is on hold, and why.
type Hold struct {
	Reason fencerow.ReasonCode
	Since  time.Time
}

// TargetHeld notes that the ledger as a whole fails for a writer, so that its deliveries are on hold but for
// probes. The first writer's hold is logged, and raises an alert if it lasts. To be called on the change
// only, after [Observer.TargetFailed].
func (o *Observer) TargetHeld(why fencerow.ReasonCode) {
	o.target.mu.Lock()
	defer o.target.mu.Unlock()
	if o.target.held {
		return
	}
	o.target.held, o.target.hold = true, Hold{Reason: fencerow.ReasonCode(reason(why)), Since: time.Now()}
	o.write(slog.LevelWarn, "target held", slog.String(keyReason, reason(why)))
	o.holdBegins(why)
}

// TargetFailed notes a delivery that blames the target, and for how long the ledger asked not to be tried. Of
// a hold that has lasted long it raises the alert, unless that was done.
func (o *Observer) TargetFailed(pause time.Duration) {
	o.target.mu.Lock()
	defer o.target.mu.Unlock()
	if until := time.Now().Add(pause); until.After(o.target.failing) {
		o.target.failing = until
	}
	o.holdFails(o.target.failing)
}

// TargetResumed notes that a writer on hold was answered. For the log and the alerts that ends the hold, of
// other writers too: they may be on hold until they have something to deliver.
func (o *Observer) TargetResumed() {
	o.target.mu.Lock()
	defer o.target.mu.Unlock()
	o.resumeLocked()
}

// TargetForgotten notes that a writer gave up its hold, since it has had nothing to try for the time given.
// The log and the alerts follow if no other writer has met a failure in that time.
func (o *Observer) TargetForgotten(quiet time.Duration) {
	o.target.mu.Lock()
	defer o.target.mu.Unlock()
	if time.Since(o.target.failing) >= quiet {
		o.resumeLocked()
	}
}

func (o *Observer) resumeLocked() {
	if !o.target.held {
		return
	}
	o.target.held = false
	o.write(slog.LevelInfo, "target resumed", slog.String(keyReason, string(o.target.hold.Reason)))
	o.holdEnds()
}

// TargetHold returns the hold that the log knows of, if there is one.
func (o *Observer) TargetHold() (hold Hold, held bool) {
	o.target.mu.Lock()
	defer o.target.mu.Unlock()
	return o.target.hold, o.target.held
}

// spell is what alerts know of a state that begins and ends: the target's hold, or a store that fails.
type spell struct {
	reason  fencerow.ReasonCode // of the present one, or of the last
	going   bool                // it has not ended
	timer   *time.Timer         // nil unless it has to last before it is told
	number  int                 // of spells so far; a timer that comes late is known by it
	failing time.Time           // until when it is known to go on
	ripe    bool                // it has lasted long enough to be told at the next failure
	long    bool                // it was told, or counted
	told    bool                // it was told, so that its end must be
}

func (s *spell) stop() {
	if s.timer != nil {
		s.timer.Stop()
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
	*h = spell{reason: why, number: h.number + 1, going: true, failing: o.target.failing}
	number := h.number
	h.timer = time.AfterFunc(o.alerts.heldAfter, func() { o.holdLasts(number) })
}

// holdLasts tells a hold that has lasted long, if the target has failed lately. Otherwise nothing may have
// been tried since, as when another daemon delivered what there was; then the next failure tells it.
func (o *Observer) holdLasts(number int) {
	o.alerts.mu.Lock()
	defer o.alerts.mu.Unlock()
	h := &o.alerts.hold
	if number != h.number || !h.going || o.alerts.closed {
		return // it is over
	}
	h.ripe = true
	if time.Since(h.failing) < o.alerts.heldAfter/2 {
		o.begins(h, AlertTargetHeld)
	}
}

func (o *Observer) holdFails(until time.Time) {
	o.alerts.mu.Lock()
	defer o.alerts.mu.Unlock()
	h := &o.alerts.hold
	h.failing = until
	if h.ripe && !h.long && !o.alerts.closed {
		o.begins(h, AlertTargetHeld)
	}
}

// begins tells a spell, or counts it while its cause has a window.
func (o *Observer) begins(s *spell, event AlertEvent) {
	s.long = true
	s.told = o.raiseLocked(cause{event: event, reason: s.reason}, 1)
}

func (o *Observer) holdEnds() {
	o.alerts.mu.Lock()
	defer o.alerts.mu.Unlock()
	o.ends(&o.alerts.hold, AlertTargetResumed)
}

// ends tells that a spell is over which was told. One that was only counted, since its cause has a window, is
// told with its end when the window ends.
func (o *Observer) ends(s *spell, event AlertEvent) {
	s.stop()
	if s.told && !o.alerts.closed {
		o.tell(cause{event: event, reason: fencerow.ReasonCode(reason(s.reason))}, 1)
	}
	*s = spell{reason: s.reason, number: s.number}
}

// toldSpell is called when counted spells of a reason were told. If the last of them goes on its end is still
// to come; else it is told now.
func (o *Observer) toldSpell(s *spell, why fencerow.ReasonCode, end AlertEvent) {
	if s.long && (why == "" || fencerow.ReasonCode(reason(s.reason)) == why) {
		s.told = true
		return
	}
	o.tell(cause{event: end, reason: why}, 1)
}
