package pgstore

import (
	"context"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/db"
)

// view runs reads in one transaction with the bounds of a view, planned for their arguments.
func (s *Store) view(ctx context.Context, op string, calls ...call) error {
	plan := func(ctx context.Context, q *db.Queries) error {
		_, err := q.TransactionView(ctx)
		return err
	}
	bound := max(s.timeout, viewTimeout)
	return s.transact(ctx, op, bound, append([]call{plan}, calls...))
}

// ListPending implements [fencerow.Store].
func (s *Store) ListPending(
	ctx context.Context,
	p fencerow.ListPendingParams,
) ([]fencerow.PendingEntry, error) {
	const op = "list pending"
	if err := p.Validate(); err != nil {
		return nil, err
	}
	var rows []db.PendingListRow
	err := s.view(ctx, op, func(ctx context.Context, q *db.Queries) error {
		var err error
		rows, err = q.PendingList(ctx, db.PendingListParams{
			InstanceKey: string(p.Instance),
			WithPayload: p.WithPayload,
			AfterDue:    p.After.DueAt,
			AfterID:     int64(p.After.OutboxID),
			RowLimit:    int32(p.Limit),
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	entries := make([]fencerow.PendingEntry, len(rows))
	for i := range rows {
		if err := mapPending(&entries[i], p.Instance, &rows[i]); err != nil {
			return nil, fencerow.NewError(op, fencerow.ErrStoreFailed, err)
		}
	}
	return entries, nil
}

func mapPending(e *fencerow.PendingEntry, instance fencerow.InstanceKey, r *db.PendingListRow) error {
	err := entryColumns{
		id: r.OutboxID, correlationID: r.CorrelationID, kind: r.EntryKind, slot: text(r.SlotID),
		cashDelta: r.CashDelta, currency: text(r.Currency), payload: []byte(r.Payload),
		traceParent: text(r.Traceparent), enqueuedAt: r.EnqueuedAt,
	}.into(&e.Entry, instance)
	if err != nil {
		return err
	}
	e.DueAt = r.NextRetryAt.UTC()
	e.Due = r.Due
	e.DueFor = r.DueFor
	e.Attempts = int(r.AttemptCount)
	e.Life = int(r.Life)
	e.Uncertain = r.DeliveryUncertain
	e.ExpiryCount = int(r.ExpiryCount)
	e.LastOutcome = fencerow.OutcomeKind(text(r.Outcome))
	e.LastReason = fencerow.ReasonCode(text(r.Reason))
	return nil
}

// ListBlocked implements [fencerow.Store].
func (s *Store) ListBlocked(
	ctx context.Context,
	p fencerow.ListBlockedParams,
) ([]fencerow.BlockedEntry, error) {
	const op = "list blocked"
	if err := p.Validate(); err != nil {
		return nil, err
	}
	var rows []db.OutcomeBlockedRow
	err := s.view(ctx, op, func(ctx context.Context, q *db.Queries) error {
		var err error
		rows, err = q.OutcomeBlocked(ctx, db.OutcomeBlockedParams{
			InstanceKey: string(p.Instance),
			Status:      string(p.Status),
			AfterID:     int64(p.After),
			RowLimit:    int32(p.Limit),
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	entries := make([]fencerow.BlockedEntry, len(rows))
	for i := range rows {
		if err := mapBlocked(&entries[i], p.Instance, &rows[i]); err != nil {
			return nil, fencerow.NewError(op, fencerow.ErrStoreFailed, err)
		}
	}
	return entries, nil
}

func mapBlocked(e *fencerow.BlockedEntry, instance fencerow.InstanceKey, r *db.OutcomeBlockedRow) error {
	e.FinishedLife = finishedLife(&db.OutcomeListRow{
		Life:         r.Life,
		Status:       r.Status,
		Outcome:      r.Outcome,
		Reason:       r.Reason,
		AttemptCount: r.AttemptCount,
		ClaimEpoch:   r.ClaimEpoch,
		LedgerRef:    r.LedgerRef,
		OutcomeAt:    r.OutcomeAt,
	})
	return entryColumns{
		id: r.OutboxID, correlationID: r.CorrelationID, kind: r.EntryKind, slot: text(r.SlotID),
		cashDelta: r.CashDelta, currency: text(r.Currency), traceParent: text(r.Traceparent),
		enqueuedAt: r.EnqueuedAt,
	}.into(&e.Entry, instance)
}

func finishedLife(l *db.OutcomeListRow) fencerow.FinishedLife {
	return fencerow.FinishedLife{
		Life:      int(l.Life),
		Status:    fencerow.Status(l.Status),
		Outcome:   fencerow.OutcomeKind(l.Outcome),
		Reason:    fencerow.ReasonCode(text(l.Reason)),
		Attempts:  int(l.AttemptCount),
		Epoch:     fencerow.ClaimEpoch(l.ClaimEpoch),
		LedgerRef: text(l.LedgerRef),
		At:        l.OutcomeAt.UTC(),
	}
}

// PendingCashDelta implements [fencerow.Store].
func (s *Store) PendingCashDelta(
	ctx context.Context,
	p fencerow.CashDeltaParams,
) ([]fencerow.CashDelta, error) {
	const op = "pending cash delta"
	if err := p.Validate(); err != nil {
		return nil, err
	}
	var rows []db.PendingCashDeltaRow
	err := s.view(ctx, op, func(ctx context.Context, q *db.Queries) error {
		var err error
		rows, err = q.PendingCashDelta(
			ctx,
			db.PendingCashDeltaParams{InstanceKey: string(p.Instance), SlotID: string(p.Slot)},
		)
		return err
	})
	if err != nil {
		return nil, err
	}
	deltas := make([]fencerow.CashDelta, len(rows))
	for i, r := range rows {
		if err := mapDelta(&deltas[i], r); err != nil {
			return nil, fencerow.NewError(op, fencerow.ErrStoreFailed, err)
		}
	}
	return deltas, nil
}

func mapDelta(d *fencerow.CashDelta, r db.PendingCashDeltaRow) error {
	pending, err := parseDecimal(r.Pending)
	if err != nil {
		return err
	}
	blocked, err := parseDecimal(r.Blocked)
	if err != nil {
		return err
	}
	*d = fencerow.CashDelta{
		Currency:     r.Currency,
		Pending:      fencerow.CanonicalDecimal(pending),
		PendingCount: r.PendingCount,
		Blocked:      fencerow.CanonicalDecimal(blocked),
		BlockedCount: r.BlockedCount,
	}
	return nil
}

// Show implements [fencerow.Store].
func (s *Store) Show(ctx context.Context, p fencerow.EntryParams) (*fencerow.EntryState, error) {
	const op = "show"
	if err := p.Validate(); err != nil {
		return nil, err
	}
	var row db.EntryShowRow
	var foreign, absent bool
	err := s.view(ctx, op,
		func(ctx context.Context, q *db.Queries) error {
			var err error
			row, err = q.EntryShow(ctx, db.EntryShowParams{
				CorrelationID: string(p.CorrelationID), InstanceKey: string(p.Instance),
			})
			return ignoreNoRows(err, &absent)
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
		return nil, err
	case absent:
		return nil, mustBeOwn(op, foreign)
	}
	var lives []db.OutcomeListRow
	err = s.view(ctx, op, func(ctx context.Context, q *db.Queries) error {
		var err error
		lives, err = q.OutcomeList(
			ctx,
			db.OutcomeListParams{OutboxID: row.OutboxID, InstanceKey: string(p.Instance)},
		)
		return err
	})
	if err != nil {
		return nil, err
	}
	state, err := mapState(p.Instance, &row, lives)
	if err != nil {
		return nil, fencerow.NewError(op, fencerow.ErrStoreFailed, err)
	}
	return state, nil
}

func mapState(
	instance fencerow.InstanceKey,
	r *db.EntryShowRow,
	lives []db.OutcomeListRow,
) (*fencerow.EntryState, error) {
	var pending fencerow.PendingEntry
	err := mapPending(&pending, instance, &db.PendingListRow{
		OutboxID:          r.OutboxID,
		CorrelationID:     r.CorrelationID,
		EntryKind:         r.EntryKind,
		SlotID:            r.SlotID,
		CashDelta:         r.CashDelta,
		Currency:          r.Currency,
		Payload:           r.Payload,
		Traceparent:       r.Traceparent,
		EnqueuedAt:        r.EnqueuedAt,
		NextRetryAt:       r.NextRetryAt,
		Due:               r.Due,
		DueFor:            r.DueFor,
		AttemptCount:      r.AttemptCount,
		Life:              r.Life,
		ExpiryCount:       r.ExpiryCount,
		DeliveryUncertain: r.DeliveryUncertain,
		Outcome:           r.Outcome,
		Reason:            r.Reason,
	})
	if err != nil {
		return nil, err
	}
	state := &fencerow.EntryState{Entry: pending.Entry, Status: fencerow.StatusPending}
	for i := range lives {
		state.Outcomes = append(state.Outcomes, finishedLife(&lives[i]))
	}
	if r.Unfinished {
		state.Pending = &pending
	} else if n := len(state.Outcomes); n > 0 {
		state.Status = state.Outcomes[n-1].Status
	}
	if r.Leased {
		state.Lease = &fencerow.LeaseInfo{
			Worker:    fencerow.WorkerID(r.ClaimedBy),
			Epoch:     fencerow.ClaimEpoch(r.ClaimEpoch),
			Rows:      int(r.ClaimRows),
			ClaimedAt: r.ClaimedAt.UTC(),
			Age:       r.ClaimAge,
			Remaining: r.LeaseRemaining,
		}
	}
	if r.Skipped {
		state.Skip = &fencerow.Skip{OpenedAt: r.SkipOpenedAt.UTC()}
		if r.SkipResolvedAt != nil {
			at := r.SkipResolvedAt.UTC()
			state.Skip.ResolvedAt = &at
		}
	}
	return state, nil
}

// Counts implements [fencerow.Store].
func (s *Store) Counts(ctx context.Context, instance fencerow.InstanceKey) (*fencerow.Counts, error) {
	if err := instance.Validate(); err != nil {
		return nil, err
	}
	var row db.PendingCountsRow
	var finished []db.OutcomeCountsRow
	err := s.view(ctx, "counts",
		func(ctx context.Context, q *db.Queries) error {
			var err error
			row, err = q.PendingCounts(ctx, string(instance))
			return err
		},
		func(ctx context.Context, q *db.Queries) error {
			var err error
			finished, err = q.OutcomeCounts(ctx, string(instance))
			return err
		})
	if err != nil {
		return nil, err
	}
	counts := &fencerow.Counts{
		ByStatus:      map[fencerow.Status]int64{},
		Leased:        row.Leased,
		Due:           row.Due,
		OldestDue:     row.OldestDue,
		OldestPending: row.OldestPending,
	}
	for _, status := range fencerow.Statuses() {
		counts.ByStatus[status] = 0
	}
	counts.ByStatus[fencerow.StatusPending] = row.Pending
	for _, f := range finished {
		counts.ByStatus[fencerow.Status(f.Status)] = f.Entries
	}
	if row.HeldAt != nil {
		at := row.HeldAt.UTC()
		counts.HeldSince = &at
	}
	return counts, nil
}

// Claims implements [fencerow.Store].
func (s *Store) Claims(ctx context.Context, instance fencerow.InstanceKey) ([]fencerow.LeaseInfo, error) {
	if err := instance.Validate(); err != nil {
		return nil, err
	}
	var rows []db.ClaimListRow
	err := s.view(ctx, "list claims", func(ctx context.Context, q *db.Queries) error {
		var err error
		rows, err = q.ClaimList(ctx, string(instance))
		return err
	})
	if err != nil {
		return nil, err
	}
	leases := make([]fencerow.LeaseInfo, len(rows))
	for i, r := range rows {
		leases[i] = fencerow.LeaseInfo{
			Worker:    fencerow.WorkerID(r.ClaimedBy),
			Epoch:     fencerow.ClaimEpoch(r.ClaimEpoch),
			Rows:      int(r.RowCount),
			ClaimedAt: r.ClaimedAt.UTC(),
			Age:       r.Age,
			Remaining: r.Remaining,
		}
	}
	return leases, nil
}

// mustBeOwn turns the absence of an own entry into the refusal it is.
func mustBeOwn(op string, foreign bool) error {
	if foreign {
		return fencerow.NewError(op, fencerow.ErrForeignInstance, nil)
	}
	return fencerow.NewError(op, fencerow.ErrNotFound, nil)
}
