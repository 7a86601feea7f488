package storetest

import "github.com/fourblocks2020/fencerow"

func skipCases() []testCase {
	return []testCase{
		{"OnlySuccessResolvesASkip", onlySuccessResolvesASkip},
		{"SuccessWithoutSnapshotResolvesItsOwnSkip", successResolvesItsOwnSkip},
		{"SuccessWithoutSlotResolvesItsOwnSkip", successWithoutSlot},
		{"AcceptedSnapshotResolvesTheSlotsFinishedSkips", acceptedSnapshotResolvesTheSlot},
		{"OldSnapshotStillResolvesSkips", oldSnapshotStillResolves},
		{"SkipOfALostItemStaysOpen", skipOfALostItem},
		{"ResolvedSkipStaysAsItWas", resolvedSkipStays},
	}
}

// skipOpen demands that the entry's skip is open, or that it is resolved.
func (a *actor) skipOpen(r ref, open bool) {
	a.t.Helper()
	skip := a.show(r).Skip
	if skip == nil {
		a.t.Fatalf("row %d has no skip", r.id)
	}
	if (skip.ResolvedAt == nil) != open {
		a.t.Fatalf("row %d: skip open %v, want %v", r.id, !open, open)
	}
	if !open && skip.ResolvedAt.Before(skip.OpenedAt) {
		a.t.Fatalf("row %d: skip resolved before it was opened: %+v", r.id, *skip)
	}
}

func onlySuccessResolvesASkip(s *scene) {
	for _, kind := range fencerow.OutcomeKinds() {
		n := skipping(fencerow.CorrelationID(kind))
		n.SlotID = fencerow.SlotID(kind)
		r := s.put(n)[0]
		s.skipOpen(r, true)
		s.apply(s.one(r), outcome(r, kind))
		s.skipOpen(r, !kind.Success())
	}
	// Nor do a release, an expiry or a requeue.
	r := ref{corr: fencerow.CorrelationID(fencerow.OutcomeDeadLettered)}
	r.id = s.show(r).Entry.OutboxID
	s.requeue(r, fencerow.StatusDeadLettered)
	s.skipOpen(r, true)
	s.release(s.one(r), r)
	s.skipOpen(r, true)
	s.one(r)
	s.world.Advance(lease + tolerance)
	c := s.one(r)
	s.skipOpen(r, true)
	s.apply(c, outcome(r, fencerow.OutcomeDuplicateCompleted))
	s.skipOpen(r, false)
}

func successResolvesItsOwnSkip(s *scene) {
	refs := s.put(skipping("a"), skipping("b"), skipping("c"))
	c := s.claimAll(refs...)
	s.apply(c, booked(refs[0], snapshot("slot-2", "EUR", "1", 1)))
	s.skipOpen(refs[0], true)
	s.apply(c, outcome(refs[1], fencerow.OutcomeCompleted))
	for i, open := range []bool{true, false, true} {
		s.skipOpen(refs[i], open)
	}
}

func successWithoutSlot(s *scene) {
	n := plain("a")
	n.OpenSkip = true
	r := s.put(n)[0]
	s.skipOpen(r, true)
	s.apply(s.one(r), outcome(r, fencerow.OutcomeCompleted))
	s.skipOpen(r, false)
	// An entry without a slot has no place for a snapshot, and does not wait for one.
	n.CorrelationID = "b"
	r = s.put(n)[0]
	if v := s.apply(s.one(r), booked(r, snapshot("slot-1", "EUR", "1", 1))); !v[0].SnapshotRejected {
		s.Errorf("a snapshot for an entry without slot is not called refused")
	}
	s.skipOpen(r, false)
	s.slotIs("slot-1", nil)
}

func acceptedSnapshotResolvesTheSlot(s *scene) {
	elsewhere := skipping("elsewhere")
	elsewhere.SlotID = "slot-2"
	refs := s.put(skipping("refused"), skipping("retried"), skipping("parked"), skipping("waiting"), elsewhere,
		skipping("last"), skipping("later"))
	c := s.claimAll(refs...)
	s.apply(c, booked(refs[0], snapshot("nowhere", "EUR", "1", 1)), retry(refs[1], 0),
		outcome(refs[2], fencerow.OutcomeDeadLettered), booked(refs[4], snapshot("nowhere", "EUR", "1", 1)))
	for _, r := range refs {
		s.skipOpen(r, true)
	}
	s.apply(c, booked(refs[5], snapshot("slot-1", "EUR", "1", 1)))
	for i, open := range []bool{false, true, true, true, true, false, true} {
		s.skipOpen(refs[i], open)
	}
	if slots := s.slots(); len(slots) != 2 || slots[0].OpenSkips != 4 || slots[1].OpenSkips != 1 {
		s.Errorf("slots %+v, want 4 and 1 open skips", slots)
	}
	// In one call the snapshot of one resolves the skip of the other, whichever comes first.
	s.apply(c, booked(refs[6], snapshot("nowhere", "EUR", "1", 1)),
		booked(refs[3], snapshot("slot-1", "EUR", "2", 2)))
	s.skipOpen(refs[6], false)
	s.skipOpen(refs[3], false)
}

func oldSnapshotStillResolves(s *scene) {
	refs := s.put(money("newest", "slot-1", "1", "EUR"), skipping("a"))
	c := s.claimAll(refs...)
	newest := snapshot("slot-1", "EUR", "9", 9)
	s.apply(c, booked(refs[0], newest))
	s.apply(c, booked(refs[1], snapshot("slot-1", "EUR", "1", 1)))
	s.skipOpen(refs[1], false)
	s.slotIs("slot-1", newest)
}

func skipOfALostItem(s *scene) {
	slotless := plain("slotless")
	slotless.OpenSkip = true
	refs := s.put(skipping("a"), skipping("b"), slotless)
	c := s.claimAll(refs...)
	s.releaseAll(c, false)
	for _, r := range refs {
		for _, o := range loaded(r) {
			s.lost(s.record(c, o)[0], fencerow.LostReclaimed, c.Epoch, "")
		}
		s.lost(s.record(c, outcome(r, fencerow.OutcomeCompleted))[0], fencerow.LostReclaimed, c.Epoch, "")
		s.skipOpen(r, true)
	}
	s.slotIs("slot-1", nil)
}

func resolvedSkipStays(s *scene) {
	refs := s.put(skipping("a"), skipping("b"))
	c := s.claimAll(refs...)
	s.apply(c, booked(refs[0], snapshot("slot-1", "EUR", "1", 1)))
	before := *s.show(refs[0]).Skip.ResolvedAt
	s.apply(c, booked(refs[1], snapshot("slot-1", "EUR", "2", 2)))
	if after := *s.show(refs[0]).Skip.ResolvedAt; !after.Equal(before) {
		s.Errorf("a skip resolved at %v was resolved again at %v", before, after)
	}
}
