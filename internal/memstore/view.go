package memstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// ListPending implements [fencerow.Viewer].
func (s *Store) ListPending(
	ctx context.Context, p fencerow.ListPendingParams,
) ([]fencerow.PendingEntry, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	now, err := s.begin(ctx, "list pending")
	if err != nil {
		return nil, err
	}
	defer s.end()
	after := &row{
		entry:   fencerow.Entry{OutboxID: p.After.OutboxID},
		pending: &pending{dueAt: p.After.DueAt.Truncate(time.Microsecond)},
	}
	rows := s.data.instance(p.Instance).sorted(func(r *row) bool {
		return !r.claim.activeAt(now) && byDue(r, after) > 0
	})
	rows = rows[:min(len(rows), p.Limit)]
	listed := make([]fencerow.PendingEntry, len(rows))
	for i, r := range rows {
		listed[i] = r.pendingEntry(now, p.WithPayload)
	}
	return listed, nil
}

// dueFor returns for how long a row has been due, as the database bounds it.
func (p *pending) dueFor(now time.Time) time.Duration {
	return min(max(now.Sub(p.dueAt), 0), fencerow.MaxDueFor)
}

func (r *row) pendingEntry(now time.Time, withPayload bool) fencerow.PendingEntry {
	p := r.pending
	return fencerow.PendingEntry{
		Entry: r.copyEntry(withPayload), DueAt: p.dueAt, Due: p.dueBy(now), DueFor: p.dueFor(now),
		Attempts: p.attempts, Life: p.life,
		Uncertain: p.uncertain, ExpiryCount: p.expiryCount, LastOutcome: p.outcome, LastReason: p.reason,
	}
}

// ListBlocked implements [fencerow.Viewer].
func (s *Store) ListBlocked(
	ctx context.Context, p fencerow.ListBlockedParams,
) ([]fencerow.BlockedEntry, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if _, err := s.begin(ctx, "list blocked"); err != nil {
		return nil, err
	}
	defer s.end()
	listed := []fencerow.BlockedEntry{}
	for _, r := range s.data.instance(p.Instance).rows {
		status := r.status()
		if status.Blocked() && (p.Status == "" || p.Status == status) && r.entry.OutboxID > p.After {
			listed = append(listed, fencerow.BlockedEntry{
				Entry: r.copyEntry(false), FinishedLife: r.lives[len(r.lives)-1],
			})
		}
	}
	slices.SortFunc(listed, func(a, b fencerow.BlockedEntry) int { return cmp.Compare(a.OutboxID, b.OutboxID) })
	return listed[:min(len(listed), p.Limit)], nil
}

// PendingCashDelta implements [fencerow.Viewer].
func (s *Store) PendingCashDelta(
	ctx context.Context, p fencerow.CashDeltaParams,
) ([]fencerow.CashDelta, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if _, err := s.begin(ctx, "sum cash deltas"); err != nil {
		return nil, err
	}
	defer s.end()
	return s.data.instance(p.Instance).cashDeltas(p.Slot), nil
}

// cashDeltas sums what is not in the ledger, of one slot or, if it is empty, of all entries.
func (in *instance) cashDeltas(only fencerow.SlotID) []fencerow.CashDelta {
	sums := make(map[string]*fencerow.CashDelta)
	for _, r := range in.rows {
		e, status := &r.entry, r.status()
		if e.Currency == "" || only != "" && e.SlotID != only || status == fencerow.StatusCompleted {
			continue
		}
		sum := sums[e.Currency]
		if sum == nil {
			sum = &fencerow.CashDelta{Currency: e.Currency}
			sums[e.Currency] = sum
		}
		if status == fencerow.StatusPending {
			sum.Pending, sum.PendingCount = sum.Pending.Add(e.CashDelta), sum.PendingCount+1
		} else {
			sum.Blocked, sum.BlockedCount = sum.Blocked.Add(e.CashDelta), sum.BlockedCount+1
		}
	}
	out := make([]fencerow.CashDelta, 0, len(sums))
	for _, currency := range slices.Sorted(maps.Keys(sums)) {
		sum := *sums[currency]
		sum.Pending, sum.Blocked = fencerow.CanonicalDecimal(sum.Pending), fencerow.CanonicalDecimal(sum.Blocked)
		out = append(out, sum)
	}
	return out
}

