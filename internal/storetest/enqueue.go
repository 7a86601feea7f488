package storetest

import (
	"fmt"
	"strings"

	"github.com/shopspring/decimal"

	"github.com/fourblocks2020/fencerow"
)

func enqueueCases() []testCase {
	return []testCase{
		{"EnqueuedEntryIsPendingAndDue", enqueuedEntryIsPendingAndDue},
		{"EqualContentIsADuplicateAndChangesNothing", equalContentIsADuplicate},
		{"OtherContentIsAConflictAndChangesNothing", otherContentIsAConflict},
		{"OneCallMayRepeatAnEntry", oneCallMayRepeatAnEntry},
		{"RepeatedCallIsAllDuplicates", repeatedCallIsAllDuplicates},
		{"FinishedEntryIsStillADuplicate", finishedEntryIsStillADuplicate},
		{"BadEntryRefusesTheWholeCall", badEntryRefusesTheWholeCall},
		{"EnqueueOfNothingDoesNothing", enqueueOfNothing},
		{"OneCallTakesTheLargestBatch", oneCallTakesTheLargestBatch},
	}
}

func enqueuedEntryIsPendingAndDue(s *scene) {
	n := money("a", "slot-1", "-12.50", "EUR")
	n.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	n.OpenSkip = true
	r := s.put(n)[0]
	if r.id < 1 {
		s.Fatalf("outbox id %d", r.id)
	}
	state := s.show(r)
	e := state.Entry
	if e.OutboxID != r.id || e.Instance != s.key || !e.SameContent(&n) || e.TraceParent != n.TraceParent ||
		e.EnqueuedAt.IsZero() {
		s.Errorf("entry %+v is not what was enqueued", e)
	}
	p := s.pending(r)
	if !p.Due || p.Attempts != 0 || p.Life != 1 || p.Uncertain || p.ExpiryCount != 0 || p.LastOutcome != "" ||
		p.LastReason != "" {
		s.Errorf("pending %+v is not that of a fresh entry", *p)
	}
	if state.Lease != nil || len(state.Outcomes) != 0 {
		s.Errorf("a fresh entry has a lease %v or outcomes %v", state.Lease, state.Outcomes)
	}
	if state.Skip == nil || state.Skip.ResolvedAt != nil || state.Skip.OpenedAt.IsZero() {
		s.Errorf("skip %+v is not open", state.Skip)
	}
	if other := s.put(plain("b"))[0]; other.id == r.id || s.show(other).Skip != nil {
		s.Errorf("a second entry has the first one's id, or a skip that nobody opened")
	}
}

func equalContentIsADuplicate(s *scene) {
	n := money("a", "slot-1", "1.5", "EUR")
	r := s.put(n)[0]
	before := s.picture(r)
	again := n
	again.CashDelta = decimal.RequireFromString("1.500")
	again.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	again.OpenSkip = true
	for _, same := range []fencerow.NewEntry{n, again} {
		got := must(s.enqueue(same))(s)
		if got[0] != (fencerow.Enqueued{Result: fencerow.EnqueueDuplicate, OutboxID: r.id}) {
			s.Fatalf("got %+v, want a duplicate of %d", got[0], r.id)
		}
	}
	s.unchanged(before, s.picture(r))
}

func otherContentIsAConflict(s *scene) {
	n := money("a", "slot-1", "1.5", "EUR")
	r := s.put(n)[0]
	before := s.picture(r)
	for name, change := range map[string]func(*fencerow.NewEntry){
		"kind":             func(n *fencerow.NewEntry) { n.EntryKind = "fee" },
		"slot":             func(n *fencerow.NewEntry) { n.SlotID = "slot-2" },
		"no slot":          func(n *fencerow.NewEntry) { n.SlotID = "" },
		"delta":            func(n *fencerow.NewEntry) { n.CashDelta = decimal.RequireFromString("1.51") },
		"currency":         func(n *fencerow.NewEntry) { n.Currency = "USD" },
		"payload":          func(n *fencerow.NewEntry) { n.Payload = []byte(`{"n":2}`) },
		"payload by space": func(n *fencerow.NewEntry) { n.Payload = []byte(`{"n": 1}`) },
	} {
		changed := n
		change(&changed)
		got := must(s.enqueue(changed))(s)
		if got[0] != (fencerow.Enqueued{Result: fencerow.EnqueueConflict, OutboxID: r.id}) {
			s.Errorf("other %s: got %+v, want a conflict with %d", name, got[0], r.id)
		}
	}
	s.unchanged(before, s.picture(r))
}

