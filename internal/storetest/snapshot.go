package storetest

import (
	"math"

	"github.com/shopspring/decimal"

	"github.com/fourblocks2020/fencerow"
)

func snapshotCases() []testCase {
	return []testCase{
		{"SnapshotLandsWithItsSuccess", snapshotLands},
		{"OlderSnapshotIsNotWritten", olderSnapshotIsNotWritten},
		{"NewestSnapshotOfACallWins", newestSnapshotOfACallWins},
		{"RefusedSnapshotIsDroppedAndTheOutcomeStands", refusedSnapshotIsDropped},
		{"EntryWithoutCurrencyTakesAnySnapshot", entryWithoutCurrency},
		{"SnapshotOfALostItemIsNotWritten", snapshotOfALostItem},
		{"SnapshotAtTheBoundsIsWritten", snapshotAtTheBounds},
	}
}

// booked returns a success with a snapshot.
func booked(r ref, snap *fencerow.Snapshot) fencerow.Outcome {
	return with(outcome(r, fencerow.OutcomeCompleted), func(o *fencerow.Outcome) { o.Snapshot = snap })
}

// slotIs demands that the instance's slot has the snapshot; nil for none.
func (a *actor) slotIs(id fencerow.SlotID, want *fencerow.Snapshot) {
	a.t.Helper()
	for _, slot := range a.slots() {
		if slot.SlotID != id {
			continue
		}
		if want == nil {
			if slot.Currency != "" || slot.CashBalance != nil || slot.LedgerVersion != nil || slot.UpdatedAt != nil {
				a.t.Fatalf("slot %s has a snapshot", slot.SlotID) // not which: it may take for ever to write down
			}
			return
		}
		if slot.CashBalance == nil || slot.LedgerVersion == nil || slot.UpdatedAt == nil {
			a.t.Fatalf("slot %+v has no snapshot, want %+v", slot, *want)
		}
		if slot.Currency != want.Currency || *slot.LedgerVersion != want.Version ||
			!slot.CashBalance.Equal(want.CashBalance) {
			a.t.Fatalf("slot %+v has balance %s of version %d, want %+v", slot, slot.CashBalance, *slot.LedgerVersion,
				*want)
		}
		return
	}
	if want != nil {
		a.t.Fatalf("there is no slot %s", id)
	}
}

// slotted enqueues n entries of slot-1 and claims them.
func (s *scene) slotted(n int) ([]ref, *fencerow.Claim) {
	s.Helper()
	var refs []ref
	for range n {
		refs = append(refs, s.put(money(s.fresh(), "slot-1", "1", "EUR"))...)
	}
	return refs, s.claimAll(refs...)
}

func snapshotLands(s *scene) {
	refs, c := s.slotted(3)
	s.slotIs("slot-1", nil)
	first := snapshot("slot-1", "EUR", "-1234.5600", 0)
	s.apply(c, booked(refs[0], first))
	s.slotIs("slot-1", first)
	for _, slot := range s.slots() {
		if got := slot.CashBalance.String(); got != "-1234.56" {
			s.Errorf("balance %s, want -1234.56", got)
		}
		if slot.UpdatedAt.Before(c.ClaimedAt) {
			s.Errorf("the snapshot is older than the claim")
		}
	}
	second := snapshot("slot-1", "EUR", "0", 1)
	o := booked(refs[1], second)
	o.Kind = fencerow.OutcomeDuplicateCompleted
	s.apply(c, o)
	s.slotIs("slot-1", second)
	s.apply(c, outcome(refs[2], fencerow.OutcomeCompleted))
	s.slotIs("slot-1", second)
}

func olderSnapshotIsNotWritten(s *scene) {
	refs, c := s.slotted(3)
	newest := snapshot("slot-1", "EUR", "5", 10)
	s.apply(c, booked(refs[0], newest))
	for i, version := range []int64{10, 9} {
		v := s.apply(c, booked(refs[i+1], snapshot("slot-1", "EUR", "4", version)))
		if v[0].SnapshotRejected {
			s.Errorf("a snapshot of version %d is called refused; it is only not news", version)
		}
		s.slotIs("slot-1", newest)
	}
}

