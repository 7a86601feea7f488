package storetest

import (
	"time"

	"github.com/shopspring/decimal"

	"github.com/fourblocks2020/fencerow"
)

func fenceCases() []testCase {
	return []testCase{
		{"StaleTokenChangesNothing", staleTokenChangesNothing},
		{"StaleTokenOfAFreedRowChangesNothing", staleTokenOfAFreedRow},
		{"OutcomeAfterTheLeaseButBeforeReclaimIsApplied", lateOutcomeIsApplied},
		{"SecondTerminalOutcomeIsLost", secondTerminalIsLost},
		{"RepeatedRetryIsRecognisedAndCountsOnce", repeatedRetryCountsOnce},
		{"RowThatTheClaimLetGoIsLost", rowThatTheClaimLetGo},
		{"RowThatWasFinishedByAnotherIsLost", rowFinishedByAnother},
		{"MissingRowIsLost", missingRowIsLost},
		{"UnknownTokenLosesEverything", unknownTokenLosesEverything},
		{"AnotherClaimsTokenDoesNotFit", anotherClaimsToken},
		{"LostItemDoesNotHurtTheOthers", lostItemDoesNotHurtTheOthers},
		{"ZombieOfAnEarlierLifeIsLost", zombieOfAnEarlierLife},
	}
}

// loaded returns an outcome of every kind for the row, the successes with a snapshot that would be accepted.
func loaded(r ref) []fencerow.Outcome {
	var all []fencerow.Outcome
	for _, kind := range fencerow.OutcomeKinds() {
		o := outcome(r, kind)
		o.Uncertain = true
		if kind.Success() {
			o.Snapshot = snapshot("slot-1", "EUR", "99", 7)
		}
		all = append(all, o)
	}
	return all
}

func snapshot(slot fencerow.SlotID, currency, balance string, version int64) *fencerow.Snapshot {
	return &fencerow.Snapshot{
		SlotID: slot, Currency: currency, CashBalance: decimal.RequireFromString(balance), Version: version,
	}
}

// skipping returns an entry of slot-1 that opens a skip.
func skipping(corr fencerow.CorrelationID) fencerow.NewEntry {
	n := money(corr, "slot-1", "5", "EUR")
	n.OpenSkip = true
	return n
}

func staleTokenChangesNothing(s *scene) {
	r := s.put(skipping("a"))[0]
	stale := s.one(r)
	s.world.Advance(lease + tolerance)
	b := s.worker(s.key)
	c := b.one(r)
	before := s.picture(r)
	for _, o := range loaded(r) {
		s.lost(s.record(stale, o)[0], fencerow.LostReclaimed, c.Epoch, fencerow.OutcomeRetryableFailure)
	}
	s.lost(s.release(stale, r)[0], fencerow.LostReclaimed, c.Epoch, fencerow.OutcomeRetryableFailure)
	if verdicts := s.releaseAll(stale, true); len(verdicts) != 0 {
		s.Errorf("a stale token released %+v", verdicts)
	}
	for _, kind := range blockedKinds() {
		s.wrongStatus(r, kind.Status(), fencerow.StatusPending)
	}
	s.unchanged(before, s.picture(r))
	b.apply(c, outcome(r, fencerow.OutcomeCompleted))
}

func staleTokenOfAFreedRow(s *scene) {
	// The row of the stale claim was reclaimed and let go again: nobody holds it, and the stale token does not
	// either.
	r := s.put(skipping("a"))[0]
	stale := s.one(r)
	s.world.Advance(lease + tolerance)
	b := s.worker(s.key)
	c := b.one(r)
	b.release(c, r)
	before := s.picture(r)
	for _, o := range loaded(r) {
		s.lost(s.record(stale, o)[0], fencerow.LostReclaimed, c.Epoch, fencerow.OutcomeRetryableFailure)
	}
	s.lost(s.release(stale, r)[0], fencerow.LostReclaimed, c.Epoch, fencerow.OutcomeRetryableFailure)
	s.unchanged(before, s.picture(r))
}

func lateOutcomeIsApplied(s *scene) {
	refs := s.fill(3)
	c := s.claimAll(refs...)
	s.world.Advance(lease + tolerance)
	s.apply(c, outcome(refs[0], fencerow.OutcomeCompleted), retry(refs[1], 0))
	s.applied(s.release(c, refs[2])[0])
	if p := s.pending(refs[1]); p.Attempts != 1 || p.ExpiryCount != 0 ||
		p.LastReason != fencerow.ReasonLedgerError {
		s.Errorf("pending %+v, want the late outcome", *p)
	}
	if p := s.pending(refs[2]); p.Attempts != 0 || p.Uncertain || p.ExpiryCount != 0 {
		s.Errorf("pending %+v, want the late release", *p)
	}
	if state := s.show(refs[0]); state.Status != fencerow.StatusCompleted || state.Outcomes[0].Attempts != 1 {
		s.Errorf("entry %+v, want the late success", *state)
	}
	s.claimAll(refs[1], refs[2])
}

