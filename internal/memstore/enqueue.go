package memstore

import (
	"bytes"
	"context"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// EnqueueMany implements [fencerow.Producer].
func (s *Store) EnqueueMany(ctx context.Context, p fencerow.EnqueueParams) ([]fencerow.Enqueued, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	now, err := s.begin(ctx, "enqueue")
	if err != nil {
		return nil, err
	}
	defer s.end()
	in := s.data.instance(p.Instance)
	results := make([]fencerow.Enqueued, len(p.Entries))
	for i := range p.Entries {
		n := &p.Entries[i]
		first := in.byKey[n.CorrelationID]
		switch {
		case first == nil:
			s.data.lastID++
			in.insert(s.data.lastID, p.Instance, n, now)
			results[i] = fencerow.Enqueued{Result: fencerow.EnqueueInserted, OutboxID: s.data.lastID}
		case first.entry.SameContent(n):
			results[i] = fencerow.Enqueued{Result: fencerow.EnqueueDuplicate, OutboxID: first.entry.OutboxID}
		default:
			results[i] = fencerow.Enqueued{Result: fencerow.EnqueueConflict, OutboxID: first.entry.OutboxID}
		}
	}
	return results, nil
}

func (in *instance) insert(
	id fencerow.OutboxID, key fencerow.InstanceKey, n *fencerow.NewEntry, now time.Time,
) {
	r := &row{
		entry: fencerow.Entry{
			OutboxID:      id,
			Instance:      key,
			CorrelationID: n.CorrelationID,
			EntryKind:     n.EntryKind,
			SlotID:        n.SlotID,
			CashDelta:     fencerow.CanonicalDecimal(n.CashDelta),
			Currency:      n.Currency,
			Payload:       bytes.Clone(n.Payload),
			TraceParent:   n.TraceParent,
			EnqueuedAt:    now,
		},
		pending: &pending{dueAt: now, life: 1},
	}
	if n.OpenSkip {
		r.skip = &skip{OpenedAt: now}
	}
	in.rows[id] = r
	in.byKey[n.CorrelationID] = r
	in.pending[id] = r
}