func oneCallMayRepeatAnEntry(s *scene) {
	first := s.put(plain("first"))[0]
	other := plain("a")
	other.EntryKind = "fee"
	got := must(s.enqueue(plain("a"), plain("b"), plain("a"), other, plain("first"), plain("c")))(s)
	want := []fencerow.Enqueued{
		{Result: fencerow.EnqueueInserted, OutboxID: got[0].OutboxID},
		{Result: fencerow.EnqueueInserted, OutboxID: got[1].OutboxID},
		{Result: fencerow.EnqueueDuplicate, OutboxID: got[0].OutboxID},
		{Result: fencerow.EnqueueConflict, OutboxID: got[0].OutboxID},
		{Result: fencerow.EnqueueDuplicate, OutboxID: first.id},
		{Result: fencerow.EnqueueInserted, OutboxID: got[5].OutboxID},
	}
	for i := range want {
		if got[i] != want[i] {
			s.Errorf("entry %d: got %+v, want %+v", i, got[i], want[i])
		}
	}
	s.claimAll(first, ref{id: got[0].OutboxID}, ref{id: got[1].OutboxID}, ref{id: got[5].OutboxID})
	if kind := s.show(ref{corr: "a"}).Entry.EntryKind; kind != "fill" {
		s.Errorf("the conflict overwrote the first entry's kind with %s", kind)
	}
}

func repeatedCallIsAllDuplicates(s *scene) {
	entries := []fencerow.NewEntry{plain("a"), plain("b"), plain("c")}
	refs := s.put(entries...)
	for i, got := range must(s.enqueue(entries...))(s) {
		if got != (fencerow.Enqueued{Result: fencerow.EnqueueDuplicate, OutboxID: refs[i].id}) {
			s.Errorf("entry %d: got %+v, want a duplicate of %d", i, got, refs[i].id)
		}
	}
	s.claimAll(refs...)
}

func finishedEntryIsStillADuplicate(s *scene) {
	r := s.put(plain("a"))[0]
	s.finish(r, fencerow.OutcomeCompleted)
	if got := must(s.enqueue(plain("a")))(s)[0]; got.Result != fencerow.EnqueueDuplicate ||
		got.OutboxID != r.id {
		s.Errorf("got %+v, want a duplicate of %d", got, r.id)
	}
	s.claimAll()
}

func badEntryRefusesTheWholeCall(s *scene) {
	bad := plain("b")
	bad.EntryKind = "Not a kind"
	got, err := s.enqueue(plain("a"), bad, plain("c"))
	s.badInput("enqueue", got, err)
	s.claimAll()
	if total := s.counts().ByStatus[fencerow.StatusPending]; total != 0 {
		s.Errorf("%d entries were written", total)
	}
}

func enqueueOfNothing(s *scene) {
	if got := must(s.enqueue())(s); len(got) != 0 {
		s.Errorf("got %v for no entries", got)
	}
}

func oneCallTakesTheLargestBatch(s *scene) {
	entries := make([]fencerow.NewEntry, fencerow.MaxEnqueue+1)
	for i := range entries {
		entries[i] = plain(fencerow.CorrelationID(fmt.Sprintf("%s-%d", strings.Repeat("x", 20), i)))
	}
	got, err := s.enqueue(entries...)
	s.badInput("enqueue of too many", got, err)
	s.put(entries[:fencerow.MaxEnqueue]...)
	if total := s.counts().ByStatus[fencerow.StatusPending]; total != fencerow.MaxEnqueue {
		s.Errorf("%d entries were written, want %d", total, fencerow.MaxEnqueue)
	}
	if c := s.claim(fencerow.MaxBatch); len(c.Entries) != fencerow.MaxBatch || !c.More {
		s.Errorf("the largest claim holds %d rows, more %v", len(c.Entries), c.More)
	}
}
