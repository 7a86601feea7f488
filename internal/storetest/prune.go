package storetest

import (
	"errors"
	"time"

	"github.com/fourblocks2020/fencerow"
)

func pruneCases() []testCase {
	return []testCase{
		{"PruneDeletesOldSuccessesOnly", pruneDeletesOldSuccessesOnly},
		{"PruneTakesAllLivesWithTheEntry", pruneTakesAllLives},
		{"PruneLeavesAnOpenSkip", pruneLeavesAnOpenSkip},
		{"PrunedEntryCanBeEnqueuedAgain", prunedEntryCanBeEnqueuedAgain},
		{"PruneWalksInBoundedSteps", pruneWalksInBoundedSteps},
		{"PruneLooksAtABoundedNumberOfLives", pruneLooksAtBoundedLives},
		{"PruneGoesOnAfterTheGivenEntry", pruneGoesOn},
	}
}

func (a *actor) prune(olderThan time.Duration, limit int, after fencerow.OutboxID) fencerow.PruneResult {
	a.t.Helper()
	return must(a.store.Prune(a.t.Context(), fencerow.PruneParams{
		Instance: a.key, OlderThan: olderThan, Limit: limit, After: after,
	}))(a.t)
}

// gone demands that the entry does not exist any more. Worlds may share a database and use the same ids in
// it: then it exists only there.
func (a *actor) gone(r ref) {
	a.t.Helper()
	if state, err := a.tryShow(r.corr); !errors.Is(err, fencerow.ErrNotFound) &&
		!errors.Is(err, fencerow.ErrForeignInstance) {
		a.t.Fatalf("row %d: got %v, %v, want not found", r.id, state, err)
	}
}

func pruneDeletesOldSuccessesOnly(s *scene) {
	old := s.fill(2)
	s.finish(old[0], fencerow.OutcomeCompleted)
	s.finish(old[1], fencerow.OutcomeDuplicateCompleted)
	var kept []ref
	for _, kind := range blockedKinds() {
		r := s.fill(1)[0]
		s.finish(r, kind)
		kept = append(kept, r)
	}
	waiting, leased, requeued := s.fill(1)[0], s.fill(1)[0], s.fill(1)[0]
	s.apply(s.one(waiting), retry(waiting, 24*time.Hour))
	s.finish(requeued, fencerow.OutcomeDeadLettered)
	s.requeue(requeued, fencerow.StatusDeadLettered)
	s.world.Advance(2 * time.Hour)
	s.one(leased)
	young := s.fill(1)[0]
	s.finish(young, fencerow.OutcomeCompleted)
	kept = append(kept, waiting, leased, requeued, young)
	completed := s.counts().ByStatus[fencerow.StatusCompleted]
	if result := s.prune(time.Hour, 100, 0); result != (fencerow.PruneResult{Deleted: 2}) {
		s.Errorf("pruned %+v, want the two old successes and the end", result)
	}
	for _, r := range old {
		s.gone(r)
	}
	if after := s.counts().ByStatus[fencerow.StatusCompleted]; completed != 3 || after != 1 {
		s.Errorf("%d completed entries became %d, want 3 to become 1", completed, after)
	}
	for _, r := range kept {
		s.show(r)
	}
	if result := s.prune(time.Hour, 100, 0); result != (fencerow.PruneResult{}) {
		s.Errorf("pruned %+v again", result)
	}
	if result := s.prune(0, 100, 0); result.Deleted != 1 {
		s.Errorf("pruned %+v, want the young success, which is older than nothing", result)
	}
}

func pruneTakesAllLives(s *scene) {
	r := s.put(skipping("a"))[0]
	for range 3 {
		s.finish(r, fencerow.OutcomeDeadLettered)
		s.requeue(r, fencerow.StatusDeadLettered)
	}
	if result := s.prune(0, 100, 0); result.Deleted != 0 {
		s.Errorf("pruned an entry that is pending in its fourth life")
	}
	s.finish(r, fencerow.OutcomeCompleted)
	if result := s.prune(0, 100, 0); result != (fencerow.PruneResult{Deleted: 1}) {
		s.Errorf("pruned %+v, want one entry", result)
	}
	s.gone(r)
	if slots := s.slots(); len(slots) != 1 || slots[0].OpenSkips != 0 || len(slots[0].PendingCash) != 0 ||
		slots[0].CashBalance != nil {
		s.Errorf("slots %+v, want the slot that was seen, and nothing on its way", slots)
	}
	// Nothing of it comes back with the next entry of that name.
	again := s.put(skipping("a"))[0]
	state := s.show(again)
	if again.id == r.id || len(state.Outcomes) != 0 || state.Pending.Life != 1 || state.Skip == nil ||
		state.Skip.ResolvedAt != nil {
		s.Errorf("the next entry of the same name is %+v", *state)
	}
}

