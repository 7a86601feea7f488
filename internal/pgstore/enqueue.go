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
	params := enqueueParams(&p)
	var rows []db.EntryEnqueueManyRow
	calls := []call{func(ctx context.Context, q *db.Queries) error {
		var err error
		rows, err = q.EntryEnqueueMany(ctx, params)
		return err
	}}
	// Ten thousand entries of full size take longer than a claim may.
	bound := max(s.timeout, viewTimeout)
	err := s.transact(ctx, op, bound, calls)
	if err != nil {
		return nil, err
	}
	return mapEnqueued(op, rows, len(p.Entries))
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
	rows, err := db.New(tx).EntryEnqueueMany(ctx, enqueueParams(&p))
	if err != nil {
		return nil, fencerow.NewError(op, codeOf(err), err)
	}
	return mapEnqueued(op, rows, len(p.Entries))
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

func mapEnqueued(op string, rows []db.EntryEnqueueManyRow, n int) ([]fencerow.Enqueued, error) {
	if len(rows) != n {
		return nil, fencerow.NewError(op, fencerow.ErrStoreFailed, nil)
	}
	enqueued := make([]fencerow.Enqueued, n)
	for i, r := range rows {
		enqueued[i] = fencerow.Enqueued{
			Result:   fencerow.EnqueueResult(r.EntryResult),
			OutboxID: fencerow.OutboxID(r.EntryID),
		}
	}
	return enqueued, nil
}
