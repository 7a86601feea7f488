package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/db"
)

// EnqueueMany implements [fencerow.Store].
func (s *Store) EnqueueMany(ctx context.Context, p fencerow.EnqueueParams) ([]fencerow.Enqueued, error) {
	const op = "enqueue"
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if len(p.Entries) == 0 {
		return nil, nil
	}
	var row db.EntryEnqueueManyRow
	// Ten thousand entries of full size take longer than a claim may.
	bound := max(s.timeout, viewTimeout)
	err := s.transact(ctx, op, bound, []call{enqueueCall(&p, &row)})
	if err != nil {
		return nil, err
	}
	return mapEnqueued(op, &row, len(p.Entries))
}

// EnqueueTx enqueues in the caller's own transaction. See package outbox, which is how producers reach it.
func EnqueueTx(ctx context.Context, tx pgx.Tx, p fencerow.EnqueueParams) ([]fencerow.Enqueued, error) {
	const op = "enqueue"
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if len(p.Entries) == 0 {
		return nil, nil
	}
	var row db.EntryEnqueueManyRow
	if err := enqueueCall(&p, &row)(ctx, db.New(tx)); err != nil {
		return nil, fencerow.NewError(op, codeOf(err), err)
	}
	return mapEnqueued(op, &row, len(p.Entries))
}

// enqueueCall enqueues valid entries, and reads what became of them into row. One entry has a statement of
// its own, without the arrays and the subtransaction that many are worth.
func enqueueCall(p *fencerow.EnqueueParams, row *db.EntryEnqueueManyRow) call {
	if len(p.Entries) > 1 {
		params := enqueueParams(p)
		return func(ctx context.Context, q *db.Queries) (err error) {
			*row, err = q.EntryEnqueueMany(ctx, params)
			return err
		}
	}
	e := &p.Entries[0]
	params := db.EntryEnqueueParams{
		InstanceKey: string(p.Instance), CorrelationID: string(e.CorrelationID), EntryKind: e.EntryKind,
		Payload: string(e.Payload), SlotID: string(e.SlotID), CashDelta: e.CashDelta.String(), Currency: e.Currency,
		Traceparent: e.TraceParent, Skip: e.OpenSkip,
	}
	return func(ctx context.Context, q *db.Queries) error {
		one, err := q.EntryEnqueue(ctx, params)
		*row = db.EntryEnqueueManyRow{EntryIds: []int64{one.EntryID}}
		switch fencerow.EnqueueResult(one.EntryResult) {
		case fencerow.EnqueueInserted:
			row.Inserted = 1
		case fencerow.EnqueueDuplicate:
			row.Duplicates = []int32{1}
		case fencerow.EnqueueConflict:
			row.Conflicts = []int32{1}
		}
		return err
	}
}

func enqueueParams(p *fencerow.EnqueueParams) db.EntryEnqueueManyParams {
	n := len(p.Entries)
	params := db.EntryEnqueueManyParams{
		InstanceKey:    string(p.Instance),
		CorrelationIds: make([]string, n),
		EntryKinds:     make([]string, n),
		Payloads:       make([]string, n),
		SlotIds:        make([]string, n),
		CashDeltas:     make([]string, n),
		Currencies:     make([]string, n),
		Traceparents:   make([]string, n),
		Skips:          make([]bool, n),
	}
	for i := range p.Entries {
		e := &p.Entries[i]
		params.CorrelationIds[i] = string(e.CorrelationID)
		params.EntryKinds[i] = e.EntryKind
		params.Payloads[i] = string(e.Payload)
		params.SlotIds[i] = string(e.SlotID)
		params.CashDeltas[i] = e.CashDelta.String()
		params.Currencies[i] = e.Currency
		params.Traceparents[i] = e.TraceParent
		params.Skips[i] = e.OpenSkip
	}
	return params
}

// mapEnqueued tells of each of n entries what became of it.
func mapEnqueued(op string, row *db.EntryEnqueueManyRow, n int) ([]fencerow.Enqueued, error) {
	inserted := len(row.EntryIds) - len(row.Duplicates) - len(row.Conflicts)
	if len(row.EntryIds) != n || int(row.Inserted) != inserted {
		return nil, fencerow.NewError(op, fencerow.ErrStoreFailed, nil)
	}
	enqueued := make([]fencerow.Enqueued, n)
	for i, id := range row.EntryIds {
		enqueued[i] = fencerow.Enqueued{Result: fencerow.EnqueueInserted, OutboxID: fencerow.OutboxID(id)}
	}
	for result, positions := range map[fencerow.EnqueueResult][]int32{
		fencerow.EnqueueDuplicate: row.Duplicates, fencerow.EnqueueConflict: row.Conflicts,
	} {
		for _, position := range positions { // from 1
			if position < 1 || int(position) > n {
				return nil, fencerow.NewError(op, fencerow.ErrStoreFailed, nil)
			}
			enqueued[position-1].Result = result
		}
	}
	return enqueued, nil
}
