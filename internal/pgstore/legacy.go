package pgstore

import (
	"context"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/db"
)

// LegacyCount implements [fencerow.Store].
func (s *Store) LegacyCount(ctx context.Context) (int64, error) {
	var n int64
	err := s.view(ctx, "count legacy entries", func(ctx context.Context, q *db.Queries) error {
		var err error
		n, err = q.LegacyCount(ctx)
		return err
	})
	return n, err
}

// LegacyExport implements [fencerow.Store]. Where unowned entries exist, a role that the walls between
// the instances bind is refused with ErrStorePermission: what has no owner is behind them for everybody.
func (s *Store) LegacyExport(ctx context.Context, correlationID string) ([]fencerow.LegacyEntry, error) {
	if err := fencerow.ValidateLegacyID(correlationID); err != nil {
		return nil, err
	}
	var rows []db.LegacyExportRow
	var rowSecurity string
	err := s.view(ctx, "export legacy entries",
		reads(&rowSecurity, (*db.Queries).LegacyUnwalled),
		func(ctx context.Context, q *db.Queries) error {
			var err error
			rows, err = q.LegacyExport(
				ctx,
				db.LegacyExportParams{CorrelationID: correlationID, RowLimit: fencerow.MaxPage},
			)
			return err
		})
	if err != nil {
		return nil, err
	}
	entries := make([]fencerow.LegacyEntry, len(rows))
	for i, r := range rows {
		entries[i] = fencerow.LegacyEntry{
			OutboxID:      fencerow.OutboxID(r.OutboxID),
			CorrelationID: r.CorrelationID,
			EntryKind:     r.EntryKind,
			SlotID:        r.SlotID,
			CashDelta:     r.CashDelta,
			Currency:      r.Currency,
			Payload:       []byte(r.Payload),
		}
	}
	return entries, nil
}