// Show implements [fencerow.Viewer].
func (s *Store) Show(ctx context.Context, p fencerow.EntryParams) (*fencerow.EntryState, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	now, err := s.begin(ctx, "show")
	if err != nil {
		return nil, err
	}
	defer s.end()
	r, err := s.data.find(p.Instance, p.CorrelationID)
	if err != nil {
		return nil, err
	}
	state := &fencerow.EntryState{
		Entry: r.copyEntry(true), Status: r.status(), Outcomes: slices.Clone(r.lives), Skip: r.skip.copy(),
	}
	if r.pending != nil {
		p := r.pendingEntry(now, true)
		state.Pending = &p
	}
	if r.claim != nil {
		l := r.claim.info(now)
		state.Lease = &l
	}
	return state, nil
}

// find returns the instance's own entry, ErrForeignInstance if only others have one of this correlation id,
// or ErrNotFound.
func (d *data) find(key fencerow.InstanceKey, id fencerow.CorrelationID) (*row, error) {
	in := d.instance(key)
	switch r := in.byKey[id]; {
	case r != nil:
		return r, nil
	case d.foreign(in, id):
		return nil, fencerow.ErrForeignInstance
	}
	return nil, fencerow.ErrNotFound
}

// Counts implements [fencerow.Viewer].
func (s *Store) Counts(ctx context.Context, key fencerow.InstanceKey) (*fencerow.Counts, error) {
	if err := key.Validate(); err != nil {
		return nil, err
	}
	now, err := s.begin(ctx, "count")
	if err != nil {
		return nil, err
	}
	defer s.end()
	in := s.data.instance(key)
	counts := &fencerow.Counts{ByStatus: make(map[fencerow.Status]int64), HeldSince: copyTime(in.heldAt)}
	for _, status := range fencerow.Statuses() {
		counts.ByStatus[status] = 0
	}
	for _, r := range in.rows {
		counts.ByStatus[r.status()]++
	}
	var oldest *row
	for _, r := range in.pending {
		if oldest == nil || r.entry.OutboxID < oldest.entry.OutboxID {
			oldest = r
		}
		switch {
		case r.claim.activeAt(now):
			counts.Leased++
		case r.pending.dueBy(now):
			counts.Due++
			counts.OldestDue = max(counts.OldestDue, now.Sub(r.pending.dueAt))
		}
	}
	if oldest != nil {
		counts.OldestPending = max(0, now.Sub(oldest.entry.EnqueuedAt))
	}
	return counts, nil
}

// Claims implements [fencerow.Viewer].
func (s *Store) Claims(ctx context.Context, key fencerow.InstanceKey) ([]fencerow.LeaseInfo, error) {
	if err := key.Validate(); err != nil {
		return nil, err
	}
	now, err := s.begin(ctx, "list claims")
	if err != nil {
		return nil, err
	}
	defer s.end()
	claims := slices.SortedFunc(maps.Values(s.data.instance(key).claims), byLeaseEnd)
	infos := make([]fencerow.LeaseInfo, len(claims))
	for i, c := range claims {
		infos[i] = c.info(now)
	}
	return infos, nil
}

func (c *claim) info(now time.Time) fencerow.LeaseInfo {
	return fencerow.LeaseInfo{
		Worker: c.worker, Epoch: c.epoch, Rows: len(c.rows), ClaimedAt: c.claimedAt,
		Age: now.Sub(c.claimedAt), Remaining: c.leaseExpiresAt.Sub(now),
	}
}

// Slots implements [fencerow.Viewer].
func (s *Store) Slots(ctx context.Context, key fencerow.InstanceKey) ([]fencerow.Slot, error) {
	if err := key.Validate(); err != nil {
		return nil, err
	}
	if _, err := s.begin(ctx, "list slots"); err != nil {
		return nil, err
	}
	defer s.end()
	in := s.data.instance(key)
	views := make(map[fencerow.SlotID]*fencerow.Slot)
	for id, known := range in.slots {
		views[id] = known.view(id)
	}
	for _, r := range in.rows {
		id := r.entry.SlotID
		if id == "" {
			continue
		}
		if views[id] == nil {
			views[id] = &fencerow.Slot{SlotID: id}
		}
		if r.skip.open() {
			views[id].OpenSkips++
		}
	}
	slots := make([]fencerow.Slot, 0, len(views))
	for id, view := range views {
		view.PendingCash = in.cashDeltas(id)
		slots = append(slots, *view)
	}
	slices.SortFunc(slots, func(a, b fencerow.Slot) int { return cmp.Compare(a.SlotID, b.SlotID) })
	return slots, nil
}

func (s *slot) view(id fencerow.SlotID) *fencerow.Slot {
	view := &fencerow.Slot{SlotID: id, Strategy: s.strategy}
	if s.snapshot != nil {
		view.Currency = s.snapshot.Currency
		view.CashBalance = new(s.snapshot.CashBalance)
		view.LedgerVersion = new(s.snapshot.Version)
		view.UpdatedAt = copyTime(&s.updatedAt)
	}
	return view
}