func pruneLeavesAnOpenSkip(s *scene) {
	r := s.put(skipping("a"))[0]
	s.apply(s.one(r), booked(r, snapshot("elsewhere", "EUR", "1", 1)))
	before := s.picture(r)
	if result := s.prune(0, 100, 0); result.Deleted != 0 {
		s.Errorf("pruned an entry whose skip is open")
	}
	s.unchanged(before, s.picture(r))
	next := s.put(money("b", "slot-1", "1", "EUR"))[0]
	s.apply(s.one(next), booked(next, snapshot("slot-1", "EUR", "1", 1)))
	if result := s.prune(0, 100, 0); result.Deleted != 2 {
		s.Errorf("pruned %+v, want both, now that the skip is resolved", result)
	}
	s.gone(r)
}

func prunedEntryCanBeEnqueuedAgain(s *scene) {
	r := s.put(plain("a"))[0]
	s.finish(r, fencerow.OutcomeCompleted)
	s.prune(0, 1, 0)
	other := plain("a")
	other.EntryKind = "fee"
	s.claimAll(s.put(other)...)
}

func pruneWalksInBoundedSteps(s *scene) {
	const n = 25
	refs := s.fill(n)
	c := s.claimAll(refs...)
	for i, r := range refs {
		kind := fencerow.OutcomeCompleted
		if i%5 == 0 {
			kind = fencerow.OutcomeDeadLettered
		}
		s.apply(c, outcome(r, kind))
	}
	deleted, calls := 0, 0
	var after fencerow.OutboxID
	for {
		result := s.prune(0, 3, after)
		deleted += result.Deleted
		if calls++; result.Deleted > 3 || calls > n || result.Next != 0 && result.Next <= after {
			s.Fatalf("call %d after %d: %+v", calls, after, result)
		}
		if result.Next == 0 {
			break
		}
		after = result.Next
	}
	if deleted != 20 {
		s.Errorf("pruned %d entries in all, want 20", deleted)
	}
	if left := s.counts().ByStatus; left[fencerow.StatusCompleted] != 0 ||
		left[fencerow.StatusDeadLettered] != 5 {
		s.Errorf("left %v, want the blocked ones", left)
	}
}

func pruneLooksAtBoundedLives(s *scene) {
	blocked := s.fill(12)
	c := s.claimAll(blocked...)
	for _, r := range blocked {
		s.apply(c, outcome(r, fencerow.OutcomeDeadLettered))
	}
	success := s.fill(1)[0]
	s.finish(success, fencerow.OutcomeCompleted)
	// Ten lives for each row that may be deleted: the success is the thirteenth.
	first := s.prune(0, 1, 0)
	if first != (fencerow.PruneResult{Next: blocked[9].id}) {
		s.Errorf("pruned %+v, want nothing yet and to go on after row %d", first, blocked[9].id)
	}
	if second := s.prune(0, 1, first.Next); second != (fencerow.PruneResult{Deleted: 1, Next: success.id}) {
		s.Errorf("pruned %+v, want one and to go on after row %d", second, success.id)
	}
	if third := s.prune(0, 1, success.id); third != (fencerow.PruneResult{}) {
		s.Errorf("pruned %+v, want the end", third)
	}
	// An entry of many lives is looked at whole, however many they are.
	many := s.fill(1)[0]
	for range 11 {
		s.finish(many, fencerow.OutcomeDeadLettered)
		s.requeue(many, fencerow.StatusDeadLettered)
	}
	s.finish(many, fencerow.OutcomeCompleted)
	if result := s.prune(0, 1, success.id); result.Deleted != 1 {
		s.Errorf("pruned %+v, want the entry of twelve lives", result)
	}
}

func pruneGoesOn(s *scene) {
	refs := s.fill(3)
	for _, r := range refs {
		s.finish(r, fencerow.OutcomeCompleted)
	}
	if result := s.prune(0, 100, refs[1].id); result != (fencerow.PruneResult{Deleted: 1}) {
		s.Errorf("pruned %+v, want the last row only", result)
	}
	s.gone(refs[2])
	s.show(refs[0])
	s.show(refs[1])
}
