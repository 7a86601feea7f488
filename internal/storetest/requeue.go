package storetest

import (
	"bytes"
	"errors"

	"github.com/fourblocks2020/fencerow"
)

func requeueCases() []testCase {
	return []testCase{
		{"RequeuedEntryBeginsItsNextLife", requeuedEntryBeginsItsNextLife},
		{"RequeueFromAnotherStatusChangesNothing", requeueFromAnotherStatus},
		{"SecondRequeueSaysWhyNothingWasDone", secondRequeue},
		{"RequeuedEntryCanBeParkedAgain", requeuedEntryCanBeParkedAgain},
		{"RequeueOfNothingIsNotFound", requeueOfNothing},
		{"RequeueConcernsOneEntry", requeueConcernsOneEntry},
	}
}

func blockedKinds() []fencerow.OutcomeKind {
	return []fencerow.OutcomeKind{
		fencerow.OutcomeConflictBlocked, fencerow.OutcomePermanentFailure, fencerow.OutcomeDeadLettered,
	}
}

// wrongStatus demands that a requeue is refused since the entry is in another status.
func (a *actor) wrongStatus(r ref, from, is fencerow.Status) {
	a.t.Helper()
	err := a.tryRequeue(r, from)
	wrong, ok := errors.AsType[*fencerow.WrongStatusError](err)
	if !ok || !errors.Is(err, fencerow.ErrWrongStatus) || wrong.Status != is {
		a.t.Fatalf("requeue from %s: got %v, want that the entry is %s", from, err, is)
	}
}

func requeuedEntryBeginsItsNextLife(s *scene) {
	for _, kind := range blockedKinds() {
		r := s.put(money(fencerow.CorrelationID(kind), "slot-1", "2", "EUR"))[0]
		s.one(r)
		s.world.Advance(lease + tolerance)
		s.apply(s.one(r), retry(r, 0))
		s.finish(r, kind)
		before := s.show(r)
		s.requeue(r, kind.Status())
		after := s.show(r)
		p := after.Pending
		if after.Status != fencerow.StatusPending || p == nil || after.Lease != nil {
			s.Fatalf("%s: the entry is %+v, want pending", kind, *after)
		}
		if p.Life != 2 || p.Attempts != 0 || !p.Uncertain || !p.Due || p.ExpiryCount != 0 || p.LastOutcome != "" ||
			p.LastReason != "" {
			s.Errorf("%s: pending %+v is not that of a fresh life", kind, *p)
		}
		if len(after.Outcomes) != 1 || after.Outcomes[0] != before.Outcomes[0] {
			s.Errorf("%s: the audit trail %+v became %+v", kind, before.Outcomes, after.Outcomes)
		}
		if after.Entry.CorrelationID != before.Entry.CorrelationID || !bytes.Equal(
			after.Entry.AppendDocument(nil), before.Entry.AppendDocument(nil)) {
			s.Errorf("%s: the entry %+v became %+v", kind, before.Entry, after.Entry)
		}
		c := s.claimAll(r)
		if e := c.Entries[0]; e.Attempt != 1 || e.Life != 2 || !e.Uncertain || e.Reclaimed || e.LastReason != "" {
			s.Errorf("%s: claimed %+v, want the first attempt of the second life", kind, e)
		}
		rises(s, before.Outcomes[0].Epoch, c.Epoch)
		s.apply(c, outcome(r, fencerow.OutcomeCompleted))
	}
}

func requeueFromAnotherStatus(s *scene) {
	pending, leased := s.fill(1)[0], s.fill(1)[0]
	s.one(leased)
	refs := []ref{pending, leased}
	is := []fencerow.Status{fencerow.StatusPending, fencerow.StatusPending}
	for _, kind := range fencerow.OutcomeKinds() {
		if kind.Terminal() {
			r := s.put(plain(fencerow.CorrelationID(kind)))[0]
			s.finish(r, kind)
			refs, is = append(refs, r), append(is, kind.Status())
		}
	}
	before := s.picture(refs...)
	for i, r := range refs {
		for _, kind := range blockedKinds() {
			if from := kind.Status(); from != is[i] {
				s.wrongStatus(r, from, is[i])
			}
		}
	}
	s.unchanged(before, s.picture(refs...))
}

func secondRequeue(s *scene) {
	r := s.fill(1)[0]
	s.finish(r, fencerow.OutcomeDeadLettered)
	s.requeue(r, fencerow.StatusDeadLettered)
	before := s.picture(r)
	s.wrongStatus(r, fencerow.StatusDeadLettered, fencerow.StatusPending)
	s.unchanged(before, s.picture(r))
	s.finish(r, fencerow.OutcomeDuplicateCompleted)
	s.wrongStatus(r, fencerow.StatusDeadLettered, fencerow.StatusCompleted)
}

func requeuedEntryCanBeParkedAgain(s *scene) {
	r := s.fill(1)[0]
	kinds := append(blockedKinds(), fencerow.OutcomeCompleted)
	var epochs []fencerow.ClaimEpoch
	for i, kind := range kinds {
		s.apply(s.one(r), retry(r, 0))
		epochs = append(epochs, s.finish(r, kind))
		outcomes := s.show(r).Outcomes
		if len(outcomes) != i+1 {
			s.Fatalf("%d lives recorded, want %d", len(outcomes), i+1)
		}
		for j, o := range outcomes {
			if o.Life != j+1 || o.Outcome != kinds[j] || o.Attempts != 2 || o.Epoch != epochs[j] {
				s.Errorf("life %d is recorded as %+v", j+1, o)
			}
		}
		if kind.Status().Blocked() {
			s.requeue(r, kind.Status())
		}
	}
	rises(s, epochs...)
}

func requeueOfNothing(s *scene) {
	err := s.tryRequeue(ref{corr: "nobody-has-this"}, fencerow.StatusDeadLettered)
	if !errors.Is(err, fencerow.ErrNotFound) {
		s.Errorf("got %v, want not found", err)
	}
}

func requeueConcernsOneEntry(s *scene) {
	refs := s.fill(3)
	for _, r := range refs {
		s.finish(r, fencerow.OutcomeDeadLettered)
	}
	before := s.picture(refs[0], refs[2])
	s.requeue(refs[1], fencerow.StatusDeadLettered)
	s.apply(s.claimAll(refs[1]), outcome(refs[1], fencerow.OutcomeDeadLettered))
	s.unchanged(before, s.picture(refs[0], refs[2]))
}
