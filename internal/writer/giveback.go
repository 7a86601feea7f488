package writer

import (
	"context"
	"errors"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// giveBacksAPoll bounds how many charges one poll gives back, so that a slow store does not hold it up.
const giveBacksAPoll = 4

// giveBackCharges gives back up to limit of the attempts that entries were charged for what turned out to be
// the target's fault. Each takes a claim of its own; one that another worker holds is tried again at later
// polls, after the others. It ends at the first error of the store. The caller is inside enter and leave, or
// knows that nothing else claims.
func (w *Writer) giveBackCharges(limit int) {
	owed := w.health.takeOwed()
	var keep []*lapse
	for n := 0; n < limit && len(owed) > 0; n++ {
		l := owed[0]
		owed = owed[1:]
		l.tries++
		paid, err := w.giveBackOne(l)
		if !paid && l.tries < maxOweTries {
			keep = append(keep, l)
		}
		if err != nil {
			break
		}
	}
	w.health.owe(append(owed, keep...))
}

// giveBackOne gives back one attempt and reports whether all that is owed to the entry is paid, or cannot be
// paid any more. The error is the store's.
func (w *Writer) giveBackOne(l *lapse) (paid bool, err error) {
	repeated := l.paying != nil
	if !repeated {
		if paid, err = w.claimOwed(l); l.paying == nil {
			return paid, err
		}
	}
	ctx, cancel := context.WithTimeout(w.life, minWriteTime)
	defer cancel()
	verdicts, err := w.store.RecordOutcomes(ctx, fencerow.RecordParams{
		Instance: w.cfg.Instance, Token: l.paying.Token, Outcomes: []fencerow.Outcome{{
			OutboxID: l.id, Kind: fencerow.OutcomeRetryableFailure, Reason: l.reason,
			Delay: max(time.Until(l.dueAgain), 0), Charge: fencerow.ChargeGiveBack,
		}},
	})
	if err != nil {
		return false, err // The same claim is asked again: it says whether this was done.
	}
	l.paying = nil
	// A try without an answer may have been done. One attempt too many is better than taking back one that
	// another worker charged.
	if verdicts[0].Applied || repeated {
		l.charges--
	}
	return l.charges <= 0, nil
}

// claimOwed claims the entry and leaves the claim in l.paying. Without one, it reports whether nothing can be
// paid any more.
func (w *Writer) claimOwed(l *lapse) (never bool, err error) {
	token := fencerow.NewClaimToken()
	claim, err := w.claim(token, minWriteTime, func(ctx context.Context) (*fencerow.Claim, error) {
		return w.store.ClaimOne(ctx, fencerow.ClaimOneParams{
			Instance: w.cfg.Instance, Worker: w.cfg.Worker, Token: token, CorrelationID: l.correlationID,
			Lease: w.cfg.Lease, ForceDue: true,
		})
	})
	if refused, ok := errors.AsType[*fencerow.ClaimRefusedError](err); ok {
		return refused.Why != fencerow.RefusedLeased && refused.Why != fencerow.RefusedHeld, nil
	}
	if err != nil {
		return false, err
	}
	if e := &claim.Entries[0]; e.Life != l.life || e.Attempt == 1 {
		w.doubt(token)
		return true, nil
	}
	l.paying = claim
	return false, nil
}
