package storetest

import (
	"slices"
	"time"

	"github.com/fourblocks2020/fencerow"
)

func releaseCases() []testCase {
	return []testCase{
		{"ReleasedRowIsDueAtOnceAndUsesNoAttempt", releasedRowIsDueAtOnce},
		{"ReleaseSaysOfEachRowWhetherBytesWereSent", releaseMarksUncertainRows},
		{"ReleaseNeverClearsUncertainty", releaseNeverClearsUncertainty},
		{"ReleaseOfAllTakesWhatIsLeft", releaseOfAll},
		{"ReleaseOfAllMarksAll", releaseOfAllMarksAll},
		{"ClaimWhoseAnswerWasLostIsGivenBack", claimWhoseAnswerWasLost},
		{"ReleaseOfNoClaimIsNoError", releaseOfNoClaim},
		{"ReleaseReportsLostRows", releaseReportsLostRows},
		{"ReleaseKeepsWhatIsKnownOfTheRow", releaseKeepsWhatIsKnown},
	}
}

func releasedRowIsDueAtOnce(s *scene) {
	refs := s.fill(3)
	c := s.claimAll(refs...)
	for _, v := range s.release(c, refs[2], refs[0]) {
		s.applied(v)
	}
	b := s.worker(s.key)
	next := b.claimAll(refs[0], refs[2])
	for _, e := range next.Entries {
		if e.Attempt != 1 || e.Uncertain || e.Reclaimed || e.ExpiryCount != 0 || e.LastReason != "" {
			s.Errorf("claimed %+v, want a first attempt again", e)
		}
	}
	b.refused(refs[1].corr, true, fencerow.RefusedLeased)
	s.apply(c, outcome(refs[1], fencerow.OutcomeCompleted))
	if leases := s.claims(); len(leases) != 1 || leases[0].Epoch != next.Epoch {
		s.Errorf("claims %+v, want the second only", leases)
	}
}

func releaseMarksUncertainRows(s *scene) {
	refs := s.fill(3)
	c := s.claimAll(refs...)
	verdicts := must(s.tryRelease(c,
		fencerow.ReleaseRow{OutboxID: refs[0].id}, fencerow.ReleaseRow{OutboxID: refs[1].id, Uncertain: true},
		fencerow.ReleaseRow{OutboxID: refs[2].id},
	))(s)
	for i, v := range verdicts {
		s.applied(v)
		if v.OutboxID != refs[i].id {
			s.Errorf("verdict %d is about row %d", i, v.OutboxID)
		}
		if got := s.pending(refs[i]).Uncertain; got != (i == 1) {
			s.Errorf("row %d: uncertain %v", i, got)
		}
	}
}

func releaseNeverClearsUncertainty(s *scene) {
	r := s.fill(1)[0]
	s.apply(s.one(r), with(retry(r, 0), func(o *fencerow.Outcome) { o.Uncertain = true }))
	s.release(s.one(r), r)
	if !s.pending(r).Uncertain {
		s.Errorf("a release cleared what an earlier attempt had left uncertain")
	}
	s.releaseAll(s.one(r), false)
	if !s.pending(r).Uncertain {
		s.Errorf("a release of all cleared what an earlier attempt had left uncertain")
	}
}

func releaseOfAll(s *scene) {
	refs := s.fill(5)
	c := s.claimAll(refs...)
	s.apply(c, outcome(refs[1], fencerow.OutcomeCompleted), retry(refs[3], 0))
	verdicts := s.releaseAll(c, false)
	var ids []fencerow.OutboxID
	for _, v := range verdicts {
		s.applied(v)
		ids = append(ids, v.OutboxID)
	}
	want := []fencerow.OutboxID{refs[0].id, refs[2].id, refs[4].id}
	slices.Sort(want)
	if !slices.Equal(ids, want) {
		s.Errorf("released %v, want %v in ascending order", ids, want)
	}
	if leases := s.claims(); len(leases) != 0 {
		s.Errorf("claims %+v, want none", leases)
	}
	if again := s.releaseAll(c, true); len(again) != 0 {
		s.Errorf("a second release of all released %+v", again)
	}
	for _, e := range s.claimAll(refs[0], refs[2], refs[3], refs[4]).Entries {
		if want := e.OutboxID == refs[3].id; (e.Attempt == 2) != want || e.Uncertain {
			s.Errorf("claimed %+v after the release", e)
		}
	}
}

func releaseOfAllMarksAll(s *scene) {
	refs := s.fill(3)
	s.releaseAll(s.claimAll(refs...), true)
	for _, e := range s.claimAll(refs...).Entries {
		if !e.Uncertain || e.Attempt != 1 {
			s.Errorf("claimed %+v, want uncertain and a first attempt", e)
		}
	}
}

func claimWhoseAnswerWasLost(s *scene) {
	refs := s.fill(2)
	unanswered := s.claimAll(refs...)
	// All that the worker has is the token that it made.
	lost := &fencerow.Claim{Token: unanswered.Token}
	if verdicts := s.releaseAll(lost, false); len(verdicts) != 2 {
		s.Errorf("released %+v, want both rows", verdicts)
	}
	for _, e := range s.claimAll(refs...).Entries {
		if e.Attempt != 1 || e.Uncertain {
			s.Errorf("claimed %+v, want as if nothing had been", e)
		}
	}
}

func releaseOfNoClaim(s *scene) {
	refs := s.fill(1)
	s.claimAll(refs...)
	before := s.picture(refs...)
	for _, uncertain := range []bool{false, true} {
		unknown := &fencerow.Claim{Token: fencerow.NewClaimToken()}
		if verdicts := s.releaseAll(unknown, uncertain); len(verdicts) != 0 {
			s.Errorf("released %+v under a token that nobody used", verdicts)
		}
	}
	s.unchanged(before, s.picture(refs...))
}

func releaseReportsLostRows(s *scene) {
	refs := s.fill(4)
	c := s.claimAll(refs...)
	s.apply(c, outcome(refs[0], fencerow.OutcomePermanentFailure))
	s.release(c, refs[1])
	next := s.one(refs[1])
	s.world.DeleteEntry(s.key, refs[2].id)
	verdicts := s.release(c, refs[2], refs[3], refs[1], refs[0])
	s.lost(verdicts[0], fencerow.LostMissing, 0, "")
	s.applied(verdicts[1])
	s.lost(verdicts[2], fencerow.LostReclaimed, next.Epoch, "")
	s.lost(verdicts[3], fencerow.LostFinished, c.Epoch, fencerow.OutcomePermanentFailure)
	s.apply(next, outcome(refs[1], fencerow.OutcomeCompleted))
}

func releaseKeepsWhatIsKnown(s *scene) {
	r := s.fill(1)[0]
	s.apply(s.one(r), retry(r, 0))
	before := s.pending(r)
	s.release(s.one(r), r)
	after := s.pending(r)
	if after.Attempts != 1 || after.LastOutcome != before.LastOutcome || after.LastReason != before.LastReason ||
		!after.DueAt.Equal(before.DueAt) || after.Life != before.Life {
		s.Errorf("pending %+v became %+v by a release", *before, *after)
	}
	s.world.Advance(time.Hour)
	s.claimAll(r)
}
