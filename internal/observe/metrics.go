package observe

import (
	"sync/atomic"

	"github.com/fourblocks2020/fencerow"
)

// counters are the process-lifetime totals of one instance. Outcomes count only when their record was
// applied.
type counters struct {
	emptyPolls, claimedBatches, unavailable, lost, foreign atomic.Int64

	completed, duplicateCompleted, retryableFailure atomic.Int64
	conflictBlocked, permanentFailure, deadLettered atomic.Int64
}

func (c *counters) outcome(kind fencerow.OutcomeKind) *atomic.Int64 {
	switch kind {
	case fencerow.OutcomeCompleted:
		return &c.completed
	case fencerow.OutcomeDuplicateCompleted:
		return &c.duplicateCompleted
	case fencerow.OutcomeRetryableFailure:
		return &c.retryableFailure
	case fencerow.OutcomeConflictBlocked:
		return &c.conflictBlocked
	case fencerow.OutcomePermanentFailure:
		return &c.permanentFailure
	case fencerow.OutcomeDeadLettered:
		return &c.deadLettered
	}
	panic("observe: no counter for outcome " + safe(kind))
}

// Metrics is the `ledger_outbox_metrics` document. A worker restarted begins at zero: the scope says so.
type Metrics struct {
	Available   bool                 `json:"available"`
	Scope       string               `json:"scope"`
	InstanceKey fencerow.InstanceKey `json:"instance_key"`
	Claims      *ClaimTotals         `json:"claims,omitempty"`
	Outcomes    *OutcomeTotals       `json:"outcomes,omitempty"`
	Reason      string               `json:"reason,omitempty"`
}

// ClaimTotals counts polls and claims. Empty polls and claimed batches are of batch claims; unavailable and
// foreign of targeted ones; lost counts rows.
type ClaimTotals struct {
	EmptyPolls      int64 `json:"empty_polls_total"`
	ClaimedBatches  int64 `json:"claimed_batches_total"`
	Unavailable     int64 `json:"unavailable_total"`
	Lost            int64 `json:"lost_total"`
	ForeignInstance int64 `json:"foreign_instance_total"`
}

// OutcomeTotals counts recorded outcomes.
type OutcomeTotals struct {
	Completed          int64 `json:"completed_total"`
	DuplicateCompleted int64 `json:"duplicate_completed_total"`
	RetryableFailure   int64 `json:"retryable_failure_total"`
	ConflictBlocked    int64 `json:"conflict_blocked_total"`
	PermanentFailure   int64 `json:"permanent_failure_total"`
	DeadLettered       int64 `json:"dead_lettered_total"`
}

const (
	scopeProcess             = "process_lifetime"
	reasonMetricsUnavailable = "ledger_outbox_metrics_unavailable"
)

// Metrics returns a fresh snapshot. The counters go on while it is taken, so that sums across them may be off
// by what happened meanwhile. Safe for concurrent use.
func (o *Observer) Metrics() Metrics {
	c := &o.counters
	return Metrics{
		Available:   true,
		Scope:       scopeProcess,
		InstanceKey: o.instance,
		Claims: &ClaimTotals{
			EmptyPolls:      c.emptyPolls.Load(),
			ClaimedBatches:  c.claimedBatches.Load(),
			Unavailable:     c.unavailable.Load(),
			Lost:            c.lost.Load(),
			ForeignInstance: c.foreign.Load(),
		},
		Outcomes: &OutcomeTotals{
			Completed:          c.completed.Load(),
			DuplicateCompleted: c.duplicateCompleted.Load(),
			RetryableFailure:   c.retryableFailure.Load(),
			ConflictBlocked:    c.conflictBlocked.Load(),
			PermanentFailure:   c.permanentFailure.Load(),
			DeadLettered:       c.deadLettered.Load(),
		},
	}
}

// MetricsUnavailable returns the document for an instance whose counters cannot be read.
func MetricsUnavailable(instance fencerow.InstanceKey) Metrics {
	return Metrics{Scope: scopeProcess, InstanceKey: instance, Reason: reasonMetricsUnavailable}
}
