package observe

import (
	"context"
	"log/slog"

	"github.com/fourblocks2020/fencerow"
)

// Observer writes the log, counts and raises alerts for one instance. The writers of a process that serve the
// same instance share one, so that its counters are their sums. All methods are safe for concurrent use.
type Observer struct {
	instance fencerow.InstanceKey
	log      *slog.Logger
	counters counters
	alerts   alerts
	target   target
}

// New returns an observer for the instance that writes to handler and raises alerts as alerting says. A
// malformed key, a missing handler or a time out of bounds is an [*fencerow.InputError]. It runs no goroutine
// of its own but for timers; [Observer.CloseAlerts] stops those.
func New(handler slog.Handler, instance fencerow.InstanceKey, alerting Alerting) (*Observer, error) {
	if err := instance.Validate(); err != nil {
		return nil, err
	}
	if handler == nil {
		return nil, &fencerow.InputError{Field: "log", Problem: "is missing a handler"}
	}
	alerting, err := alerting.checked()
	if err != nil {
		return nil, err
	}
	return &Observer{
		instance: instance,
		log:      slog.New(handler.WithAttrs([]slog.Attr{slog.String(keyInstance, safe(instance))})),
		alerts: alerts{
			sink: alerting.Sink, worker: alerting.Worker, heldAfter: alerting.HeldAfter, length: alerting.Window,
			causes: map[cause]*window{},
		},
	}, nil
}

// Instance returns the instance observed.
func (o *Observer) Instance() fencerow.InstanceKey { return o.instance }

// The attribute keys. Nothing else is ever an attribute.
const (
	keyInstance       = "instance_key"
	keyClaimResult    = "claim_result"
	keyCorrelationID  = "correlation_id"
	keyCorrelationIDs = "correlation_ids"
	keyCount          = "count"
	keyLimit          = "limit"
	keyReclaimed      = "reclaimed_count"
	keyOutcome        = "outcome"
	keyReason         = "reason"
	keyAttempt        = "attempt"
	keyDropped        = "dropped_outcome"
	keyExcType        = "exc_type"
	keyCode           = "code"
	keySetting        = "setting"
	keyVersion        = "version"
	keyWorker         = "worker"
	keyOpsListen      = "ops_listen"
	keyAlert          = "alert"
)

// always is passed to the logger: an observer writes no matter whether the work it describes was cancelled.
var always = context.Background()

func (o *Observer) write(level slog.Level, event string, attrs ...slog.Attr) {
	o.log.LogAttrs(always, level, event, attrs...)
}
