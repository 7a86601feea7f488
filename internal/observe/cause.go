package observe

import (
	"sync"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// maxCauses bounds the causes whose alerts are counted at once. The vocabularies are closed and a running
// daemon meets a few of them; what a defect makes up beyond the bound is counted under its event alone.
const maxCauses = 128

// cause is what alerts are told apart by: each is told once a window, not once a row.
type cause struct {
	event   AlertEvent
	outcome fencerow.OutcomeKind
	reason  fencerow.ReasonCode
}

// window is the time after an alert of one cause was told, in which further ones are only counted.
type window struct {
	timer   *time.Timer
	counted int64
}

// alerts decides when an alert is told. Its lock is a leaf but for the sink and the log, to which an alert is
// told under it, so that they get alerts in the order in which things happened.
type alerts struct {
	sink      Alerter
	worker    fencerow.WorkerID
	heldAfter time.Duration
	length    time.Duration // of a window

	mu     sync.Mutex
	closed bool
	causes map[cause]*window
	hold   spell // of the target
	store  spell
	losses losses
}

// raise tells an alert at once, or counts it while its cause has a window.
func (o *Observer) raise(c cause, count int64) {
	o.alerts.mu.Lock()
	defer o.alerts.mu.Unlock()
	o.raiseLocked(c, count)
}

func (o *Observer) raiseLocked(c cause, count int64) (told bool) {
	a := &o.alerts
	if a.closed {
		return false
	}
	if c.reason != "" {
		c.reason = fencerow.ReasonCode(reason(c.reason))
	}
	if _, known := a.causes[c]; !known && len(a.causes) >= maxCauses {
		c = cause{event: c.event}
	}
	if w := a.causes[c]; w != nil {
		w.counted += count
		return false
	}
	w := &window{}
	w.timer = time.AfterFunc(a.length, func() { o.windowEnded(c, w) })
	a.causes[c] = w
	o.tell(c, count)
	return true
}

// windowEnded tells what was counted, and opens the next window; a cause that had nothing more is forgotten.
func (o *Observer) windowEnded(c cause, w *window) {
	o.alerts.mu.Lock()
	defer o.alerts.mu.Unlock()
	if o.alerts.closed {
		return
	}
	if w.counted == 0 {
		delete(o.alerts.causes, c)
		return
	}
	o.tellCounted(c, w)
	w.timer.Reset(o.alerts.length)
}

// tellCounted tells what was counted. Of spells it tells the state as well: whether the last one is over.
func (o *Observer) tellCounted(c cause, w *window) {
	o.tell(c, w.counted)
	w.counted = 0
	switch c.event {
	case AlertTargetHeld:
		o.toldSpell(&o.alerts.hold, c.reason, AlertTargetResumed)
	case AlertStoreFailing:
		o.toldSpell(&o.alerts.store, c.reason, AlertStoreRestored)
	case AlertEntryBlocked, AlertTargetResumed, AlertLeaseLost, AlertStaleFencingToken, AlertStoreRestored:
	}
}

// CloseAlerts tells what was counted so far and is not told yet. Later alerts are not told: an outcome's own
// record still is. To be called when nothing is delivered any more, and before a sink is closed.
func (o *Observer) CloseAlerts() {
	o.alerts.mu.Lock()
	defer o.alerts.mu.Unlock()
	a := &o.alerts
	if a.closed {
		return
	}
	// What goes on is not over because it is told no more, however short it has been.
	a.hold.long = a.hold.long || a.hold.going
	for c, w := range a.causes {
		w.timer.Stop()
		if w.counted > 0 {
			o.tellCounted(c, w)
		}
	}
	a.hold.stop()
	a.closed, a.causes = true, nil
}
