package memstore

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// suspectExpiries is how many attempts in a row must have ended by expiry for a row to be claimed alone.
const suspectExpiries = 2

// Register implements [fencerow.Claimer].
func (s *Store) Register(ctx context.Context, instance fencerow.InstanceKey) error {
	if err := instance.Validate(); err != nil {
		return err
	}
	if _, err := s.begin(ctx, "register"); err != nil {
		return err
	}
	defer s.end()
	s.data.instance(instance)
	return nil
}

// ClaimBatch implements [fencerow.Claimer].
func (s *Store) ClaimBatch(ctx context.Context, p fencerow.ClaimBatchParams) (*fencerow.Claim, error) {
	const op = "claim batch"
	if err := p.Validate(); err != nil {
		return nil, err
	}
	now, err := s.begin(ctx, op)
	if err != nil {
		return nil, err
	}
	defer s.end()
	in := s.data.instance(p.Instance)
	if in.heldAt != nil {
		return nil, fencerow.ErrInstanceHeld
	}
	if s.data.stands(p.Token) {
		return nil, fencerow.NewError(op, fencerow.ErrStoreData, nil)
	}
	freed, ended := in.endExpired(now)
	candidates := in.sorted(func(r *row) bool { return r.claim == nil && r.pending.dueBy(now) })
	candidates = candidates[:min(len(candidates), p.Limit)]
	picked := beforeSuspect(candidates)
	if len(picked) == 0 {
		return &fencerow.Claim{Instance: p.Instance, Token: p.Token}, nil
	}
	c := &claim{token: p.Token, worker: p.Worker, claimedAt: now, leaseExpiresAt: now.Add(micros(p.Lease))}
	claimed := s.hold(in, c, picked, freed)
	claimed.Instance = p.Instance
	claimed.More = len(candidates) == p.Limit || len(picked) < len(candidates) ||
		ended == fencerow.MaxExpiredPerClaim
	return claimed, nil
}

// ClaimOne implements [fencerow.Claimer].
func (s *Store) ClaimOne(ctx context.Context, p fencerow.ClaimOneParams) (*fencerow.Claim, error) {
	const op = "claim one"
	if err := p.Validate(); err != nil {
		return nil, err
	}
	now, err := s.begin(ctx, op)
	if err != nil {
		return nil, err
	}
	defer s.end()
	in := s.data.instance(p.Instance)
	r := in.byKey[p.CorrelationID]
	if why := s.refusal(in, r, &p, now); why != "" {
		return nil, &fencerow.ClaimRefusedError{Why: why}
	}
	if s.data.stands(p.Token) {
		return nil, fencerow.NewError(op, fencerow.ErrStoreData, nil)
	}
	var freed []*row
	if r.claim != nil {
		freed = in.expire(r.claim, now)
	}
	c := &claim{token: p.Token, worker: p.Worker, claimedAt: now, leaseExpiresAt: now.Add(micros(p.Lease))}
	claimed := s.hold(in, c, []*row{r}, freed)
	claimed.Instance = p.Instance
	return claimed, nil
}

// refusal says why r, nil if the instance has no such entry, cannot be claimed now, the most lasting reason
// first; empty if it can.
func (s *Store) refusal(in *instance, r *row, p *fencerow.ClaimOneParams, now time.Time) fencerow.RefusedWhy {
	switch {
	case r == nil && s.data.foreign(in, p.CorrelationID):
		return fencerow.RefusedForeign
	case r == nil:
		return fencerow.RefusedUnknown
	case r.pending == nil:
		return fencerow.RefusedFinished
	case in.heldAt != nil:
		return fencerow.RefusedHeld
	case !r.pending.dueBy(now) && !p.ForceDue && (r.claim == nil || r.claim.activeAt(now)):
		return fencerow.RefusedNotDue
	case r.claim.activeAt(now):
		return fencerow.RefusedLeased
	}
	return ""
}

// endExpired ends the oldest expired claims, no more than a bounded number, and returns the rows that it
// freed.
func (in *instance) endExpired(now time.Time) (freed []*row, ended int) {
	var expired []*claim
	for _, c := range in.claims {
		if !c.activeAt(now) {
			expired = append(expired, c)
		}
	}
	slices.SortFunc(expired, byLeaseEnd)
	for _, c := range expired[:min(len(expired), fencerow.MaxExpiredPerClaim)] {
		freed = append(freed, in.expire(c, now)...)
	}
	return freed, min(len(expired), fencerow.MaxExpiredPerClaim)
}

// expire ends an expired claim and returns its rows, which are due now, also if one had been claimed by force
// before its time. Each attempt counts: its worker may have sent before it died.
func (in *instance) expire(c *claim, now time.Time) []*row {
	var freed []*row
	for _, r := range c.rows {
		in.letGo(c, r)
		p := r.pending
		p.attempts = oneMore(p.attempts)
		p.expiryCount = oneMore(p.expiryCount)
		p.uncertain = true
		p.outcome = fencerow.OutcomeRetryableFailure
		p.reason = fencerow.ReasonLeaseExpired
		if p.dueAt.After(now) {
			p.dueAt = now
		}
		freed = append(freed, r)
	}
	return freed
}

// beforeSuspect cuts the candidates before the first that must be claimed alone, or after it if it is the
// first.
func beforeSuspect(candidates []*row) []*row {
	i := slices.IndexFunc(candidates, func(r *row) bool { return r.pending.expiryCount >= suspectExpiries })
	if i < 0 {
		return candidates
	}
	return candidates[:max(i, 1)]
}

// hold makes the claim of the picked rows, gives it an epoch above all that are known, and returns what the
// worker gets.
func (s *Store) hold(in *instance, c *claim, picked, freed []*row) *fencerow.Claim {
	c.epoch = max(fencerow.ClaimEpoch(c.claimedAt.UnixMicro()), s.seen+1)
	for _, r := range slices.Concat(picked, freed) {
		c.epoch = max(c.epoch, r.pending.lastEpoch+1)
	}
	s.seen = c.epoch
	c.rows = make(map[fencerow.OutboxID]*row, len(picked))
	in.claims[c.token] = c
	out := &fencerow.Claim{
		Token: c.token, Epoch: c.epoch, ClaimedAt: c.claimedAt, LeaseExpiresAt: c.leaseExpiresAt,
		Entries: make([]fencerow.ClaimedEntry, len(picked)),
	}
	for i, r := range picked {
		r.claim = c
		c.rows[r.entry.OutboxID] = r
		out.Entries[i] = fencerow.ClaimedEntry{
			Entry:       r.copyEntry(true),
			Attempt:     oneMore(r.pending.attempts),
			Life:        r.pending.life,
			DueAt:       r.pending.dueAt,
			Uncertain:   r.pending.uncertain,
			ExpiryCount: r.pending.expiryCount,
			Reclaimed:   slices.Contains(freed, r),
			LastReason:  r.pending.reason,
		}
	}
	return out
}

// byLeaseEnd orders claims by lease end; the token only makes the order total.
func byLeaseEnd(a, b *claim) int {
	return cmp.Or(a.leaseExpiresAt.Compare(b.leaseExpiresAt), bytes.Compare(a.token[:], b.token[:]))
}

// micros cuts a duration as the database does.
func micros(d time.Duration) time.Duration { return d.Truncate(time.Microsecond) }
