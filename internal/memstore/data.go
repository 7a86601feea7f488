package memstore

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// instance holds the rows of one instance. Nothing but the look for a foreign owner ever goes from one
// instance to another.
type instance struct {
	heldAt  *time.Time
	rows    map[fencerow.OutboxID]*row
	byKey   map[fencerow.CorrelationID]*row
	pending map[fencerow.OutboxID]*row // those of rows that are not finished
	claims  map[fencerow.ClaimToken]*claim
	slots   map[fencerow.SlotID]*slot
}

// row is an entry with all that hangs on it.
type row struct {
	entry   fencerow.Entry
	pending *pending // nil once finished
	claim   *claim   // the claim that stands for it, expired or not; nil if none
	lives   []fencerow.FinishedLife
	skip    *skip
}

// pending is what changes while an entry is not finished.
type pending struct {
	dueAt       time.Time
	attempts    int
	life        int
	expiryCount int
	lastEpoch   fencerow.ClaimEpoch
	uncertain   bool
	outcome     fencerow.OutcomeKind
	reason      fencerow.ReasonCode
}

// claim is a claim that stands: rows are those that it still holds, never none.
type claim struct {
	token          fencerow.ClaimToken
	epoch          fencerow.ClaimEpoch
	worker         fencerow.WorkerID
	claimedAt      time.Time
	leaseExpiresAt time.Time
	rows           map[fencerow.OutboxID]*row
}

// slot is what is known of a slot beyond its entries.
type slot struct {
	strategy  string
	snapshot  *fencerow.Snapshot
	updatedAt time.Time
}

// instance returns the instance of the key, new if it was not seen before.
func (d *data) instance(key fencerow.InstanceKey) *instance {
	in := d.instances[key]
	if in == nil {
		in = &instance{
			rows:    make(map[fencerow.OutboxID]*row),
			byKey:   make(map[fencerow.CorrelationID]*row),
			pending: make(map[fencerow.OutboxID]*row),
			claims:  make(map[fencerow.ClaimToken]*claim),
			slots:   make(map[fencerow.SlotID]*slot),
		}
		d.instances[key] = in
	}
	return in
}

// foreign reports whether another instance owns an entry of this correlation id.
func (d *data) foreign(own *instance, id fencerow.CorrelationID) bool {
	for _, in := range d.instances {
		if in != own && in.byKey[id] != nil {
			return true
		}
	}
	return false
}

// stands reports whether a claim of any instance has the token.
func (d *data) stands(token fencerow.ClaimToken) bool {
	for _, in := range d.instances {
		if in.claims[token] != nil {
			return true
		}
	}
	return false
}

// slot returns the slot of the id, new if it was not seen before.
func (in *instance) slot(id fencerow.SlotID) *slot {
	s := in.slots[id]
	if s == nil {
		s = &slot{}
		in.slots[id] = s
	}
	return s
}

// letGo ends the claim's hold on one of its rows. The epoch stays with an unfinished row, so that the next
// one is higher.
func (in *instance) letGo(c *claim, r *row) {
	if r.pending != nil {
		r.pending.lastEpoch = max(r.pending.lastEpoch, c.epoch)
	}
	r.claim = nil
	delete(c.rows, r.entry.OutboxID)
	if len(c.rows) == 0 {
		delete(in.claims, c.token)
	}
}

// finish ends the row's life. Its slot is known from now on, also when the entry is pruned.
func (in *instance) finish(r *row, life fencerow.FinishedLife) {
	r.lives = append(r.lives, life)
	r.pending = nil
	delete(in.pending, r.entry.OutboxID)
	if r.entry.SlotID != "" {
		in.slot(r.entry.SlotID)
	}
}

// activeAt reports whether the claim's lease still runs: one that ends exactly now is over. No claim has no
// lease.
func (c *claim) activeAt(now time.Time) bool { return c != nil && c.leaseExpiresAt.After(now) }

// dueBy reports whether the row's time has come: one due exactly now is due.
func (p *pending) dueBy(now time.Time) bool { return !p.dueAt.After(now) }

// status is where the entry stands.
func (r *row) status() fencerow.Status {
	if r.pending != nil {
		return fencerow.StatusPending
	}
	return r.lives[len(r.lives)-1].Status
}

// copyEntry returns a copy of the entry that its receiver may change.
func (r *row) copyEntry(withPayload bool) fencerow.Entry {
	e := r.entry
	e.Payload = nil
	if withPayload {
		e.Payload = bytes.Clone(r.entry.Payload)
	}
	return e
}

// byDue orders pending rows by (due time, outbox id).
func byDue(a, b *row) int {
	return cmp.Or(a.pending.dueAt.Compare(b.pending.dueAt), cmp.Compare(a.entry.OutboxID, b.entry.OutboxID))
}

// sorted returns the pending rows that keep accepts, in order of (due time, outbox id).
func (in *instance) sorted(keep func(*row) bool) []*row {
	var rows []*row
	for _, r := range in.pending {
		if keep(r) {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, byDue)
	return rows
}

// oneMore counts an attempt and stops at the largest number that the database can hold.
func oneMore(attempts int) int { return min(attempts, math.MaxInt32-1) + 1 }

// skip is a slot's step that waits for the entry; nil if none was opened.
type skip fencerow.Skip

func (s *skip) open() bool { return s != nil && s.ResolvedAt == nil }

// copy returns what the caller may keep and change.
func (s *skip) copy() *fencerow.Skip {
	if s == nil {
		return nil
	}
	return &fencerow.Skip{OpenedAt: s.OpenedAt, ResolvedAt: copyTime(s.ResolvedAt)}
}

func copyTime(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	return new(*t)
}
