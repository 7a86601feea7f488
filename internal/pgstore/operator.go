package pgstore

import (
	"context"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/db"
)

const (
	// pruneLooks is how many own outcomes a prune looks at for each row that it may delete.
	pruneLooks = 10
	// prunePasses is how many outcomes of all instances a prune passes at most: about a tenth of a second.
	prunePasses = 200_000
)

// underInstance runs calls behind the instance's lock, which serialises them with its claims. An instance
// that is not registered, or is no more after a failover, is registered first.
func (s *Store) underInstance(
	ctx context.Context,
	op string,
	instance fencerow.InstanceKey,
	calls ...call,
) error {
	var lock []db.InstanceLockRow
	register := func(ctx context.Context, q *db.Queries) error {
		return q.InstanceRegister(ctx, string(instance))
	}
	calls = append([]call{register, lockInstance(instance, &lock)}, calls...)
	return s.transact(ctx, op, s.timeout, calls)
}

// Requeue implements [fencerow.Store].
func (s *Store) Requeue(ctx context.Context, p fencerow.RequeueParams) error {
	const op = "requeue"
	if err := p.Validate(); err != nil {
		return err
	}
	var row db.OutcomeRequeueRow
	var foreign bool
	err := s.underInstance(ctx, op, p.Instance,
		func(ctx context.Context, q *db.Queries) error {
			var err error
			row, err = q.OutcomeRequeue(ctx, db.OutcomeRequeueParams{
				CorrelationID: string(p.CorrelationID),
				InstanceKey:   string(p.Instance),
				FromStatus:    string(p.From),
			})
			return err
		},
		func(ctx context.Context, q *db.Queries) error {
			var err error
			foreign, err = q.EntryForeign(ctx, db.EntryForeignParams{
				CorrelationID: string(p.CorrelationID), InstanceKey: string(p.Instance),
			})
			return err
		})
	switch {
	case err != nil:
		return err
	case row.Requeued:
		s.instance(p.Instance).wake()
		return nil
	case !row.Known:
		return mustBeOwn(op, foreign)
	case row.Unfinished || row.Status == "":
		return &fencerow.WrongStatusError{Status: fencerow.StatusPending}
	default:
		return &fencerow.WrongStatusError{Status: fencerow.Status(row.Status)}
	}
}

// Prune implements [fencerow.Store].
func (s *Store) Prune(ctx context.Context, p fencerow.PruneParams) (fencerow.PruneResult, error) {
	if err := p.Validate(); err != nil {
		return fencerow.PruneResult{}, err
	}
	var row db.EntryPruneRow
	err := s.underInstance(ctx, "prune", p.Instance, func(ctx context.Context, q *db.Queries) error {
		var err error
		row, err = q.EntryPrune(ctx, db.EntryPruneParams{
			InstanceKey: string(p.Instance),
			OlderThan:   p.OlderThan,
			RowLimit:    int32(p.Limit),
			LookLimit:   int32(p.Limit) * pruneLooks,
			PassLimit:   prunePasses,
			After:       int64(p.After),
		})
		return err
	})
	return fencerow.PruneResult{Deleted: int(row.DeletedCount), Next: fencerow.OutboxID(row.NextID)}, err
}

// Hold implements [fencerow.Store].
func (s *Store) Hold(ctx context.Context, instance fencerow.InstanceKey) (bool, error) {
	return s.switchHold(ctx, "hold", instance, (*db.Queries).InstanceHold)
}

// Resume implements [fencerow.Store].
func (s *Store) Resume(ctx context.Context, instance fencerow.InstanceKey) (bool, error) {
	return s.switchHold(ctx, "resume", instance, (*db.Queries).InstanceResume)
}

func (s *Store) switchHold(
	ctx context.Context, op string, instance fencerow.InstanceKey,
	change func(*db.Queries, context.Context, string) (int64, error),
) (bool, error) {
	if err := instance.Validate(); err != nil {
		return false, err
	}
	var changed int64
	err := s.underInstance(ctx, op, instance, func(ctx context.Context, q *db.Queries) error {
		var err error
		changed, err = change(q, ctx, string(instance))
		return err
	})
	return changed > 0, err
}

// NameSlot implements [fencerow.Store].
func (s *Store) NameSlot(ctx context.Context, p fencerow.NameSlotParams) error {
	if err := p.Validate(); err != nil {
		return err
	}
	return s.transact(ctx, "name a slot", s.timeout, []call{func(ctx context.Context, q *db.Queries) error {
		return q.SlotName(ctx, db.SlotNameParams{
			InstanceKey: string(p.Instance), SlotID: string(p.Slot), Strategy: p.Strategy,
		})
	}})
}
