package storetest

import (
	"time"

	"github.com/fourblocks2020/fencerow"
)

func targetedCases() []testCase {
	return []testCase{
		{"TargetedClaimTakesItsEntryOnly", targetedClaimTakesItsEntryOnly},
		{"TargetedClaimIsRefusedWithItsReason", targetedClaimIsRefused},
		{"ForceTakesAWaitingRow", forceTakesAWaitingRow},
		{"ReleasedForcedRowWaitsAgain", releasedForcedRowWaitsAgain},
		{"ExpiredForcedRowIsDueAtOnce", expiredForcedRowIsDueAtOnce},
		{"TargetedReclaimFreesTheWholeClaim", targetedReclaimFreesTheWholeClaim},
		{"TargetedRefusalEndsNoClaim", targetedRefusalEndsNoClaim},
	}
}

func targetedClaimTakesItsEntryOnly(s *scene) {
	refs := s.fill(3)
	c := must(s.tryOne(refs[1].corr, false))(s)
	s.sameRows(c, refs[1])
	if c.Epoch <= 0 || c.Instance != s.key || c.LeaseExpiresAt.Sub(c.ClaimedAt) != lease ||
		c.Entries[0].Attempt != 1 {
		s.Errorf("claim %+v does not name what it is", *c)
	}
	s.claimAll(refs[0], refs[2])
	s.apply(c, outcome(refs[1], fencerow.OutcomeCompleted))
}

func targetedClaimIsRefused(s *scene) {
	refs := s.fill(4)
	leased, waiting, finished, blocked := refs[0], refs[1], refs[2], refs[3]
	other := s.other()
	foreign := other.put(plain("foreign"))[0]
	s.one(leased)
	s.apply(s.one(waiting), retry(waiting, time.Hour))
	s.finish(finished, fencerow.OutcomeCompleted)
	s.finish(blocked, fencerow.OutcomeDeadLettered)
	before, foreignBefore := s.picture(refs...), other.picture(foreign)
	s.refused(waiting.corr, false, fencerow.RefusedNotDue)
	for _, force := range []bool{false, true} {
		s.refused(leased.corr, force, fencerow.RefusedLeased)
		s.refused(finished.corr, force, fencerow.RefusedFinished)
		s.refused(blocked.corr, force, fencerow.RefusedFinished)
		s.refused("nobody-has-this", force, fencerow.RefusedUnknown)
		s.refused("foreign", force, fencerow.RefusedForeign)
	}
	s.unchanged(before, s.picture(refs...))
	s.unchanged(foreignBefore, other.picture(foreign))
	// One's own entry is one's own, whoever else uses the same correlation id.
	own := s.put(plain("foreign"))[0]
	s.one(own)
	other.one(foreign)
}

func forceTakesAWaitingRow(s *scene) {
	r := s.fill(1)[0]
	s.apply(s.one(r), retry(r, 10*time.Hour))
	s.refused(r.corr, false, fencerow.RefusedNotDue)
	c := must(s.tryOne(r.corr, true))(s)
	s.sameRows(c, r)
	if e := c.Entries[0]; e.Attempt != 2 || e.LastReason != fencerow.ReasonLedgerError {
		s.Errorf("claimed %+v, want the second attempt", e)
	}
	s.apply(c, outcome(r, fencerow.OutcomeCompleted))
}

func releasedForcedRowWaitsAgain(s *scene) {
	r := s.fill(1)[0]
	s.apply(s.one(r), retry(r, 10*time.Hour))
	dueAt := s.pending(r).DueAt
	s.release(s.one(r), r)
	if p := s.pending(r); p.Due || !p.DueAt.Equal(dueAt) {
		s.Errorf("a claim that is released did not happen, but the row is due at %v instead of %v", p.DueAt, dueAt)
	}
	s.claimAll()
}

func expiredForcedRowIsDueAtOnce(s *scene) {
	r := s.fill(1)[0]
	s.apply(s.one(r), retry(r, 20*time.Hour))
	first := s.one(r)
	s.refused(r.corr, false, fencerow.RefusedNotDue)
	s.world.Advance(lease + tolerance)
	second := must(s.tryOne(r.corr, false))(s)
	s.sameRows(second, r)
	if e := second.Entries[0]; !e.Reclaimed || e.Attempt != 3 || e.ExpiryCount != 1 || !e.Uncertain {
		s.Errorf("claimed %+v, want a reclaimed row", e)
	}
	rises(s, first.Epoch, second.Epoch)
	// A batch claim takes such a row as well.
	s.apply(second, retry(r, 20*time.Hour))
	third := s.one(r)
	s.claimAll()
	s.world.Advance(lease + tolerance)
	fourth := s.claimAll(r)
	if e := fourth.Entries[0]; !e.Reclaimed || e.Attempt != 5 {
		s.Errorf("claimed %+v, want a reclaimed row", e)
	}
	rises(s, third.Epoch, fourth.Epoch)
}

func targetedReclaimFreesTheWholeClaim(s *scene) {
	refs := s.fill(3)
	lost := s.claimAll(refs...)
	s.world.Advance(lease + tolerance)
	b := s.worker(s.key)
	c := must(b.tryOne(refs[1].corr, false))(s)
	e := b.claimed(c, refs[1])
	if !e.Reclaimed || e.Attempt != 2 || e.ExpiryCount != 1 || !e.Uncertain ||
		e.LastReason != fencerow.ReasonLeaseExpired {
		s.Errorf("claimed %+v, want a reclaimed second attempt", *e)
	}
	if c.Epoch <= lost.Epoch {
		s.Errorf("epoch %d is not above %d", c.Epoch, lost.Epoch)
	}
	for _, r := range []ref{refs[0], refs[2]} {
		if p := s.pending(r); p.Attempts != 1 || p.ExpiryCount != 1 || !p.Uncertain || !p.Due ||
			s.show(r).Lease != nil {
			s.Errorf("row %d was not freed with the claim: %+v", r.id, *p)
		}
	}
	for _, e := range b.claimAll(refs[0], refs[2]).Entries {
		if e.Reclaimed || e.Attempt != 2 {
			s.Errorf("claimed %+v, which an earlier call had freed", e)
		}
	}
	for _, v := range s.record(lost, outcome(refs[0], fencerow.OutcomeCompleted),
		outcome(refs[1], fencerow.OutcomeCompleted)) {
		if v.Applied || v.Lost != fencerow.LostReclaimed {
			s.Errorf("got %+v, want reclaimed", v)
		}
	}
}

func targetedRefusalEndsNoClaim(s *scene) {
	refs := s.fill(2)
	s.one(refs[0])
	s.world.Advance(lease + tolerance)
	s.one(refs[1])
	before := s.picture(refs...)
	s.refused(refs[1].corr, true, fencerow.RefusedLeased)
	s.refused("nobody-has-this", true, fencerow.RefusedUnknown)
	s.unchanged(before, s.picture(refs...))
}
