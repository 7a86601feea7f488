package observe

import "github.com/fourblocks2020/fencerow"

// AlertEvent names what an alert is about. The vocabulary is closed.
type AlertEvent string

// The alert events.
const (
	// AlertEntryBlocked: an entry was parked and waits for an operator.
	AlertEntryBlocked AlertEvent = "entry_blocked"
	// AlertTargetHeld: the ledger as a whole fails; deliveries are on hold.
	AlertTargetHeld AlertEvent = "target_held"
	// AlertStaleFencingToken: the ledger has seen a later claim's fencing token for an entry that this worker
	// still holds.
	AlertStaleFencingToken AlertEvent = "stale_fencing_token"
)

// Alert is what a person should look at, in codes and keys only.
type Alert struct {
	Event         AlertEvent             `json:"event"`
	Instance      fencerow.InstanceKey   `json:"instance_key"`
	CorrelationID fencerow.CorrelationID `json:"correlation_id,omitempty"`
	Outcome       fencerow.OutcomeKind   `json:"outcome,omitempty"`
	Reason        fencerow.ReasonCode    `json:"reason,omitempty"`
}

// Alerter takes alerts somewhere. The log always has them, as the record of the event itself, so that an
// Alerter is an addition.
//
// Alert is called from delivery and recording goroutines, concurrently: it must be safe for that, must not
// block on a network (queue, and drop when the queue is full), and must not call back into the writer.
type Alerter interface {
	Alert(a Alert)
}

func (o *Observer) alert(a Alert) {
	if o.alerter == nil {
		return
	}
	a.Instance = o.instance
	a.CorrelationID = fencerow.CorrelationID(safe(a.CorrelationID))
	if a.Reason != "" {
		a.Reason = fencerow.ReasonCode(reason(a.Reason))
	}
	// An alerter that panics must not take a delivery with it. There is nobody to tell but the log, which has
	// the event already.
	defer func() { _ = recover() }()
	o.alerter.Alert(a)
}
