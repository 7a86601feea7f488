package storetest

import (
	"slices"
	"time"

	"github.com/fourblocks2020/fencerow"
)

func suspectCases() []testCase {
	return []testCase{
		{"SuspectAtTheFrontIsClaimedAlone", suspectAtTheFront},
		{"SuspectBehindOthersEndsTheClaimBeforeIt", suspectBehindOthers},
		{"TwoExpiriesMakeASuspectAndOneDoesNot", twoExpiriesMakeASuspect},
		{"ReleaseDoesNotClearASuspicion", releaseDoesNotClearASuspicion},
		{"PoisonRowDoesNotUseUpItsBatchMates", poisonRowSparesItsMates},
	}
}

// suspect lets two leases of the row run out.
func (s *scene) suspect(r ref) {
	s.Helper()
	for range 2 {
		s.one(r)
		s.world.Advance(lease + tolerance)
	}
}

func suspectAtTheFront(s *scene) {
	poison := s.fill(1)[0]
	s.suspect(poison)
	mates := s.fill(3)
	c := s.claim(10)
	s.sameRows(c, poison)
	if e := c.Entries[0]; !c.More || e.ExpiryCount != 2 || !e.Reclaimed || e.Attempt != 3 {
		s.Errorf("claim %+v, want the suspect alone and more", *c)
	}
	c = s.claim(10)
	s.sameRows(c, mates...)
	s.claimAll()
}

func suspectBehindOthers(s *scene) {
	mates := s.fill(4)
	for _, r := range mates[2:] {
		s.suspect(r)
	}
	c := s.claim(10)
	s.sameRows(c, mates[:2]...)
	if !c.More {
		s.Errorf("the claim was cut before a suspect, but says that there is nothing more")
	}
	for i, r := range mates[2:] {
		c := s.claim(10)
		s.sameRows(c, r)
		if i == 0 && !c.More {
			s.Errorf("one suspect was claimed alone, but the claim says that there is nothing more")
		}
	}
	s.claimAll()
}

func twoExpiriesMakeASuspect(s *scene) {
	refs := s.fill(3)
	s.claimAll(refs...)
	s.world.Advance(lease + tolerance)
	// One expiry may be a restart: the rows stay together.
	s.claimAll(refs...)
	s.world.Advance(lease + tolerance)
	// After two each must prove itself.
	for range refs {
		c := s.claim(10)
		if len(c.Entries) != 1 || c.Entries[0].ExpiryCount != 2 {
			s.Fatalf("claim %+v, want one suspect", *c)
		}
		s.apply(c, outcome(ref{id: c.Entries[0].OutboxID}, fencerow.OutcomeCompleted))
	}
	s.claimAll()
}

func releaseDoesNotClearASuspicion(s *scene) {
	r := s.fill(1)[0]
	s.suspect(r)
	s.fill(1)
	c := s.one(r)
	s.release(c, r)
	if p := s.pending(r); p.ExpiryCount != 2 {
		s.Errorf("expiry count %d after a release, want 2", p.ExpiryCount)
	}
	s.sameRows(s.claim(10), r)
	s.world.Advance(lease + tolerance)
	// A row that failed in the ordinary way proved that its worker survives it.
	s.apply(s.one(r), with(retry(r, 0), func(o *fencerow.Outcome) { o.Charge = fencerow.ChargeNothing }))
	if c := s.claim(10); len(c.Entries) != 2 {
		s.Errorf("claimed %d rows, want the row with its mate", len(c.Entries))
	}
}

func poisonRowSparesItsMates(s *scene) {
	refs := s.fill(5)
	poison := refs[2]
	open := len(refs)
	for round := 0; open > 1; round++ {
		if round == 20 {
			s.Fatalf("%d entries are still not delivered after %d rounds", open-1, round)
		}
		c := s.claim(10)
		ids := claimedIDs(c)
		switch {
		case len(ids) == 0:
			s.world.Advance(lease + tolerance)
		case slices.Contains(ids, poison.id):
			// The worker dies before it records anything, and its successor does not wait for the lease.
			s.actor = s.worker(s.key)
		default:
			for _, id := range ids {
				s.apply(c, outcome(ref{id: id}, fencerow.OutcomeCompleted))
			}
			open -= len(ids)
		}
	}
	for _, r := range refs {
		state := s.show(r)
		switch {
		case r == poison && (state.Status != fencerow.StatusPending || state.Pending.Attempts < 2):
			s.Errorf("the poison entry is %+v", *state)
		case r != poison && (state.Status != fencerow.StatusCompleted || state.Outcomes[0].Attempts > 3):
			s.Errorf("entry %d is %+v, want delivered at its third attempt", r.id, *state)
		}
	}
	// A worker that sees the attempts used up ends it.
	s.world.Advance(lease + tolerance)
	c := s.one(poison)
	if e := c.Entries[0]; e.LastReason != fencerow.ReasonLeaseExpired {
		s.Errorf("claimed %+v, want it to say that a lease expired", e)
	}
	s.apply(c, with(outcome(poison, fencerow.OutcomeDeadLettered), func(o *fencerow.Outcome) {
		o.Reason = fencerow.ReasonLeaseExpired
	}))
	s.world.Advance(24 * time.Hour)
	s.claimAll()
}
