package storetest

import (
	"slices"
	"time"

	"github.com/fourblocks2020/fencerow"
)

func recoverCases() []testCase {
	return []testCase{
		{"CrashedHoldersRowsComeBackAfterExpiryAndNotBefore", crashedRowsComeBack},
		{"ExpiryIsOneMoreAttempt", expiryIsOneMoreAttempt},
		{"ReclaimNeverLowersAttempts", reclaimNeverLowersAttempts},
		{"OldestEightExpiredClaimsEndAtOnce", oldestEightExpiredClaims},
		{"RowsFreedBeyondTheLimitWaitForTheNextClaim", rowsFreedBeyondTheLimit},
		{"FreedRowsAreClaimedInTheirOrder", freedRowsKeepTheirOrder},
		{"ExpiredClaimStandsUntilSomebodyClaims", expiredClaimStands},
		{"HalfRecordedClaimGivesBackItsRestOnly", halfRecordedClaim},
	}
}

// freedRowsKeepTheirOrder frees eight claims of one row each, which end in no order that counts: one order in
// seventy would have the oldest four at its front.
func freedRowsKeepTheirOrder(s *scene) {
	for range 3 {
		refs := s.fill(8)
		for _, r := range slices.Backward(refs) {
			s.worker(s.key).one(r)
		}
		s.world.Advance(lease + tolerance)
		for _, want := range [][]ref{refs[:4], refs[4:]} {
			c := s.claim(4)
			s.sameRows(c, want...)
			for _, r := range want {
				s.apply(c, outcome(r, fencerow.OutcomeCompleted))
			}
		}
	}
}

func crashedRowsComeBack(s *scene) {
	refs := s.fill(3)
	crashed := s.claimAll(refs...)
	b := s.worker(s.key)
	s.world.Advance(lease - tolerance)
	b.claimAll()
	s.world.Advance(tolerance)
	c := b.claimAll(refs...)
	for _, e := range c.Entries {
		if !e.Reclaimed || e.Attempt != 2 || !e.Uncertain || e.ExpiryCount != 1 ||
			e.LastReason != fencerow.ReasonLeaseExpired {
			s.Errorf("claimed %+v, want a reclaimed second attempt", e)
		}
	}
	if c.Epoch <= crashed.Epoch {
		s.Errorf("epoch %d is not above %d", c.Epoch, crashed.Epoch)
	}
	if leases := s.claims(); len(leases) != 1 || leases[0].Epoch != c.Epoch || leases[0].Rows != 3 {
		s.Errorf("claims %+v, want the new one only", leases)
	}
	b.apply(c, outcome(refs[0], fencerow.OutcomeCompleted))
	if got := s.show(refs[0]).Outcomes[0].Attempts; got != 2 {
		s.Errorf("%d attempts recorded, want 2", got)
	}
}

func expiryIsOneMoreAttempt(s *scene) {
	r := s.fill(1)[0]
	for i := 1; i <= 5; i++ {
		c := s.claimAll(r)
		if e := c.Entries[0]; e.Attempt != i || e.ExpiryCount != i-1 || e.Reclaimed != (i > 1) {
			s.Errorf("claim %d: %+v", i, e)
		}
		s.world.Advance(lease + tolerance)
	}
	s.one(r)
	p := s.pending(r)
	if p.Attempts != 5 || p.ExpiryCount != 5 || !p.Uncertain || p.Life != 1 ||
		p.LastOutcome != fencerow.OutcomeRetryableFailure || p.LastReason != fencerow.ReasonLeaseExpired {
		s.Errorf("pending %+v, want five attempts that ended by expiry", *p)
	}
}

func reclaimNeverLowersAttempts(s *scene) {
	r := s.fill(1)[0]
	for range 3 {
		s.apply(s.one(r), retry(r, 0))
	}
	s.one(r)
	s.world.Advance(lease + tolerance)
	if e := s.claimAll(r).Entries[0]; e.Attempt != 5 || s.pending(r).Attempts != 4 {
		s.Errorf("claimed %+v, want the fifth attempt", e)
	}
}

