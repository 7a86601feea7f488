package observe

import (
	"log/slog"

	"github.com/fourblocks2020/fencerow"
)

// RecordedSuccess counts and logs the successes of one kind that one record applied, all of them in one log
// record.
func (o *Observer) RecordedSuccess(kind fencerow.OutcomeKind, ids []fencerow.CorrelationID) {
	if len(ids) == 0 {
		return
	}
	o.counters.outcome(kind).Add(int64(len(ids)))
	if !o.log.Enabled(always, slog.LevelInfo) {
		return
	}
	o.write(slog.LevelInfo, "outcome recorded",
		slog.String(keyOutcome, safe(kind)), slog.Int(keyCount, len(ids)),
		slog.Any(keyCorrelationIDs, safeIDs(ids)))
}

// Failure is one applied outcome that is no success.
type Failure struct {
	Kind          fencerow.OutcomeKind
	Reason        fencerow.ReasonCode
	Attempt       int
	CorrelationID fencerow.CorrelationID
}

// OutcomeFailed counts and logs one failure: a retry as a warning, a parked entry as an error with an alert.
func (o *Observer) OutcomeFailed(f Failure) {
	o.counters.outcome(f.Kind).Add(1)
	attrs := []slog.Attr{
		slog.String(keyOutcome, safe(f.Kind)), slog.String(keyReason, reason(f.Reason)),
		slog.String(keyCorrelationID, safe(f.CorrelationID)),
	}
	if !f.Kind.Terminal() {
		o.write(slog.LevelWarn, "outcome recorded", append(attrs, slog.Int(keyAttempt, f.Attempt))...)
		if f.Reason == fencerow.ReasonStaleFencingToken {
			o.raise(cause{AlertStaleFencingToken, f.Kind, f.Reason}, 1)
		}
		return
	}
	o.write(slog.LevelError, "outcome recorded", attrs...)
	o.raise(cause{AlertEntryBlocked, f.Kind, f.Reason}, 1)
}

const reasonSnapshotRejected = "snapshot_rejected"

// SnapshotRejected logs that an outcome was recorded but the snapshot in the ledger's answer was refused.
func (o *Observer) SnapshotRejected(id fencerow.CorrelationID) {
	o.write(slog.LevelWarn, "snapshot rejected",
		slog.String(keyReason, reasonSnapshotRejected), slog.String(keyCorrelationID, safe(id)))
}

// RecordAbandoned logs that outcomes or releases could not be written while the claim could be trusted. The
// rows come back when their lease expires; code is the store's last answer.
func (o *Observer) RecordAbandoned(code fencerow.Code, ids []fencerow.CorrelationID) {
	o.write(slog.LevelError, "record abandoned",
		slog.String(keyReason, safe(code)), slog.Int(keyCount, len(ids)),
		slog.Any(keyCorrelationIDs, safeIDs(ids)))
}
