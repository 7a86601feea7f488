package storetest

import (
	"time"

	"github.com/fourblocks2020/fencerow"
)

func frozenCases() []testCase {
	return []testCase{
		{"DueAtExactlyNowIsDue", dueAtExactlyNow},
		{"LeaseThatEndsExactlyNowIsOver", leaseThatEndsExactlyNow},
		{"TimesAreCutToMicroseconds", timesAreCut},
		{"AgeOfExactlyTheLimitIsPruned", ageOfExactlyTheLimit},
		{"EpochRisesWhileTheClockStands", epochRisesWhileTheClockStands},
	}
}

func dueAtExactlyNow(s *scene) {
	r := s.fill(1)[0]
	s.apply(s.one(r), retry(r, time.Hour))
	s.world.Advance(time.Hour - time.Microsecond)
	s.claimAll()
	s.refused(r.corr, false, fencerow.RefusedNotDue)
	if s.pending(r).Due || s.list()[0].Due || s.counts().Due != 0 {
		s.Errorf("a row is called due before its time")
	}
	s.world.Advance(time.Microsecond)
	if !s.pending(r).Due || !s.list()[0].Due || s.counts().Due != 1 || s.counts().OldestDue != 0 {
		s.Errorf("a row that is due exactly now is not called due")
	}
	s.sameRows(must(s.tryOne(r.corr, false))(s), r)
}

func leaseThatEndsExactlyNow(s *scene) {
	refs := s.fill(2)
	a, b := s.one(refs[0]), s.one(refs[1])
	s.world.Advance(lease - time.Microsecond)
	s.claimAll()
	s.refused(refs[1].corr, true, fencerow.RefusedLeased)
	if len(s.list()) != 0 || s.counts().Leased != 2 {
		s.Errorf("a lease is over before its end")
	}
	s.world.Advance(time.Microsecond)
	if len(s.list()) != 2 || s.counts().Leased != 0 || s.counts().Due != 2 || s.claims()[0].Remaining != 0 {
		s.Errorf("a lease that ends exactly now is not over")
	}
	s.apply(a, retry(refs[0], time.Hour)) // late, but nobody reclaimed the row
	c := must(s.tryOne(refs[1].corr, false))(s)
	if !s.claimed(c, refs[1]).Reclaimed {
		s.Errorf("the row was not reclaimed")
	}
	s.lost(s.record(b, outcome(refs[1], fencerow.OutcomeCompleted))[0], fencerow.LostReclaimed, c.Epoch,
		fencerow.OutcomeRetryableFailure)
}

func timesAreCut(s *scene) {
	s.world.Advance(1500 * time.Nanosecond)
	r := s.fill(1)[0]
	c := s.one(r)
	s.apply(c, retry(r, time.Hour+999*time.Nanosecond))
	dueAt := s.pending(r).DueAt
	if dueAt.Sub(c.ClaimedAt) != time.Hour || dueAt.Nanosecond()%1000 != 0 {
		s.Errorf("due %v after the claim, want an hour cut to microseconds", dueAt.Sub(c.ClaimedAt))
	}
	if c.ClaimedAt.Nanosecond()%1000 != 0 || c.LeaseExpiresAt.Sub(c.ClaimedAt) != lease {
		s.Errorf("claimed at %v until %v, want microseconds", c.ClaimedAt, c.LeaseExpiresAt)
	}
}

func ageOfExactlyTheLimit(s *scene) {
	r := s.fill(1)[0]
	s.finish(r, fencerow.OutcomeCompleted)
	s.world.Advance(time.Hour)
	if result := s.prune(time.Hour+time.Microsecond, 1, 0); result.Deleted != 0 {
		s.Errorf("pruned an entry that is too young")
	}
	if result := s.prune(time.Hour, 1, 0); result.Deleted != 1 {
		s.Errorf("pruned %+v, want the entry", result)
	}
}

func epochRisesWhileTheClockStands(s *scene) {
	r := s.fill(1)[0]
	var epochs []fencerow.ClaimEpoch
	for range 5 {
		s.actor = s.worker(s.key)
		c := s.one(r)
		epochs = append(epochs, c.Epoch)
		s.release(c, r)
	}
	rises(s, epochs...)
}
