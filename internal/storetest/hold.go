package storetest

import (
	"errors"

	"github.com/fourblocks2020/fencerow"
)

func holdCases() []testCase {
	return []testCase{
		{"HeldInstanceClaimsNothing", heldInstanceClaimsNothing},
		{"HoldLeavesStandingClaimsAlone", holdLeavesStandingClaims},
		{"HoldEndsNoExpiredClaim", holdEndsNoExpiredClaim},
		{"HoldAndResumeSayWhetherTheyChangedAnything", holdAndResumeSay},
		{"HeldInstanceTakesAndShowsEntries", heldInstanceTakesAndShows},
	}
}

func (a *actor) hold() bool {
	a.t.Helper()
	return must(a.store.Hold(a.t.Context(), a.key))(a.t)
}

func (a *actor) resume() bool {
	a.t.Helper()
	return must(a.store.Resume(a.t.Context(), a.key))(a.t)
}

// held demands that a batch claim is refused since the instance is on hold.
func (a *actor) held() {
	a.t.Helper()
	if c, err := a.tryClaim(10); !errors.Is(err, fencerow.ErrInstanceHeld) || c != nil {
		a.t.Fatalf("claim on hold: got %v, %v", c, err)
	}
}

func heldInstanceClaimsNothing(s *scene) {
	refs := s.fill(2)
	s.hold()
	before := s.picture(refs...)
	s.held()
	for _, force := range []bool{false, true} {
		s.refused(refs[0].corr, force, fencerow.RefusedHeld)
	}
	s.worker(s.key).held()
	s.unchanged(before, s.picture(refs...))
	s.resume()
	s.claimAll(refs...)
	// Also when there is nothing to claim: a worker must be able to tell a hold from an empty poll.
	s.hold()
	s.held()
}

func holdLeavesStandingClaims(s *scene) {
	refs := s.fill(4)
	c := s.claimAll(refs...)
	s.hold()
	s.apply(c, outcome(refs[0], fencerow.OutcomeCompleted), retry(refs[1], 0))
	s.applied(s.release(c, refs[2])[0])
	if leases := s.claims(); len(leases) != 1 || leases[0].Rows != 1 {
		s.Errorf("claims %+v, want the one that stood, with its last row", leases)
	}
	s.releaseAll(c, false)
	s.held()
	s.resume()
	s.claimAll(refs[1:]...)
}

func holdEndsNoExpiredClaim(s *scene) {
	refs := s.fill(1)
	c := s.claimAll(refs...)
	s.hold()
	s.world.Advance(lease + tolerance)
	before := s.picture(refs...)
	s.held()
	s.refused(refs[0].corr, true, fencerow.RefusedHeld)
	s.unchanged(before, s.picture(refs...))
	s.apply(c, retry(refs[0], 0))
	s.resume()
	if e := s.claimAll(refs...).Entries[0]; e.Reclaimed || e.ExpiryCount != 0 {
		s.Errorf("claimed %+v, want the late outcome to have counted", e)
	}
}

func holdAndResumeSay(s *scene) {
	if s.resume() {
		s.Errorf("a resume without a hold says that it changed something")
	}
	if !s.hold() {
		s.Errorf("a hold says that it changed nothing")
	}
	since := s.counts().HeldSince
	if since == nil {
		s.Fatalf("the instance is on hold, but not held since any time")
	}
	s.world.Advance(tolerance)
	before := *s.counts().HeldSince
	if s.hold() {
		s.Errorf("a second hold says that it changed something")
	}
	if after := s.counts().HeldSince; after == nil || !after.Equal(before) {
		s.Errorf("a second hold moved the first from %v to %v", before, after)
	}
	if !s.resume() || s.counts().HeldSince != nil {
		s.Errorf("a resume did not end the hold, or did not say so")
	}
	if s.resume() {
		s.Errorf("a second resume says that it changed something")
	}
}

func heldInstanceTakesAndShows(s *scene) {
	parked := s.fill(1)[0]
	s.finish(parked, fencerow.OutcomeDeadLettered)
	s.hold()
	noError(s, s.store.Register(s.Context(), s.key))
	r := s.put(money("a", "slot-1", "1", "EUR"))[0]
	s.requeue(parked, fencerow.StatusDeadLettered)
	if listed := s.list(); len(listed) != 2 {
		s.Errorf("listed %+v, want both entries", listed)
	}
	if counts := s.counts(); counts.Due != 2 || counts.HeldSince == nil {
		s.Errorf("counts %+v, want two due entries of a held instance", *counts)
	}
	s.held()
	s.resume()
	s.claimAll(parked, r)
}
