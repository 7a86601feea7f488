package history

import (
	"context"
	"errors"
	"sync"

	"github.com/fourblocks2020/fencerow"
)

// holders is what the broken stores know of the claims made through them.
type holders struct {
	sync.Mutex
	latest map[fencerow.OutboxID]fencerow.ClaimToken
}

// broken is a store with a guard removed, made of a sound one by its public methods.
type broken struct {
	fencerow.Store
	holders *holders
	// tokenless takes an outcome or a release for that of whoever claimed the row last.
	tokenless bool
	// leaseless takes a row from its holder.
	leaseless bool
	// uncounted does not count an attempt that ended by expiry.
	uncounted bool
	// twice takes a second outcome of a finished life.
	twice bool
}

func (b *broken) note(made *fencerow.Claim) {
	b.holders.Lock()
	defer b.holders.Unlock()
	for i := range made.Entries {
		b.holders.latest[made.Entries[i].OutboxID] = made.Token
		if b.uncounted && made.Entries[i].Reclaimed {
			made.Entries[i].Attempt--
		}
	}
}

func (b *broken) holder(row fencerow.OutboxID, given fencerow.ClaimToken) fencerow.ClaimToken {
	b.holders.Lock()
	defer b.holders.Unlock()
	if latest, known := b.holders.latest[row]; known {
		return latest
	}
	return given
}

func (b *broken) ClaimBatch(ctx context.Context, p fencerow.ClaimBatchParams) (*fencerow.Claim, error) {
	made, err := b.Store.ClaimBatch(ctx, p)
	if err == nil {
		b.note(made)
	}
	return made, err
}

func (b *broken) ClaimOne(ctx context.Context, p fencerow.ClaimOneParams) (*fencerow.Claim, error) {
	made, err := b.Store.ClaimOne(ctx, p)
	refused, isRefused := errors.AsType[*fencerow.ClaimRefusedError](err)
	if b.leaseless && isRefused && refused.Why == fencerow.RefusedLeased {
		shown, showErr := b.Show(ctx, fencerow.EntryParams{Instance: p.Instance, CorrelationID: p.CorrelationID})
		if showErr != nil {
			return nil, showErr
		}
		id := shown.Entry.OutboxID
		_, releaseErr := b.Store.Release(ctx, fencerow.ReleaseParams{
			Instance: p.Instance, Token: b.holder(id, p.Token), Rows: []fencerow.ReleaseRow{{OutboxID: id}},
		})
		if releaseErr != nil {
			return nil, releaseErr
		}
		made, err = b.Store.ClaimOne(ctx, p)
	}
	if err == nil {
		b.note(made)
	}
	return made, err
}

func (b *broken) RecordOutcomes(ctx context.Context, p fencerow.RecordParams) ([]fencerow.Verdict, error) {
	if b.tokenless {
		p.Token = b.holder(p.Outcomes[0].OutboxID, p.Token)
	}
	verdicts, err := b.Store.RecordOutcomes(ctx, p)
	if err == nil && b.twice && verdicts[0].Lost == fencerow.LostFinished {
		verdicts[0].Applied = true
	}
	return verdicts, err
}

func (b *broken) Release(ctx context.Context, p fencerow.ReleaseParams) ([]fencerow.Verdict, error) {
	if b.tokenless {
		p.Token = b.holder(p.Rows[0].OutboxID, p.Token)
	}
	return b.Store.Release(ctx, p)
}

// guards are the broken stores by what they lack.
func guards() map[string]broken {
	return map[string]broken{
		"the token of an outcome":    {tokenless: true},
		"the lease of a holder":      {leaseless: true},
		"an attempt that expired":    {uncounted: true},
		"the end of a finished life": {twice: true},
	}
}
