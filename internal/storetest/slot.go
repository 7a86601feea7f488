package storetest

import (
	"slices"

	"github.com/shopspring/decimal"

	"github.com/fourblocks2020/fencerow"
)

func slotCases() []testCase {
	return []testCase{
		{"SlotIsShownWithEntriesASnapshotOrAName", slotIsShown},
		{"SlotShowsWhatIsStillOnItsWay", slotShowsWhatIsOnItsWay},
		{"SlotCanBeNamedAgain", slotCanBeNamedAgain},
	}
}

func slotIsShown(s *scene) {
	if slots := s.slots(); len(slots) != 0 {
		s.Errorf("slots %+v of an instance without any", slots)
	}
	s.nameSlot("Zulu", "carry")
	s.put(money("a", "alpha", "1", "EUR"), plain("no-slot"))
	r := s.put(money("b", "Bravo", "1", "EUR"))[0]
	s.apply(s.one(r), booked(r, snapshot("Bravo", "EUR", "1", 1)))
	s.prune(0, 100, 0)
	var ids []fencerow.SlotID
	for _, slot := range s.slots() {
		ids = append(ids, slot.SlotID)
	}
	// In the order of bytes, whatever the collation of the database.
	if want := []fencerow.SlotID{"Bravo", "Zulu", "alpha"}; !slices.Equal(ids, want) {
		s.Errorf("slots %v, want %v", ids, want)
	}
}

// nameSlot names a slot.
func (a *actor) nameSlot(slot fencerow.SlotID, strategy string) {
	a.t.Helper()
	noError(a.t, a.store.NameSlot(a.t.Context(), fencerow.NameSlotParams{
		Instance: a.key, Slot: slot, Strategy: strategy,
	}))
}

func slotShowsWhatIsOnItsWay(s *scene) {
	refs := s.put(skipping("a"), skipping("b"), money("c", "slot-1", "100", "USD"),
		money("d", "slot-2", "7", "EUR"), money("e", "slot-1", "3", "EUR"))
	c := s.claimAll(refs...)
	s.apply(c, outcome(refs[1], fencerow.OutcomeConflictBlocked),
		booked(refs[4], snapshot("slot-1", "EUR", "50", 4)))
	slots := s.slots()
	if len(slots) != 2 {
		s.Fatalf("slots %+v, want two", slots)
	}
	first := slots[0]
	if first.SlotID != "slot-1" || first.OpenSkips != 2 || first.Strategy != "" {
		s.Errorf("slot %+v, want two open skips", first)
	}
	s.sameSums(first.PendingCash, []fencerow.CashDelta{
		{Currency: "EUR", Pending: decimal.New(5, 0), PendingCount: 1, Blocked: decimal.New(5, 0), BlockedCount: 1},
		{Currency: "USD", Pending: decimal.New(100, 0), PendingCount: 1},
	})
	s.slotIs("slot-1", snapshot("slot-1", "EUR", "50", 4))
	s.sameSums(slots[1].PendingCash, []fencerow.CashDelta{
		{Currency: "EUR", Pending: decimal.New(7, 0), PendingCount: 1},
	})
	s.slotIs("slot-2", nil)
}

func slotCanBeNamedAgain(s *scene) {
	s.put(money("a", "slot-1", "1", "EUR"))
	for _, strategy := range []string{"carry", "mean reversion", "carry"} {
		s.nameSlot("slot-1", strategy)
		if slots := s.slots(); len(slots) != 1 || slots[0].Strategy != strategy {
			s.Errorf("slots %+v, want the strategy %s", slots, strategy)
		}
	}
	r := s.refs("a")[0]
	snap := snapshot("slot-1", "EUR", "1", 1)
	s.apply(s.one(r), booked(r, snap))
	if slots := s.slots(); slots[0].Strategy != "carry" {
		s.Errorf("a snapshot changed the strategy to %q", slots[0].Strategy)
	}
	s.nameSlot("slot-1", "other")
	s.slotIs("slot-1", snap)
}
