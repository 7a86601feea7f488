package writer

import (
	"context"
	"errors"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/observe"
)

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

// RunTargeted claims one entry, delivers it, and waits until it is recorded. forceDue also takes an entry
// that waits for its retry. A refusal is a result, not an error. While the target is on hold it delivers all
// the same: an operator asked.
func (w *Writer) RunTargeted(
	ctx context.Context, id fencerow.CorrelationID, forceDue bool,
) (TargetedResult, error) {
	res := TargetedResult{CorrelationID: id}
	if err := id.Validate(); err != nil {
		return res, err
	}
	if err := ctx.Err(); err != nil {
		return res, err
	}
	b, err := w.startTargeted(id, forceDue)
	if refused, ok := errors.AsType[*fencerow.ClaimRefusedError](err); ok {
		res.ClaimResult, res.Why, res.Reason = observe.ResultUnavailable, refused.Why, string(refused.Why)
		if refused.Why == fencerow.RefusedForeign {
			res.ClaimResult = observe.ResultForeign
		}
		w.obs.TargetedClaim(res.ClaimResult, id)
		return res, nil
	}
	if err != nil {
		return res, err
	}
	w.await(ctx, b)
	t := b.sum()
	res.ClaimResult, res.Outcome, res.Reason = observe.ResultClaimed, t.outcome, t.reason
	if t.wasLost {
		res.ClaimResult = observe.ResultLost
	}
	return res, t.err
}

func (w *Writer) startTargeted(id fencerow.CorrelationID, forceDue bool) (*batch, error) {
	if !w.enter() {
		return nil, ErrStopping
	}
	defer w.leave()
	w.settleDoubts()
	w.reserveOne()
	claimed := 0
	defer func() { w.unreserve(1, claimed) }()

	win, token := w.openWindow(), fencerow.NewClaimToken()
	claim, err := w.claim(token, w.claimTime(), func(ctx context.Context) (*fencerow.Claim, error) {
		return w.store.ClaimOne(ctx, fencerow.ClaimOneParams{
			Instance: w.cfg.Instance, Worker: w.cfg.Worker, Token: token, CorrelationID: id,
			Lease: w.cfg.Lease, ForceDue: forceDue,
		})
	})
	if err != nil {
		return nil, err
	}
	w.obs.TargetedClaim(observe.ResultClaimed, id)
	claimed = len(claim.Entries)
	b := newBatch(claim, win, win.left(w.now()), true)
	w.start(b, true)
	return b, nil
}
