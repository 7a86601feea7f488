package writer

import (
	"context"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/observe"
)

// ErrStopping: the writer was shut down; nothing was claimed.
const ErrStopping fencerow.Code = "writer_stopping"

// Writer delivers the entries of one instance. All methods are safe for concurrent use. It runs goroutines only while rows are in
// flight; one that is idle needs no closing.
type Writer struct {
	cfg    Config
	store  fencerow.Claimer
	ledger fencerow.Ledger
	obs    *observe.Observer
}

// New returns a writer. A configuration that cannot hold is refused with an [*fencerow.InputError], before anything is used.
func New(store fencerow.Claimer, ledger fencerow.Ledger, obs *observe.Observer, cfg Config) (*Writer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	switch {
	case store == nil:
		return nil, &fencerow.InputError{Field: "store", Problem: "is missing"}
	case ledger == nil:
		return nil, &fencerow.InputError{Field: "ledger", Problem: "is missing"}
	case obs == nil:
		return nil, &fencerow.InputError{Field: "observer", Problem: "is missing"}
	case obs.Instance() != cfg.Instance:
		return nil, &fencerow.InputError{Field: "observer", Problem: "is of another instance"}
	}
	return &Writer{cfg: cfg.withDefaults(), store: store, ledger: ledger, obs: obs}, nil
}

// PollResult says what one poll did.
type PollResult struct {
	// Claimed is how many rows the poll claimed.
	Claimed int
	// More says that another poll at once may claim more. It is never set while the target is on hold.
	More bool
	// Skipped is empty if the store was asked and answered. A poll that neither claimed nor was skipped found nothing due.
	Skipped SkipReason
}

// Empty reports whether the poll found nothing due.
func (r PollResult) Empty() bool { return r.Claimed == 0 && r.Skipped == "" }

// SkipReason says why a poll claimed nothing without finding nothing due. The vocabulary is closed.
type SkipReason string

// The skip reasons. None of them is an empty poll or a failure.
const (
	// SkippedNoRoom: the rows in flight use up the budget, or what could start in the trust window.
	SkippedNoRoom SkipReason = "no_room"
	// SkippedTargetHeld: the ledger asked for a pause that has not passed.
	SkippedTargetHeld SkipReason = "target_held"
	// SkippedInstanceHeld: an operator holds the instance.
	SkippedInstanceHeld SkipReason = "instance_held"
	// SkippedStoreBusy: the store's lock or connection was not had in time.
	SkippedStoreBusy SkipReason = "store_busy"
	// SkippedStopping: the writer stops, or the context was already cancelled.
	SkippedStopping SkipReason = "stopping"
)

// Poll is one tick: it claims what fits beside the rows in flight and starts their deliveries, and returns without waiting for them.
// A claim once sent is awaited even if ctx is cancelled. An error is an unexpected one, such as a database that cannot be reached.
func (w *Writer) Poll(ctx context.Context) (PollResult, error) {
	return PollResult{}, ErrStopping
}

// Wake signals when a poll is worth while before the next tick: the last claim said that there is more, and there is room for it. The
// channel is never closed.
func (w *Writer) Wake() <-chan struct{} { return nil }

// RunOnce is a Poll that waits until the rows it claimed are recorded, released or given up. When ctx is cancelled, rows not yet
// started are released and running deliveries get Config.Grace.
func (w *Writer) RunOnce(ctx context.Context) (PollResult, error) {
	return PollResult{}, ErrStopping
}

// TargetedResult says what came of one targeted entry.
type TargetedResult struct {
	CorrelationID fencerow.CorrelationID
	ClaimResult   observe.ClaimResult
	// Why is set if the claim was refused.
	Why fencerow.RefusedWhy
	// Outcome is what was recorded; empty if the claim was refused or lost, or the row was released.
	Outcome fencerow.OutcomeKind
	// Reason is the outcome's reason, why the claim was refused or lost, or why the row was released.
	Reason string
}

// RunTargeted claims one entry, delivers it, and waits until it is recorded. forceDue also takes an entry that waits for its retry. A
// refusal is a result, not an error. While the target is on hold it delivers all the same: an operator asked.
func (w *Writer) RunTargeted(ctx context.Context, id fencerow.CorrelationID, forceDue bool) (TargetedResult, error) {
	return TargetedResult{}, ErrStopping
}

// BackfillResult says what a backfill did. Outcomes has every kind, also those of which there were none.
type BackfillResult struct {
	Claimed, Lost int
	Outcomes      map[fencerow.OutcomeKind]int
	// Stopped is empty if the backfill ended because nothing was due any more or the limit was reached. Otherwise it is a [SkipReason],
	// or the reason of the target's hold.
	Stopped string
}

// Backfill claims and delivers until nothing is due, or until it has claimed limit rows (0: no limit), and waits for the last. It stops
// when the target goes on hold. Whatever it returns with, also an error, the result says what was done.
func (w *Writer) Backfill(ctx context.Context, limit int) (BackfillResult, error) {
	return BackfillResult{}, ErrStopping
}

// Shutdown claims no more, releases what has not started, and lets running deliveries end while ctx lasts; then it cancels and releases
// them, marked uncertain where bytes may have been sent. It returns when no goroutine and, as far as the store answers, no lease is
// left. The error is ctx's if deliveries had to be cancelled.
func (w *Writer) Shutdown(ctx context.Context) error { return nil }