func secondTerminalIsLost(s *scene) {
	refs := []ref{s.put(skipping("a"))[0], s.put(plain("b"))[0]}
	c := s.claimAll(refs...)
	s.apply(c, outcome(refs[0], fencerow.OutcomeConflictBlocked))
	before := s.picture(refs...)
	for _, o := range loaded(refs[0]) {
		s.lost(s.record(c, o)[0], fencerow.LostFinished, c.Epoch, fencerow.OutcomeConflictBlocked)
	}
	s.lost(s.release(c, refs[0])[0], fencerow.LostFinished, c.Epoch, fencerow.OutcomeConflictBlocked)
	s.unchanged(before, s.picture(refs...))
	// Also when the claim itself is gone.
	s.apply(c, outcome(refs[1], fencerow.OutcomeCompleted))
	before = s.picture(refs...)
	for _, o := range loaded(refs[1]) {
		s.lost(s.record(c, o)[0], fencerow.LostFinished, c.Epoch, fencerow.OutcomeCompleted)
	}
	s.unchanged(before, s.picture(refs...))
}

func repeatedRetryCountsOnce(s *scene) {
	r := s.fill(1)[0]
	c := s.one(r)
	s.apply(c, retry(r, time.Hour))
	before := s.picture(r)
	again := s.record(c, retry(r, time.Hour))[0]
	s.lost(again, fencerow.LostReclaimed, c.Epoch, fencerow.OutcomeRetryableFailure)
	if again.RecordedEpoch != c.Epoch || again.Reason != fencerow.ReasonLedgerError {
		s.Errorf("verdict %+v, want the caller's own epoch and reason", again)
	}
	s.unchanged(before, s.picture(r))
	// Once another claim has the row, the epoch is that one's, and what was recorded is still the caller's own.
	next := s.one(r)
	again = s.record(c, retry(r, time.Hour))[0]
	s.lost(again, fencerow.LostReclaimed, next.Epoch, fencerow.OutcomeRetryableFailure)
	if again.RecordedEpoch != c.Epoch || again.Reason != fencerow.ReasonLedgerError {
		s.Errorf("verdict %+v, want the caller's own epoch and reason", again)
	}
	// An expiry lets the row go under the expired epoch, but as something that no worker recorded.
	s.world.Advance(lease + tolerance)
	s.one(r)
	expired := s.record(next, retry(r, time.Hour))[0]
	if expired.Applied || expired.RecordedEpoch != next.Epoch || expired.Reason != fencerow.ReasonLeaseExpired {
		s.Errorf("verdict %+v, want an expired attempt", expired)
	}
}

func rowThatTheClaimLetGo(s *scene) {
	refs := s.fill(3)
	c := s.claimAll(refs...)
	s.applied(s.release(c, refs[0])[0])
	s.apply(c, retry(refs[1], 0))
	before := s.picture(refs...)
	for i, kind := range []fencerow.OutcomeKind{"", fencerow.OutcomeRetryableFailure} {
		for _, o := range loaded(refs[i]) {
			s.lost(s.record(c, o)[0], fencerow.LostReclaimed, c.Epoch, kind)
		}
		s.lost(s.release(c, refs[i])[0], fencerow.LostReclaimed, c.Epoch, kind)
	}
	s.unchanged(before, s.picture(refs...))
	s.apply(c, outcome(refs[2], fencerow.OutcomeCompleted))
	s.claimAll(refs[0], refs[1])
}

func rowFinishedByAnother(s *scene) {
	r := s.put(skipping("a"))[0]
	stale := s.one(r)
	s.world.Advance(lease + tolerance)
	epoch := s.worker(s.key).finish(r, fencerow.OutcomePermanentFailure)
	before := s.picture(r)
	for _, o := range loaded(r) {
		s.lost(s.record(stale, o)[0], fencerow.LostFinished, epoch, fencerow.OutcomePermanentFailure)
	}
	s.lost(s.release(stale, r)[0], fencerow.LostFinished, epoch, fencerow.OutcomePermanentFailure)
	s.unchanged(before, s.picture(r))
}

