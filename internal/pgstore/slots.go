package pgstore

import (
	"context"

	"github.com/shopspring/decimal"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/db"
)

// Slots implements [fencerow.Store].
func (s *Store) Slots(ctx context.Context, instance fencerow.InstanceKey) ([]fencerow.Slot, error) {
	const op = "list slots"
	if err := instance.Validate(); err != nil {
		return nil, err
	}
	var rows []db.SlotListRow
	var sums []db.SlotCashDeltaRow
	err := s.view(ctx, op,
		func(ctx context.Context, q *db.Queries) error {
			var err error
			rows, err = q.SlotList(ctx, string(instance))
			return err
		},
		func(ctx context.Context, q *db.Queries) error {
			var err error
			sums, err = q.SlotCashDelta(ctx, string(instance))
			return err
		})
	if err != nil {
		return nil, err
	}
	slots, err := mapSlots(rows, sums)
	if err != nil {
		return nil, fencerow.NewError(op, fencerow.ErrStoreFailed, err)
	}
	return slots, nil
}

func mapSlots(rows []db.SlotListRow, sums []db.SlotCashDeltaRow) ([]fencerow.Slot, error) {
	deltas := map[string][]fencerow.CashDelta{}
	for _, r := range sums {
		var d fencerow.CashDelta
		err := mapDelta(&d, db.PendingCashDeltaRow{
			Currency:     r.Currency,
			Pending:      r.Pending,
			PendingCount: r.PendingCount,
			Blocked:      r.Blocked,
			BlockedCount: r.BlockedCount,
		})
		if err != nil {
			return nil, err
		}
		deltas[r.SlotID] = append(deltas[r.SlotID], d)
	}
	slots := make([]fencerow.Slot, len(rows))
	for i, r := range rows {
		slots[i] = fencerow.Slot{
			SlotID:        fencerow.SlotID(r.SlotID),
			Strategy:      text(r.Strategy),
			Currency:      text(r.Currency),
			LedgerVersion: r.LedgerVersion,
			PendingCash:   deltas[r.SlotID],
			OpenSkips:     r.OpenSkips,
		}
		if r.UpdatedAt != nil {
			at := r.UpdatedAt.UTC()
			slots[i].UpdatedAt = &at
		}
		if r.LedgerVersion != nil {
			balance, err := decimal.NewFromString(r.CashBalance)
			if err != nil {
				return nil, err
			}
			slots[i].CashBalance = &balance
		}
	}
	return slots, nil
}
