package writer

import (
	"context"
	"errors"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// giveBackCharges gives back the attempts that entries were charged for what turned out to be the target's
// fault. Each takes a claim of its own; one that another worker holds is tried again at later polls.
func (w *Writer) giveBackCharges() {
	owed := w.health.takeOwed()
	var keep []*lapse
	for _, l := range owed {
		l.tries++
		if !w.giveBackOne(l) && l.tries < maxOweTries {
			keep = append(keep, l)
		}
	}
	w.health.owe(keep)
}

// giveBackOne gives back one attempt and reports whether all that is owed to the entry is paid, or cannot be
// paid any more.
func (w *Writer) giveBackOne(l *lapse) (paid bool) {
	token := fencerow.NewClaimToken()
	claim, err := w.claim(token, func(ctx context.Context) (*fencerow.Claim, error) {
		return w.store.ClaimOne(ctx, fencerow.ClaimOneParams{
			Instance: w.cfg.Instance, Worker: w.cfg.Worker, Token: token, CorrelationID: l.correlationID,
			Lease: w.cfg.Lease, ForceDue: true,
		})
	})
	if err != nil {
		refused, ok := errors.AsType[*fencerow.ClaimRefusedError](err)
		return ok && refused.Why != fencerow.RefusedLeased && refused.Why != fencerow.RefusedHeld
	}
	e := &claim.Entries[0]
	counted := e.Attempt - 1
	if e.Life != l.life || counted <= l.attempt-l.charges {
		w.doubt(token)
		return true
	}
	ctx, cancel := context.WithTimeout(w.life, minWriteTime)
	defer cancel()
	_, err = w.store.RecordOutcomes(ctx, fencerow.RecordParams{
		Instance: w.cfg.Instance, Token: token, Outcomes: []fencerow.Outcome{{
			OutboxID: e.OutboxID, Kind: fencerow.OutcomeRetryableFailure, Reason: l.reason,
			Delay: max(time.Until(l.dueAgain), 0), Charge: fencerow.ChargeGiveBack,
		}},
	})
	if err != nil {
		w.doubt(token)
		return false
	}
	return counted-1 <= l.attempt-l.charges
}
