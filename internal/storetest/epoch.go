package storetest

import (
	"time"

	"github.com/fourblocks2020/fencerow"
)

func epochCases() []testCase {
	return []testCase{
		{"EpochRisesWithEveryClaimOfARow", epochRises},
		{"EpochSurvivesASteppedBackClock", epochSurvivesClock},
		{"EpochSurvivesRetry", epochSurvives(func(s *scene, c *fencerow.Claim, r ref) { s.apply(c, retry(r, 0)) })},
		{"EpochSurvivesAnAttemptGivenBack", epochSurvives(func(s *scene, c *fencerow.Claim, r ref) {
			s.apply(c, with(retry(r, 0), func(o *fencerow.Outcome) { o.Charge = fencerow.ChargeGiveBack }))
		})},
		{"EpochSurvivesRelease", epochSurvives(func(s *scene, c *fencerow.Claim, r ref) { s.release(c, r) })},
		{"EpochSurvivesReleaseOfAll", epochSurvives(func(s *scene, c *fencerow.Claim, _ ref) {
			s.releaseAll(c, false)
		})},
		{"EpochSurvivesExpiry", epochSurvives(func(s *scene, _ *fencerow.Claim, _ ref) {
			s.world.Advance(lease + tolerance)
		})},
		{"EpochSurvivesRequeue", epochSurvives(func(s *scene, c *fencerow.Claim, r ref) {
			s.apply(c, outcome(r, fencerow.OutcomePermanentFailure))
			s.requeue(r, fencerow.StatusPermanentFailure)
		})},
		{"EpochSurvivesExpiryFoundByATargetedClaim", epochSurvivesTargeted},
		{"EpochOfAFreedRowCountsToo", epochOfAFreedRow},
		{"EpochOfAFreedRowThatIsNotPickedCountsToo", epochOfAFreedRowBehindOthers},
		{"ProcessNeverGoesBelowAnEpochItHasSeen", processRemembersItsEpoch},
		{"EpochIsLikeTheClock", epochIsLikeTheClock},
	}
}

// rises demands that each epoch is above the one before.
func rises(s *scene, epochs ...fencerow.ClaimEpoch) {
	s.Helper()
	for i := 1; i < len(epochs); i++ {
		if epochs[i] <= epochs[i-1] {
			s.Fatalf("epoch %d of claim %d is not above the %d before it", epochs[i], i, epochs[i-1])
		}
	}
}

func epochRises(s *scene) {
	r := s.fill(1)[0]
	workers := []*actor{s.actor, s.worker(s.key), s.worker(s.key)}
	var epochs []fencerow.ClaimEpoch
	for i := range 12 {
		w := workers[i%len(workers)]
		c := w.one(r)
		epochs = append(epochs, c.Epoch)
		switch i % 4 {
		case 0:
			w.apply(c, retry(r, 0))
		case 1:
			w.release(c, r)
		case 2:
			w.apply(c, outcome(r, fencerow.OutcomeDeadLettered))
			w.requeue(r, fencerow.StatusDeadLettered)
		case 3:
			s.world.Advance(lease + tolerance)
		}
	}
	rises(s, epochs...)
}

func epochSurvivesClock(s *scene) {
	r := s.fill(1)[0]
	s.world.SetLastEpoch(s.key, r.id, farEpoch)
	c := s.claimAll(r)
	rises(s, farEpoch, c.Epoch)
	if lease := s.show(r).Lease; lease == nil || lease.Epoch != c.Epoch {
		s.Errorf("the claim stands with another epoch than it said: %+v", lease)
	}
}

// epochSurvives claims a row whose last epoch is ahead of the clock, lets it go in the given way, and demands
// that another process, which has seen nothing, claims it with a higher epoch; several times.
func epochSurvives(letGo func(*scene, *fencerow.Claim, ref)) func(*scene) {
	return func(s *scene) {
		r := s.fill(1)[0]
		s.world.SetLastEpoch(s.key, r.id, farEpoch)
		epochs := []fencerow.ClaimEpoch{farEpoch}
		for range 3 {
			s.actor = s.worker(s.key)
			c := s.claimAll(r)
			epochs = append(epochs, c.Epoch)
			rises(s, epochs...)
			letGo(s, c, r)
		}
	}
}

func epochSurvivesTargeted(s *scene) {
	r := s.fill(1)[0]
	s.world.SetLastEpoch(s.key, r.id, farEpoch)
	epochs := []fencerow.ClaimEpoch{farEpoch}
	for range 3 {
		epochs = append(epochs, s.worker(s.key).one(r).Epoch)
		s.world.Advance(lease + tolerance)
	}
	rises(s, epochs...)
}

func epochOfAFreedRow(s *scene) {
	refs := s.fill(2)
	s.world.SetLastEpoch(s.key, refs[1].id, farEpoch)
	first := s.claimAll(refs...)
	s.world.Advance(lease + tolerance)
	// The claim is ended for the first row, and frees the second, whose epoch is the whole claim's.
	c := s.worker(s.key).one(refs[0])
	rises(s, farEpoch, first.Epoch, c.Epoch)
	rises(s, first.Epoch, s.worker(s.key).one(refs[1]).Epoch)
}

// epochOfAFreedRowBehindOthers frees the rows of two claims behind a due one, and claims that one alone.
func epochOfAFreedRowBehindOthers(s *scene) {
	refs := s.fill(3)
	s.world.SetLastEpoch(s.key, refs[2].id, farEpoch)
	s.worker(s.key).one(refs[1])
	last := s.worker(s.key).one(refs[2])
	s.world.Advance(lease + tolerance)
	c := s.worker(s.key).claim(1)
	s.sameRows(c, refs[0])
	rises(s, farEpoch, last.Epoch, c.Epoch)
}

func processRemembersItsEpoch(s *scene) {
	refs := s.fill(2)
	s.world.SetLastEpoch(s.key, refs[0].id, farEpoch)
	c := s.one(refs[0])
	rises(s, farEpoch, c.Epoch, s.one(refs[1]).Epoch)
}

func epochIsLikeTheClock(s *scene) {
	refs := s.fill(2)
	a := s.one(refs[0])
	b := s.worker(s.key).one(refs[1])
	for _, c := range []*fencerow.Claim{a, b} {
		if clock := c.ClaimedAt.UnixMicro(); int64(c.Epoch) < clock ||
			int64(c.Epoch) > clock+time.Hour.Microseconds() {
			s.Errorf("epoch %d at clock %d, want the clock in microseconds", c.Epoch, clock)
		}
	}
}