func newestSnapshotOfACallWins(s *scene) {
	refs, c := s.slotted(3)
	other := s.put(money("other", "slot-2", "1", "EUR"))[0]
	d := s.one(other)
	newest := snapshot("slot-1", "EUR", "30", 3)
	s.apply(c,
		booked(refs[0], snapshot("slot-1", "EUR", "20", 2)), booked(refs[1], newest),
		booked(refs[2], snapshot("slot-1", "EUR", "10", 1)),
	)
	s.slotIs("slot-1", newest)
	elsewhere := snapshot("slot-2", "EUR", "1", 1)
	s.apply(d, booked(other, elsewhere))
	s.slotIs("slot-1", newest)
	s.slotIs("slot-2", elsewhere)
}

func refusedSnapshotIsDropped(s *scene) {
	enormous := snapshot("slot-1", "EUR", "1", 5)
	enormous.CashBalance = decimal.New(1, math.MaxInt32)
	minute := snapshot("slot-1", "EUR", "1", 5)
	minute.CashBalance = decimal.New(1, math.MinInt32)
	for what, refused := range map[string]*fencerow.Snapshot{
		"of another slot":     snapshot("slot-2", "EUR", "1", 5),
		"of no slot":          snapshot("", "EUR", "1", 5),
		"in another currency": snapshot("slot-1", "USD", "1", 5),
		"in no currency":      snapshot("slot-1", "", "1", 5),
		"in text":             snapshot("slot-1", "it's money \x00", "1", 5),
		"before the first":    snapshot("slot-1", "EUR", "1", -1),
		"too large":           enormous,
		"too fine":            minute,
		"of 39 digits":        snapshot("slot-1", "EUR", "123456789012345678901234567890123456789", 5),
		"empty":               {},
	} {
		r := s.put(skipping(s.fresh()))[0]
		v := s.apply(s.one(r), booked(r, refused))
		if !v[0].SnapshotRejected {
			s.Errorf("a snapshot %s is not called refused", what)
		}
		state := s.show(r)
		if state.Status != fencerow.StatusCompleted || state.Skip == nil || state.Skip.ResolvedAt != nil {
			s.Errorf("a snapshot %s: the entry is %+v, want a success and an open skip", what, *state)
		}
		s.slotIs("slot-1", nil)
		s.slotIs("slot-2", nil)
	}
	// The neighbours of a refused snapshot get theirs.
	refs, c := s.slotted(2)
	good := snapshot("slot-1", "EUR", "8", 1)
	v := s.apply(c, booked(refs[0], snapshot("slot-2", "EUR", "9", 9)), booked(refs[1], good))
	if !v[0].SnapshotRejected || v[1].SnapshotRejected {
		s.Errorf("verdicts %+v, want the first snapshot refused only", v)
	}
	s.slotIs("slot-1", good)
}

func entryWithoutCurrency(s *scene) {
	n := plain("a")
	n.SlotID = "slot-1"
	r := s.put(n)[0]
	snap := snapshot("slot-1", "USD", "3", 1)
	if v := s.apply(s.one(r), booked(r, snap)); v[0].SnapshotRejected {
		s.Errorf("a snapshot was refused for a currency of which the entry says nothing")
	}
	s.slotIs("slot-1", snap)
	// The newest one decides the currency, too.
	r = s.put(money("b", "slot-1", "1", "EUR"))[0]
	snap = snapshot("slot-1", "EUR", "4", 2)
	s.apply(s.one(r), booked(r, snap))
	s.slotIs("slot-1", snap)
}

func snapshotOfALostItem(s *scene) {
	refs, c := s.slotted(2)
	s.release(c, refs[0])
	good := snapshot("slot-1", "EUR", "8", 1)
	verdicts := s.record(c, booked(refs[0], snapshot("slot-1", "EUR", "666", 99)), booked(refs[1], good))
	s.lost(verdicts[0], fencerow.LostReclaimed, c.Epoch, "")
	s.applied(verdicts[1])
	s.slotIs("slot-1", good)
}

func snapshotAtTheBounds(s *scene) {
	refs, c := s.slotted(2)
	for i, balance := range []string{
		"-99999999999999999999.999999999999999999", "99999999999999999999999999999999999999",
	} {
		snap := snapshot("slot-1", "EUR", balance, fencerow.MaxLedgerVersion-1+int64(i))
		if v := s.apply(c, booked(refs[i], snap)); v[0].SnapshotRejected {
			s.Errorf("a snapshot with balance %s was refused", balance)
		}
		s.slotIs("slot-1", snap)
	}
}