func missingRowIsLost(s *scene) {
	refs := s.fill(2)
	c := s.claimAll(refs...)
	other := s.other()
	foreign := other.fill(1)[0]
	s.world.DeleteEntry(s.key, refs[0].id)
	before, foreignBefore := s.show(refs[1]).Status, other.picture(foreign)
	never := ref{id: refs[1].id + 1_000_000_000}
	for _, r := range []ref{refs[0], foreign, never} {
		for _, o := range loaded(r) {
			s.lost(s.record(c, o)[0], fencerow.LostMissing, 0, "")
		}
		s.lost(s.release(c, r)[0], fencerow.LostMissing, 0, "")
	}
	other.unchanged(foreignBefore, other.picture(foreign))
	if after := s.show(refs[1]).Status; after != before {
		s.Errorf("the other row is %s", after)
	}
	// The claim's other rows are not hurt, and neither is the next claim.
	s.apply(c, retry(refs[1], 0))
	s.world.Advance(lease + tolerance)
	s.claimAll(refs[1])
}

func unknownTokenLosesEverything(s *scene) {
	refs := s.fill(2)
	held := s.one(refs[0])
	before := s.picture(refs...)
	unknown := &fencerow.Claim{Token: fencerow.NewClaimToken()}
	for _, o := range loaded(refs[0]) {
		s.lost(s.record(unknown, o)[0], fencerow.LostReclaimed, held.Epoch, "")
	}
	for _, o := range loaded(refs[1]) {
		s.lost(s.record(unknown, o)[0], fencerow.LostReclaimed, 0, "")
	}
	s.lost(s.release(unknown, refs[0])[0], fencerow.LostReclaimed, held.Epoch, "")
	s.unchanged(before, s.picture(refs...))
}

func anotherClaimsToken(s *scene) {
	refs := s.fill(2)
	a, b := s.one(refs[0]), s.one(refs[1])
	before := s.picture(refs...)
	for _, o := range loaded(refs[1]) {
		s.lost(s.record(a, o)[0], fencerow.LostReclaimed, b.Epoch, "")
	}
	s.lost(s.release(a, refs[1])[0], fencerow.LostReclaimed, b.Epoch, "")
	s.unchanged(before, s.picture(refs...))
}

func lostItemDoesNotHurtTheOthers(s *scene) {
	refs := s.fill(6)
	c := s.claimAll(refs...)
	s.apply(c, outcome(refs[0], fencerow.OutcomeCompleted))
	s.release(c, refs[1])
	s.world.DeleteEntry(s.key, refs[2].id)
	verdicts := s.record(c,
		outcome(refs[5], fencerow.OutcomeDuplicateCompleted), outcome(refs[2], fencerow.OutcomeCompleted),
		retry(refs[4], 0), outcome(refs[0], fencerow.OutcomeCompleted),
		outcome(refs[3], fencerow.OutcomeDeadLettered), retry(refs[1], 0),
	)
	s.applied(verdicts[0])
	s.lost(verdicts[1], fencerow.LostMissing, 0, "")
	s.applied(verdicts[2])
	s.lost(verdicts[3], fencerow.LostFinished, c.Epoch, fencerow.OutcomeCompleted)
	s.applied(verdicts[4])
	s.lost(verdicts[5], fencerow.LostReclaimed, c.Epoch, "")
	for i, want := range map[int]fencerow.Status{
		0: fencerow.StatusCompleted, 1: fencerow.StatusPending, 3: fencerow.StatusDeadLettered,
		4: fencerow.StatusPending, 5: fencerow.StatusCompleted,
	} {
		if got := s.show(refs[i]).Status; got != want {
			s.Errorf("row %d is %s, want %s", i, got, want)
		}
	}
	s.claimAll(refs[1], refs[4])
}

func zombieOfAnEarlierLife(s *scene) {
	refs := []ref{s.put(skipping("a"))[0], s.put(plain("b"))[0]}
	c := s.claimAll(refs...)
	s.apply(c, outcome(refs[0], fencerow.OutcomeDeadLettered))
	s.requeue(refs[0], fencerow.StatusDeadLettered)
	before := s.picture(refs...)
	// The claim still stands for the other row, but it let this one go with its earlier life.
	for _, o := range loaded(refs[0]) {
		s.lost(s.record(c, o)[0], fencerow.LostReclaimed, c.Epoch, "")
	}
	s.lost(s.release(c, refs[0])[0], fencerow.LostReclaimed, c.Epoch, "")
	s.unchanged(before, s.picture(refs...))
	next := s.one(refs[0])
	before = s.picture(refs...)
	for _, o := range loaded(refs[0]) {
		s.lost(s.record(c, o)[0], fencerow.LostReclaimed, next.Epoch, "")
	}
	s.unchanged(before, s.picture(refs...))
	s.apply(next, outcome(refs[0], fencerow.OutcomeCompleted))
}
