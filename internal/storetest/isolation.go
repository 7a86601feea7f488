package storetest

import (
	"errors"
	"slices"

	"github.com/shopspring/decimal"

	"github.com/fourblocks2020/fencerow"
)

func isolationCases() []testCase {
	return []testCase{
		{"InstanceClaimsItsOwnRowsOnly", instanceClaimsItsOwn},
		{"BulkVerbsLeaveKindsThatOnlyAnotherInstanceHas", kindOfAnother},
		{"TargetedClaimOfAForeignEntryIsRefused", targetedClaimOfForeign},
		{"ForeignExpiredClaimIsNotEnded", foreignExpiredClaim},
		{"ForeignTokenRecordsNothing", foreignTokenRecordsNothing},
		{"InstanceListsItsOwnRowsOnly", instanceListsItsOwn},
		{"InstanceListsItsOwnBlockedOnly", instanceListsItsOwnBlocked},
		{"InstanceSumsItsOwnRowsOnly", instanceSumsItsOwn},
		{"InstanceCountsAndShowsItsOwnOnly", instanceCountsItsOwn},
		{"RequeueOfAForeignEntryIsRefused", requeueOfForeign},
		{"PruneLeavesForeignEntries", pruneLeavesForeign},
		{"HoldConcernsOneInstance", holdConcernsOneInstance},
		{"SlotsOfTwoInstancesAreTwoSlots", slotsOfTwoInstances},
	}
}

// pair returns two workers of different instances with the same entries each.
func (s *scene) pair(entries ...fencerow.NewEntry) (a, b *actor, own, foreign []ref) {
	s.Helper()
	a, b = s.actor, s.other()
	return a, b, a.put(entries...), b.put(entries...)
}

func instanceClaimsItsOwn(s *scene) {
	a, b, own, foreign := s.pair(plain("a"), plain("b"), plain("only-kind-that-one-knows"))
	c := a.claimAll(own...)
	for _, e := range c.Entries {
		if e.Instance != a.key {
			s.Errorf("claimed an entry of %s", e.Instance)
		}
	}
	a.claimAll()
	d := b.claimAll(foreign...)
	a.apply(c, outcome(own[0], fencerow.OutcomeCompleted))
	b.apply(d, outcome(foreign[0], fencerow.OutcomeDeadLettered))
	if is := a.show(own[0]).Status; is != fencerow.StatusCompleted {
		s.Errorf("the own entry is %s", is)
	}
	// A third instance has nothing, however much there is.
	s.other().claimAll()
}

// kindOfAnother tries whatever works on many rows at once: it must be bound by the instance, not by what the
// worker knows.
func kindOfAnother(s *scene) {
	a, b, own := s.actor, s.other(), s.fill(2)
	entries := make([]fencerow.NewEntry, 4)
	for i := range entries {
		entries[i] = plain(b.fresh())
		entries[i].EntryKind = "margin_call"
	}
	foreign := b.put(entries...)
	b.finish(foreign[0], fencerow.OutcomeCompleted)
	b.finish(foreign[1], fencerow.OutcomeDeadLettered)
	held := b.one(foreign[2])
	a.one(own[0])
	s.world.Advance(lease + tolerance)
	before := b.picture(foreign...)
	c := a.claimAll(own...) // both instances have an expired claim
	if verdicts := a.releaseAll(held, true); len(verdicts) != 0 {
		s.Errorf("released %+v of another instance", verdicts)
	}
	if result := a.prune(0, fencerow.MaxBatch, 0); result.Deleted != 0 {
		s.Errorf("pruned %+v of another instance", result)
	}
	must(a.store.Hold(s.Context(), a.key))(s)
	must(a.store.Resume(s.Context(), a.key))(s)
	a.claimAll()
	b.unchanged(before, b.picture(foreign...))
	a.apply(c, outcome(own[0], fencerow.OutcomeCompleted), outcome(own[1], fencerow.OutcomeCompleted))
	b.claimAll(foreign[2], foreign[3])
}

func targetedClaimOfForeign(s *scene) {
	b := s.other()
	r := b.put(plain("a"))[0]
	before := b.picture(r)
	for _, force := range []bool{false, true} {
		s.refused("a", force, fencerow.RefusedForeign)
	}
	b.unchanged(before, b.picture(r))
	b.finish(r, fencerow.OutcomeCompleted)
	s.refused("a", true, fencerow.RefusedForeign)
}

