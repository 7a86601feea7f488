package pgstore

import (
	"context"
	"errors"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/db"
)

// ClaimOne implements [fencerow.Store].
func (s *Store) ClaimOne(ctx context.Context, p fencerow.ClaimOneParams) (*fencerow.Claim, error) {
	const op = "claim one"
	if err := p.Validate(); err != nil {
		return nil, err
	}
	var row db.ClaimOneRow
	var lock []db.InstanceLockRow
	var entries []db.ClaimEntriesRow
	calls := []call{
		lockInstance(p.Instance, &lock),
		func(ctx context.Context, q *db.Queries) error {
			var err error
			row, err = q.ClaimOne(ctx, db.ClaimOneParams{
				InstanceKey:   string(p.Instance),
				ClaimToken:    uuid(p.Token),
				ClaimedBy:     string(p.Worker),
				CorrelationID: string(p.CorrelationID),
				Lease:         p.Lease,
				ForceDue:      p.ForceDue,
				MinEpoch:      s.highestEpoch.Load() + 1,
			})
			return err
		},
	}
	err := s.claimTransaction(
		ctx,
		op,
		p.Instance,
		p.Lease,
		&lock,
		calls,
		readEntries(p.Instance, p.Token, &entries),
	)
	held := errors.Is(err, fencerow.ErrInstanceHeld)
	if err != nil && !held {
		return nil, err
	}
	if !row.Claimed {
		return nil, &fencerow.ClaimRefusedError{Why: refusal(&row, held, p.ForceDue)}
	}
	if len(entries) == 0 {
		return nil, fencerow.NewError(op, fencerow.ErrStoreTimeout, nil)
	}
	claim := &fencerow.Claim{
		Instance:       p.Instance,
		Token:          p.Token,
		Epoch:          fencerow.ClaimEpoch(row.ClaimEpoch),
		ClaimedAt:      row.ClaimedAt.UTC(),
		LeaseExpiresAt: row.LeaseExpiresAt.UTC(),
	}
	claimed := claimedRow{
		id: row.OutboxID, dueAt: row.NextRetryAt,
		attempts: row.AttemptCount, life: row.Life, expiries: row.ExpiryCount,
		uncertain: row.DeliveryUncertain, reclaimed: row.Reclaimed, reason: row.Reason,
	}
	if err := s.fill(op, claim, []claimedRow{claimed}, entries); err != nil {
		return nil, err
	}
	return claim, nil
}

// refusal says why nothing was claimed, the most lasting reason first.
func refusal(row *db.ClaimOneRow, held, forced bool) fencerow.RefusedWhy {
	switch {
	case row.ForeignOwned:
		return fencerow.RefusedForeign
	case !row.Known:
		return fencerow.RefusedUnknown
	case !row.Unfinished:
		return fencerow.RefusedFinished
	case held:
		return fencerow.RefusedHeld
	case !row.Due && !forced:
		return fencerow.RefusedNotDue
	default:
		return fencerow.RefusedLeased
	}
}
