package observe

import (
	"log/slog"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// AlertEvent names what an alert is about. The vocabulary is closed.
type AlertEvent string

// The alert events.
const (
	// AlertEntryBlocked: an entry was parked and waits for an operator. Its count is entries.
	AlertEntryBlocked AlertEvent = "entry_blocked"
	// AlertTargetHeld: the ledger as a whole has failed for longer than [Alerting.HeldAfter]; deliveries are on
	// hold. Its count is holds.
	AlertTargetHeld AlertEvent = "target_held"
	// AlertTargetResumed: a hold that was told of is over. It resolves the [AlertTargetHeld] of its worker and
	// reason.
	AlertTargetResumed AlertEvent = "target_resumed"
	// AlertLeaseLost: claims were lost in series: [lossSeries] of them within [lossWindow]. Its count is claims.
	AlertLeaseLost AlertEvent = "lease_lost"
	// AlertStoreFailing: polls fail, three in a row of one writer at least. Its reason is the code of the store,
	// or that of a poll that fails for another reason. Its count is how often that began.
	AlertStoreFailing AlertEvent = "store_failing"
	// AlertStoreRestored: polls are good again. It resolves the [AlertStoreFailing] of its worker and reason.
	AlertStoreRestored AlertEvent = "store_restored"
	// AlertStaleFencingToken: the ledger has seen a later claim's fencing token for an entry that this worker
	// still holds. Its count is deliveries.
	AlertStaleFencingToken AlertEvent = "stale_fencing_token"
)

// Alert is what a person should look at, in codes and counts only. Event, Outcome and Reason are its cause.
type Alert struct {
	Event    AlertEvent
	Instance fencerow.InstanceKey
	Worker   fencerow.WorkerID    // empty where the observer has none
	Outcome  fencerow.OutcomeKind // empty where an alert is about no entry
	Reason   fencerow.ReasonCode  // empty where there is none
	// Count is how often that happened since the last alert of the cause: once told at once, more often told
	// when the window of the cause ended.
	Count int64
	// At is when the alert was told.
	At time.Time
}

// Alerter takes alerts somewhere. The log is the default one and always has them, as event "alert", so that
// another is an addition.
//
// Alert is called by one goroutine at a time, in the order in which things happened, and holds up deliveries
// while it runs: it must not block (queue, and drop when the queue is full) and must not call back into the
// observer's methods that raise alerts.
type Alerter interface {
	Alert(a Alert)
}

// Defaults and bounds of an [Alerting].
const (
	DefaultHeldAfter   = time.Minute
	DefaultAlertWindow = 5 * time.Minute
	// MinAlertTime and MaxAlertTime bound both.
	MinAlertTime = 100 * time.Millisecond
	MaxAlertTime = 24 * time.Hour
)

// Alerting says where alerts go, and when they are told. Zero values mean the defaults, and the log alone.
type Alerting struct {
	// Sink takes the alerts beside the log; nil means the log alone.
	Sink Alerter
	// Worker is named in each alert, so that those of several daemons of an instance can be told apart; empty
	// names none.
	Worker fencerow.WorkerID
	// HeldAfter is how long the target must be on hold before that is told. A shorter hold is none of anybody's.
	HeldAfter time.Duration
	// Window is how long alerts of a cause that was told are counted before they are told as one.
	Window time.Duration
}

// checked returns a with its defaults filled in, or an [*fencerow.InputError].
func (a Alerting) checked() (Alerting, error) {
	if a.HeldAfter == 0 {
		a.HeldAfter = DefaultHeldAfter
	}
	if a.Window == 0 {
		a.Window = DefaultAlertWindow
	}
	const problem = "must be from 100ms to 24h"
	switch {
	case a.HeldAfter < MinAlertTime || a.HeldAfter > MaxAlertTime:
		return a, &fencerow.InputError{Field: "alert_held_after", Problem: problem}
	case a.Window < MinAlertTime || a.Window > MaxAlertTime:
		return a, &fencerow.InputError{Field: "alert_window", Problem: problem}
	}
	return a, nil
}

// levelOf returns the level of an alert's record. A failed poll has an error record of its own, one for each,
// and what resolves an alert is no error.
func levelOf(event AlertEvent) slog.Level {
	switch event {
	case AlertTargetResumed, AlertStoreRestored:
		return slog.LevelInfo
	case AlertStoreFailing:
		return slog.LevelWarn
	case AlertEntryBlocked, AlertTargetHeld, AlertLeaseLost, AlertStaleFencingToken:
	}
	return slog.LevelError
}

// tell writes an alert to the log and hands it to the sink.
func (o *Observer) tell(c cause, count int64) {
	c.event, c.outcome = AlertEvent(safe(c.event)), fencerow.OutcomeKind(safe(c.outcome))
	c.reason = fencerow.ReasonCode(safe(c.reason))
	attrs := []slog.Attr{slog.String(keyAlert, string(c.event))}
	if o.alerts.worker != "" {
		attrs = append(attrs, slog.String(keyWorker, safe(o.alerts.worker)))
	}
	if c.outcome != "" {
		attrs = append(attrs, slog.String(keyOutcome, string(c.outcome)))
	}
	if c.reason != "" {
		attrs = append(attrs, slog.String(keyReason, string(c.reason)))
	}
	o.write(levelOf(c.event), "alert", append(attrs, slog.Int64(keyCount, count))...)
	if o.alerts.sink == nil {
		return
	}
	// A sink that panics must not take a delivery with it. There is nobody to tell but the log, which has the
	// alert already.
	defer func() { _ = recover() }()
	o.alerts.sink.Alert(Alert{
		Event: c.event, Instance: o.instance, Worker: fencerow.WorkerID(safe(o.alerts.worker)),
		Outcome: c.outcome, Reason: c.reason, Count: count, At: time.Now(),
	})
}