func foreignExpiredClaim(s *scene) {
	a, b, own, foreign := s.pair(plain("a"), plain("b"))
	b.claimAll(foreign...)
	s.world.Advance(lease + tolerance)
	before := b.picture(foreign...)
	a.claimAll(own...)
	a.claimAll()
	b.unchanged(before, b.picture(foreign...))
}

func foreignTokenRecordsNothing(s *scene) {
	a, b, own, foreign := s.pair(skipping("a"), plain("b"))
	c, d := a.claimAll(own...), b.claimAll(foreign...)
	beforeA, beforeB := a.picture(own...), b.picture(foreign...)
	for _, o := range loaded(foreign[0]) {
		a.lost(a.record(c, o)[0], fencerow.LostMissing, 0, "") // own token, foreign row
		a.lost(a.record(d, o)[0], fencerow.LostMissing, 0, "") // foreign token, foreign row
	}
	for _, o := range loaded(own[0]) {
		a.lost(a.record(d, o)[0], fencerow.LostReclaimed, c.Epoch, "") // foreign token, own row
	}
	a.lost(a.release(c, foreign[0])[0], fencerow.LostMissing, 0, "")
	a.lost(a.release(d, foreign[0])[0], fencerow.LostMissing, 0, "")
	a.lost(a.release(d, own[0])[0], fencerow.LostReclaimed, c.Epoch, "")
	if verdicts := a.releaseAll(d, true); len(verdicts) != 0 {
		s.Errorf("a foreign token released %+v", verdicts)
	}
	a.unchanged(beforeA, a.picture(own...))
	b.unchanged(beforeB, b.picture(foreign...))
}

func instanceListsItsOwn(s *scene) {
	a, b, own, foreign := s.pair(plain("a"), plain("b"))
	for _, side := range []struct {
		who  *actor
		refs []ref
	}{{a, own}, {b, foreign}, {s.other(), nil}} {
		var got, want []fencerow.OutboxID
		for _, p := range side.who.list() {
			got = append(got, p.OutboxID)
			if p.Instance != side.who.key {
				s.Errorf("listed an entry of another instance: %+v", p)
			}
		}
		for _, r := range side.refs {
			want = append(want, r.id)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			s.Errorf("listed %v, want %v", got, want)
		}
	}
}

func instanceListsItsOwnBlocked(s *scene) {
	a, b, own, foreign := s.pair(plain("a"), plain("b"))
	a.finish(own[0], fencerow.OutcomeDeadLettered)
	b.finish(foreign[0], fencerow.OutcomeDeadLettered)
	b.finish(foreign[1], fencerow.OutcomeConflictBlocked)
	for _, status := range []fencerow.Status{"", fencerow.StatusDeadLettered} {
		a.blockedAre(status, own[0])
		s.other().blockedAre(status)
	}
	b.blockedAre("", foreign...)
	if got := b.blocked("")[0].Instance; got != b.key {
		s.Errorf("the own entry is listed as one of %s", got)
	}
	// Nor does what another does with an entry of the same correlation id count.
	b.requeue(foreign[0], fencerow.StatusDeadLettered)
	a.blockedAre("", own[0])
	b.blockedAre("", foreign[1])
}

func instanceSumsItsOwn(s *scene) {
	a, b, own, _ := s.pair(money("a", "slot-1", "10", "EUR"), money("b", "slot-1", "1", "EUR"))
	b.put(money("c", "slot-1", "100", "USD"))
	a.finish(own[1], fencerow.OutcomeDeadLettered)
	for _, slot := range []fencerow.SlotID{"", "slot-1"} {
		a.sumsTo(slot, fencerow.CashDelta{
			Currency: "EUR", Pending: decimal.New(10, 0), PendingCount: 1, Blocked: decimal.New(1, 0), BlockedCount: 1,
		})
		b.sumsTo(slot,
			fencerow.CashDelta{Currency: "EUR", Pending: decimal.New(11, 0), PendingCount: 2},
			fencerow.CashDelta{Currency: "USD", Pending: decimal.New(100, 0), PendingCount: 1},
		)
		s.other().sumsTo(slot)
	}
}

