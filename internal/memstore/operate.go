package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// pruneLooks is how many finished lives Prune examines for each row that it may delete, so that one call
// stays short wherever it begins.
const pruneLooks = 10

// Requeue implements [fencerow.Operator].
func (s *Store) Requeue(ctx context.Context, p fencerow.RequeueParams) error {
	if err := p.Validate(); err != nil {
		return err
	}
	now, err := s.begin(ctx, "requeue")
	if err != nil {
		return err
	}
	defer s.end()
	r, err := s.data.find(p.Instance, p.CorrelationID)
	if err != nil {
		return err
	}
	if status := r.status(); status != p.From {
		return &fencerow.WrongStatusError{Status: status}
	}
	r.pending = &pending{dueAt: now, life: r.lives[len(r.lives)-1].Life + 1, uncertain: true}
	for _, life := range r.lives {
		r.pending.lastEpoch = max(r.pending.lastEpoch, life.Epoch)
	}
	s.data.instance(p.Instance).pending[r.entry.OutboxID] = r
	return nil
}

// Prune implements [fencerow.Operator].
func (s *Store) Prune(ctx context.Context, p fencerow.PruneParams) (fencerow.PruneResult, error) {
	var result fencerow.PruneResult
	if err := p.Validate(); err != nil {
		return result, err
	}
	now, err := s.begin(ctx, "prune")
	if err != nil {
		return result, err
	}
	defer s.end()
	in := s.data.instance(p.Instance)
	ids := make([]fencerow.OutboxID, 0, len(in.rows))
	for id, r := range in.rows {
		if id > p.After && len(r.lives) > 0 {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	looks := pruneLooks * p.Limit
	for _, id := range ids {
		r := in.rows[id]
		looks -= len(r.lives)
		if r.prunable(now.Add(-micros(p.OlderThan))) {
			delete(in.rows, id)
			delete(in.byKey, r.entry.CorrelationID)
			result.Deleted++
		}
		if result.Deleted == p.Limit || looks <= 0 {
			result.Next = id
			break
		}
	}
	return result, nil
}

// prunable reports whether the entry ended in success at or before the given time and nothing waits for it.
func (r *row) prunable(before time.Time) bool {
	return r.status() == fencerow.StatusCompleted && !r.lives[len(r.lives)-1].At.After(before) && !r.skip.open()
}

// Hold implements [fencerow.Operator].
func (s *Store) Hold(ctx context.Context, key fencerow.InstanceKey) (bool, error) {
	if err := key.Validate(); err != nil {
		return false, err
	}
	now, err := s.begin(ctx, "hold")
	if err != nil {
		return false, err
	}
	defer s.end()
	in := s.data.instance(key)
	if in.heldAt != nil {
		return false, nil
	}
	in.heldAt = &now
	return true, nil
}

// Resume implements [fencerow.Operator].
func (s *Store) Resume(ctx context.Context, key fencerow.InstanceKey) (bool, error) {
	if err := key.Validate(); err != nil {
		return false, err
	}
	if _, err := s.begin(ctx, "resume"); err != nil {
		return false, err
	}
	defer s.end()
	in := s.data.instance(key)
	changed := in.heldAt != nil
	in.heldAt = nil
	return changed, nil
}

// NameSlot implements [fencerow.Operator].
func (s *Store) NameSlot(ctx context.Context, p fencerow.NameSlotParams) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if _, err := s.begin(ctx, "name slot"); err != nil {
		return err
	}
	defer s.end()
	s.data.instance(p.Instance).slot(p.Slot).strategy = p.Strategy
	return nil
}
