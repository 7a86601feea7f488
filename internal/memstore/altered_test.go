package memstore

import (
	"context"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/storetest"
)

// altered is a store of which some methods are replaced by ones that lack a guard.
type altered struct {
	*Store
	enqueue func(context.Context, *Store, fencerow.EnqueueParams) ([]fencerow.Enqueued, error)
	batch   func(context.Context, *Store, fencerow.ClaimBatchParams) (*fencerow.Claim, error)
	one     func(context.Context, *Store, fencerow.ClaimOneParams) (*fencerow.Claim, error)
	record  func(context.Context, *Store, fencerow.RecordParams) ([]fencerow.Verdict, error)
	release func(context.Context, *Store, fencerow.ReleaseParams) ([]fencerow.Verdict, error)
	list    func(context.Context, *Store, fencerow.ListPendingParams) ([]fencerow.PendingEntry, error)
	blocked func(context.Context, *Store, fencerow.ListBlockedParams) ([]fencerow.BlockedEntry, error)
	sum     func(context.Context, *Store, fencerow.CashDeltaParams) ([]fencerow.CashDelta, error)
	requeue func(context.Context, *Store, fencerow.RequeueParams) error
	prune   func(context.Context, *Store, fencerow.PruneParams) (fencerow.PruneResult, error)
}

// either calls the replacement if there is one.
func either[P, R any](
	ctx context.Context, s *Store, p P,
	replaced func(context.Context, *Store, P) (R, error), own func(context.Context, P) (R, error),
) (R, error) {
	if replaced == nil {
		return own(ctx, p)
	}
	return replaced(ctx, s, p)
}

func (a *altered) EnqueueMany(ctx context.Context, p fencerow.EnqueueParams) ([]fencerow.Enqueued, error) {
	return either(ctx, a.Store, p, a.enqueue, a.Store.EnqueueMany)
}

func (a *altered) ClaimBatch(ctx context.Context, p fencerow.ClaimBatchParams) (*fencerow.Claim, error) {
	return either(ctx, a.Store, p, a.batch, a.Store.ClaimBatch)
}

func (a *altered) ClaimOne(ctx context.Context, p fencerow.ClaimOneParams) (*fencerow.Claim, error) {
	return either(ctx, a.Store, p, a.one, a.Store.ClaimOne)
}

func (a *altered) RecordOutcomes(ctx context.Context, p fencerow.RecordParams) ([]fencerow.Verdict, error) {
	return either(ctx, a.Store, p, a.record, a.Store.RecordOutcomes)
}

func (a *altered) Release(ctx context.Context, p fencerow.ReleaseParams) ([]fencerow.Verdict, error) {
	return either(ctx, a.Store, p, a.release, a.Store.Release)
}

func (a *altered) ListPending(
	ctx context.Context, p fencerow.ListPendingParams,
) ([]fencerow.PendingEntry, error) {
	return either(ctx, a.Store, p, a.list, a.Store.ListPending)
}

func (a *altered) ListBlocked(
	ctx context.Context, p fencerow.ListBlockedParams,
) ([]fencerow.BlockedEntry, error) {
	return either(ctx, a.Store, p, a.blocked, a.Store.ListBlocked)
}

func (a *altered) PendingCashDelta(
	ctx context.Context, p fencerow.CashDeltaParams,
) ([]fencerow.CashDelta, error) {
	return either(ctx, a.Store, p, a.sum, a.Store.PendingCashDelta)
}

func (a *altered) Requeue(ctx context.Context, p fencerow.RequeueParams) error {
	if a.requeue == nil {
		return a.Store.Requeue(ctx, p)
	}
	return a.requeue(ctx, a.Store, p)
}

func (a *altered) Prune(ctx context.Context, p fencerow.PruneParams) (fencerow.PruneResult, error) {
	return either(ctx, a.Store, p, a.prune, a.Store.Prune)
}

// guard is what a mutant lacks, and the cases that must notice.
type guard struct {
	name    string
	mutant  altered
	noticed []string
}

func rejectEach(t *testing.T, guards []guard) {
	t.Helper()
	for _, g := range guards {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			storetest.Rejects(t, harness{wrap: func(s *Store) fencerow.Store {
				mutant := g.mutant
				mutant.Store = s
				return &mutant
			}}, g.noticed...)
		})
	}
}

// within runs f on the instance under the mutex.
func (s *Store) within(key fencerow.InstanceKey, f func(in *instance, now time.Time)) {
	s.data.mu.Lock()
	defer s.data.mu.Unlock()
	f(s.data.instance(key), s.data.clock().UTC().Truncate(time.Microsecond))
}

// keys lists the instances, the given one first.
func (s *Store) keys(first fencerow.InstanceKey) []fencerow.InstanceKey {
	s.data.mu.Lock()
	defer s.data.mu.Unlock()
	keys := []fencerow.InstanceKey{first}
	for key := range s.data.instances {
		if key != first {
			keys = append(keys, key)
		}
	}
	return keys
}

// holder returns the token of the claim that stands for the row, or the given one if there is none.
func (s *Store) holder(
	key fencerow.InstanceKey, id fencerow.OutboxID, given fencerow.ClaimToken,
) fencerow.ClaimToken {
	s.within(key, func(in *instance, _ time.Time) {
		if r := in.rows[id]; r != nil && r.claim != nil {
			given = r.claim.token
		}
	})
	return given
}

// force makes the claim of the token hold the pending row again, as if it had never let it go.
func (s *Store) force(
	key fencerow.InstanceKey, token fencerow.ClaimToken, id fencerow.OutboxID, epoch fencerow.ClaimEpoch,
) {
	s.within(key, func(in *instance, now time.Time) {
		r := in.rows[id]
		if r == nil || r.pending == nil || r.claim != nil && r.claim.token == token {
			return
		}
		if r.claim != nil {
			in.letGo(r.claim, r)
		}
		c := in.claims[token]
		if c == nil {
			c = &claim{
				token: token, epoch: epoch, worker: "w", claimedAt: now, leaseExpiresAt: now.Add(time.Hour),
				rows: make(map[fencerow.OutboxID]*row),
			}
			in.claims[token] = c
		}
		c.rows[id], r.claim = r, c
	})
}