func oldestEightExpiredClaims(s *scene) {
	const n = fencerow.MaxExpiredPerClaim + 2
	refs := s.fill(n)
	// Claimed in one order, but ending in the other.
	for i, r := range refs {
		must(s.store.ClaimOne(s.Context(), fencerow.ClaimOneParams{
			Instance: s.key, Worker: s.name, Token: fencerow.NewClaimToken(), CorrelationID: r.corr,
			Lease: time.Duration(n-i) * 2 * time.Minute,
		}))(s)
	}
	s.world.Advance(lease)
	b := s.worker(s.key)
	b.claimAll(refs[2:]...)
	if leases := s.claims(); len(leases) != 3 || leases[0].Remaining > leases[1].Remaining {
		s.Errorf("claims %+v, want two expired ones and the new one", leases)
	}
	for _, r := range refs[:2] {
		if p := s.pending(r); p.Attempts != 0 || s.show(r).Lease == nil {
			s.Errorf("row %d of a claim beyond the bound was touched: %+v", r.id, *p)
		}
	}
	for _, e := range b.claimAll(refs[:2]...).Entries {
		if !e.Reclaimed {
			s.Errorf("claimed %+v, want a reclaimed row", e)
		}
	}
}

func rowsFreedBeyondTheLimit(s *scene) {
	refs := s.fill(3)
	s.claimAll(refs...)
	s.world.Advance(lease + tolerance)
	c := s.claim(1)
	if len(c.Entries) != 1 || !c.Entries[0].Reclaimed || !c.More {
		s.Fatalf("claim %+v, want one reclaimed row and more", *c)
	}
	rest := s.claim(10)
	s.claimedTogether(refs, c, rest)
	for _, e := range rest.Entries {
		if e.Reclaimed || e.Attempt != 2 || e.ExpiryCount != 1 || !e.Uncertain {
			s.Errorf("claimed %+v, which an earlier claim had freed", e)
		}
	}
}

func expiredClaimStands(s *scene) {
	r := s.fill(1)[0]
	c := s.one(r)
	s.world.Advance(lease + 10*time.Minute)
	leases := s.claims()
	if len(leases) != 1 || leases[0].Epoch != c.Epoch || leases[0].Rows != 1 {
		s.Fatalf("claims %+v, want the expired one", leases)
	}
	if l := leases[0]; !near(l.Age, lease+10*time.Minute) || !near(-l.Remaining, 10*time.Minute) {
		s.Errorf("claim of age %v with %v remaining", l.Age, l.Remaining)
	}
	state := s.show(r)
	if state.Lease == nil || state.Lease.Remaining > -10*time.Minute || state.Pending.Attempts != 0 {
		s.Errorf("looking at an expired claim changed it: %+v", *state)
	}
	if listed := s.list(); len(listed) != 1 || !listed[0].Due {
		s.Errorf("listed %+v, want the row of the expired claim", listed)
	}
}

func halfRecordedClaim(s *scene) {
	refs := s.fill(4)
	c := s.claimAll(refs...)
	s.apply(c, outcome(refs[0], fencerow.OutcomeCompleted), retry(refs[1], 10*time.Hour))
	s.release(c, refs[2])
	s.world.Advance(lease + tolerance)
	next := s.claimAll(refs[2], refs[3])
	if e := s.claimed(next, refs[2]); e.Reclaimed || e.Attempt != 1 || e.ExpiryCount != 0 {
		s.Errorf("claimed %+v, which had been released", *e)
	}
	if e := s.claimed(next, refs[3]); !e.Reclaimed || e.Attempt != 2 {
		s.Errorf("claimed %+v, want a reclaimed row", *e)
	}
	if p := s.pending(refs[1]); p.Attempts != 1 || p.ExpiryCount != 0 || p.Due {
		s.Errorf("pending %+v, want the recorded retry", *p)
	}
}