func instanceCountsItsOwn(s *scene) {
	a, b, own, _ := s.pair(plain("a"), plain("b"))
	only := b.put(plain("only"))[0]
	b.claimAll(append([]ref{only}, b.refs("a", "b")...)...)
	a.finish(own[0], fencerow.OutcomeCompleted)
	counts := a.counts()
	if counts.ByStatus[fencerow.StatusPending] != 1 || counts.ByStatus[fencerow.StatusCompleted] != 1 ||
		counts.Leased != 0 || counts.Due != 1 {
		s.Errorf("counts %+v of one's own two entries", *counts)
	}
	if leases := a.claims(); len(leases) != 0 {
		s.Errorf("claims of another instance are listed: %+v", leases)
	}
	if state, err := a.tryShow("only"); !errors.Is(err, fencerow.ErrForeignInstance) {
		s.Errorf("show of a foreign entry: got %v, %v", state, err)
	}
	if e := a.show(own[0]).Entry; e.Instance != a.key || e.OutboxID != own[0].id {
		s.Errorf("shown %+v instead of one's own entry", e)
	}
	c := s.other()
	if counts := c.counts(); counts.Due != 0 || counts.Leased != 0 || counts.OldestPending != 0 ||
		counts.ByStatus[fencerow.StatusPending] != 0 {
		s.Errorf("counts %+v of an instance without entries", *counts)
	}
}

// refs finds own entries again by correlation id.
func (a *actor) refs(ids ...fencerow.CorrelationID) []ref {
	a.t.Helper()
	refs := make([]ref, len(ids))
	for i, id := range ids {
		refs[i] = ref{id: a.show(ref{corr: id}).Entry.OutboxID, corr: id}
	}
	return refs
}

func requeueOfForeign(s *scene) {
	b := s.other()
	r := b.put(plain("a"))[0]
	b.finish(r, fencerow.OutcomeDeadLettered)
	before := b.picture(r)
	err := s.tryRequeue(ref{corr: "a"}, fencerow.StatusDeadLettered)
	if !errors.Is(err, fencerow.ErrForeignInstance) {
		s.Errorf("requeue of a foreign entry: got %v", err)
	}
	b.unchanged(before, b.picture(r))
	// Nor does one's own requeue touch the foreign entry of the same correlation id.
	own := s.put(plain("a"))[0]
	s.finish(own, fencerow.OutcomeDeadLettered)
	s.requeue(own, fencerow.StatusDeadLettered)
	b.unchanged(before, b.picture(r))
	s.claimAll(own)
}

func pruneLeavesForeign(s *scene) {
	a, b, own, foreign := s.pair(plain("a"), plain("b"))
	for i := range own {
		a.finish(own[i], fencerow.OutcomeCompleted)
		b.finish(foreign[i], fencerow.OutcomeCompleted)
	}
	before := b.picture(foreign...)
	if result := a.prune(0, 100, 0); result.Deleted != 2 || result.Next != 0 {
		s.Errorf("pruned %+v, want the two own entries", result)
	}
	b.unchanged(before, b.picture(foreign...))
}

func holdConcernsOneInstance(s *scene) {
	_, b, own, foreign := s.pair(plain("a"))
	must(b.store.Hold(s.Context(), b.key))(s)
	c := s.claimAll(own...)
	s.releaseAll(c, false)
	s.one(own[0])
	if _, err := b.tryClaim(1); !errors.Is(err, fencerow.ErrInstanceHeld) {
		s.Errorf("claim on hold: got %v", err)
	}
	if changed := must(s.store.Resume(s.Context(), s.key))(s); changed {
		s.Errorf("a resume of one instance ended the hold of none, but says that it did")
	}
	if _, err := b.tryClaim(1); !errors.Is(err, fencerow.ErrInstanceHeld) {
		s.Errorf("one instance resumed another: got %v", err)
	}
	must(b.store.Resume(s.Context(), b.key))(s)
	b.claimAll(foreign...)
}

func slotsOfTwoInstances(s *scene) {
	a, b, own, foreign := s.pair(skipping("a"))
	noError(s, a.store.NameSlot(s.Context(), fencerow.NameSlotParams{
		Instance: a.key, Slot: "slot-1", Strategy: "carry",
	}))
	before := b.picture(foreign...)
	a.apply(a.one(own[0]), booked(own[0], snapshot("slot-1", "EUR", "7", 3)))
	b.unchanged(before, b.picture(foreign...))
	slots := b.slots()
	if len(slots) != 1 || slots[0].Strategy != "" || slots[0].CashBalance != nil || slots[0].OpenSkips != 1 {
		s.Errorf("slots %+v, want one without a snapshot and with its skip", slots)
	}
	slots = a.slots()
	if len(slots) != 1 || slots[0].Strategy != "carry" || slots[0].CashBalance == nil ||
		slots[0].OpenSkips != 0 {
		s.Errorf("slots %+v, want one with a snapshot and no open skip", slots)
	}
}
