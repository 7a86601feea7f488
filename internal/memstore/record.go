package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// RecordOutcomes implements [fencerow.Claimer].
func (s *Store) RecordOutcomes(ctx context.Context, p fencerow.RecordParams) ([]fencerow.Verdict, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	now, err := s.begin(ctx, "record outcomes")
	if err != nil {
		return nil, err
	}
	defer s.end()
	in := s.data.instance(p.Instance)
	c := in.claims[p.Token]
	verdicts := make([]fencerow.Verdict, len(p.Outcomes))
	var recorded []success
	for i := range p.Outcomes {
		o := &p.Outcomes[i]
		r := c.holds(o.OutboxID)
		if r == nil {
			verdicts[i] = in.lost(o.OutboxID)
			continue
		}
		in.record(c, r, o, now)
		verdicts[i] = fencerow.Verdict{OutboxID: o.OutboxID, Applied: true}
		if o.Kind.Success() {
			accepted := o.Snapshot != nil && r.entry.CheckSnapshot(o.Snapshot)
			verdicts[i].SnapshotRejected = o.Snapshot != nil && !accepted
			recorded = append(recorded, success{row: r, snapshot: o.Snapshot, accepted: accepted})
		}
	}
	in.writeBack(recorded, now)
	return verdicts, nil
}

// holds returns the row if the claim holds it; no claim holds none.
func (c *claim) holds(id fencerow.OutboxID) *row {
	if c == nil {
		return nil
	}
	return c.rows[id]
}

// record applies one outcome to a row that the claim holds, and ends its lease.
func (in *instance) record(c *claim, r *row, o *fencerow.Outcome, now time.Time) {
	p := r.pending
	in.letGo(c, r)
	if !o.Kind.Terminal() {
		switch o.Charge {
		case fencerow.ChargeAttempt:
			p.attempts = oneMore(p.attempts)
		case fencerow.ChargeGiveBack:
			p.attempts = max(p.attempts-1, 0)
		case fencerow.ChargeNothing:
		}
		p.dueAt = now.Add(micros(o.Delay))
		p.expiryCount = 0
		p.uncertain = p.uncertain || o.Uncertain
		p.outcome = o.Kind
		p.reason = o.Reason
		return
	}
	life := fencerow.FinishedLife{
		Life: p.life, Status: o.Kind.Status(), Outcome: o.Kind, Reason: o.Reason,
		Attempts: oneMore(p.attempts), Epoch: c.epoch, At: now,
	}
	if fencerow.ValidLedgerRef(o.LedgerRef) {
		life.LedgerRef = o.LedgerRef
	}
	in.finish(r, life)
}

// lost says what became of a row that the claim does not hold.
func (in *instance) lost(id fencerow.OutboxID) fencerow.Verdict {
	v := fencerow.Verdict{OutboxID: id}
	r := in.rows[id]
	switch {
	case r == nil:
		v.Lost = fencerow.LostMissing
	case r.pending == nil:
		last := r.lives[len(r.lives)-1]
		v.Lost, v.Epoch = fencerow.LostFinished, last.Epoch
		v.RecordedEpoch, v.Outcome, v.Reason = last.Epoch, last.Outcome, last.Reason
	default:
		v.Lost, v.Epoch = fencerow.LostReclaimed, r.pending.lastEpoch
		v.RecordedEpoch, v.Outcome, v.Reason = r.pending.lastEpoch, r.pending.outcome, r.pending.reason
		if r.claim != nil {
			v.Epoch = r.claim.epoch
		}
	}
	return v
}

// success is an entry that a call has just finished, with what the ledger said of its slot.
type success struct {
	row      *row
	snapshot *fencerow.Snapshot
	accepted bool
}

// writeBack writes snapshots and then resolves skips, both for rows whose success was applied only.
func (in *instance) writeBack(recorded []success, now time.Time) {
	accepted := slices.DeleteFunc(slices.Clone(recorded), func(done success) bool { return !done.accepted })
	slices.SortFunc(accepted, newestFirst)
	for _, done := range accepted {
		s := in.slot(done.row.entry.SlotID)
		if s.snapshot == nil || done.snapshot.Version > s.snapshot.Version {
			copied := *done.snapshot
			copied.CashBalance = fencerow.CanonicalDecimal(copied.CashBalance)
			s.snapshot, s.updatedAt = &copied, now
		}
	}
	for _, done := range recorded {
		switch {
		case done.row.entry.SlotID == "" || done.snapshot == nil:
			done.row.resolveSkip(now)
		case done.accepted:
			in.resolveSlot(done.row.entry.SlotID, now)
		}
	}
}

// newestFirst orders by version of the snapshots; of equal versions that of the higher outbox id counts.
func newestFirst(a, b success) int {
	return cmp.Or(cmp.Compare(b.snapshot.Version, a.snapshot.Version),
		cmp.Compare(b.row.entry.OutboxID, a.row.entry.OutboxID))
}

// resolveSlot resolves the open skips of the slot's entries that are in the ledger.
func (in *instance) resolveSlot(id fencerow.SlotID, now time.Time) {
	for _, r := range in.rows {
		if r.entry.SlotID == id && r.status() == fencerow.StatusCompleted {
			r.resolveSkip(now)
		}
	}
}

func (r *row) resolveSkip(now time.Time) {
	if r.skip.open() {
		r.skip.ResolvedAt = &now
	}
}

// Release implements [fencerow.Claimer].
func (s *Store) Release(ctx context.Context, p fencerow.ReleaseParams) ([]fencerow.Verdict, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if _, err := s.begin(ctx, "release"); err != nil {
		return nil, err
	}
	defer s.end()
	in := s.data.instance(p.Instance)
	c := in.claims[p.Token]
	rows := p.Rows
	if p.All {
		rows = c.allRows(p.Uncertain)
	}
	verdicts := make([]fencerow.Verdict, len(rows))
	for i, given := range rows {
		r := c.holds(given.OutboxID)
		if r == nil {
			verdicts[i] = in.lost(given.OutboxID)
			continue
		}
		in.letGo(c, r)
		r.pending.uncertain = r.pending.uncertain || given.Uncertain
		verdicts[i] = fencerow.Verdict{OutboxID: given.OutboxID, Applied: true}
	}
	return verdicts, nil
}

// allRows lists what the claim holds in ascending order of id, to be released alike; no claim holds none.
func (c *claim) allRows(uncertain bool) []fencerow.ReleaseRow {
	if c == nil {
		return nil
	}
	rows := make([]fencerow.ReleaseRow, 0, len(c.rows))
	for id := range c.rows {
		rows = append(rows, fencerow.ReleaseRow{OutboxID: id, Uncertain: uncertain})
	}
	slices.SortFunc(rows, func(a, b fencerow.ReleaseRow) int { return cmp.Compare(a.OutboxID, b.OutboxID) })
	return rows
}
