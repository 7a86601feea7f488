package storetest

import (
	"slices"
	"time"

	"github.com/fourblocks2020/fencerow"
)

func blockedCases() []testCase {
	return []testCase{
		{"BlockedListHoldsWhatIsBlockedNow", blockedListHoldsWhatIsBlocked},
		{"BlockedListTellsHowAnEntryEnded", blockedListTellsHowItEnded},
		{"BlockedListTakesOneStatus", blockedListTakesOneStatus},
		{"BlockedListPagesByID", blockedListPages},
	}
}

func (a *actor) blockedPage(
	status fencerow.Status, limit int, after fencerow.OutboxID,
) []fencerow.BlockedEntry {
	a.t.Helper()
	listed, err := a.store.ListBlocked(a.t.Context(), fencerow.ListBlockedParams{
		Instance: a.key, Status: status, Limit: limit, After: after,
	})
	return must(listed, err)(a.t)
}

// blocked lists all, of one status or, if it is empty, of any.
func (a *actor) blocked(status fencerow.Status) []fencerow.BlockedEntry {
	a.t.Helper()
	return a.blockedPage(status, fencerow.MaxPage, 0)
}

func blockedIDs(listed []fencerow.BlockedEntry) []fencerow.OutboxID {
	ids := make([]fencerow.OutboxID, len(listed))
	for i := range listed {
		ids[i] = listed[i].OutboxID
	}
	return ids
}

// blockedAre demands that exactly these rows are listed, in this order.
func (a *actor) blockedAre(status fencerow.Status, want ...ref) {
	a.t.Helper()
	ids := make([]fencerow.OutboxID, len(want))
	for i, r := range want {
		ids[i] = r.id
	}
	if got := blockedIDs(a.blocked(status)); !slices.Equal(got, ids) {
		a.t.Fatalf("blocked rows %v of status %q, want %v", got, status, ids)
	}
}

func blockedListHoldsWhatIsBlocked(s *scene) {
	s.blockedAre("")
	refs := s.fill(6)
	leased, completed, waiting, a, b := refs[1], refs[2], refs[3], refs[4], refs[5]
	s.one(leased)
	s.finish(completed, fencerow.OutcomeCompleted)
	s.apply(s.one(waiting), retry(waiting, time.Hour))
	s.blockedAre("")
	s.finish(b, fencerow.OutcomePermanentFailure)
	s.finish(a, fencerow.OutcomeDeadLettered)
	s.blockedAre("", a, b)
	// Pending again, it is not blocked, under a claim or not; after that what its latest life says counts.
	s.requeue(a, fencerow.StatusDeadLettered)
	s.blockedAre("", b)
	c := s.one(a)
	s.blockedAre("", b)
	s.apply(c, outcome(a, fencerow.OutcomeConflictBlocked))
	s.blockedAre("", a, b)
	s.requeue(a, fencerow.StatusConflictBlocked)
	s.finish(a, fencerow.OutcomeDuplicateCompleted)
	s.blockedAre("", b)
}

func blockedListTellsHowItEnded(s *scene) {
	n := money("a", "slot-1", "-2.5", "EUR")
	n.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	n.Payload = []byte(`{"secret": 1}`)
	r := s.put(n)[0]
	s.finish(r, fencerow.OutcomeDeadLettered)
	s.requeue(r, fencerow.StatusDeadLettered)
	conflict := outcome(r, fencerow.OutcomeConflictBlocked)
	conflict.Reason, conflict.LedgerRef = fencerow.ReasonContentConflict, "bk-1"
	epoch := s.one(r)
	s.apply(epoch, conflict)
	listed := s.blocked("")
	if len(listed) != 1 {
		s.Fatalf("%d rows are listed, want the one that is blocked, once", len(listed))
	}
	got := listed[0]
	if got.OutboxID != r.id || got.Instance != s.key || got.CorrelationID != "a" || got.EntryKind != "fill" ||
		got.SlotID != "slot-1" || !got.CashDelta.Equal(n.CashDelta) || got.Currency != "EUR" ||
		got.TraceParent != n.TraceParent || !got.EnqueuedAt.Equal(s.show(r).Entry.EnqueuedAt) {
		s.Errorf("listed %+v, want the entry", got.Entry)
	}
	if len(got.Payload) != 0 {
		s.Errorf("the list holds a payload")
	}
	if lives := s.show(r).Outcomes; got.FinishedLife != lives[1] || got.Life != 2 ||
		got.Status != fencerow.StatusConflictBlocked || got.Reason != fencerow.ReasonContentConflict ||
		got.LedgerRef != "bk-1" || got.Epoch != epoch.Epoch || got.Attempts != 1 {
		s.Errorf("listed %+v, want the second life %+v", got.FinishedLife, lives[1])
	}
}

func blockedListTakesOneStatus(s *scene) {
	refs := s.fill(4)
	s.finish(refs[0], fencerow.OutcomeConflictBlocked)
	s.finish(refs[1], fencerow.OutcomePermanentFailure)
	s.finish(refs[2], fencerow.OutcomeDeadLettered)
	s.finish(refs[3], fencerow.OutcomeConflictBlocked)
	s.blockedAre("", refs...)
	s.blockedAre(fencerow.StatusConflictBlocked, refs[0], refs[3])
	s.blockedAre(fencerow.StatusPermanentFailure, refs[1])
	s.blockedAre(fencerow.StatusDeadLettered, refs[2])
	// What an earlier life was blocked with does not count.
	s.requeue(refs[2], fencerow.StatusDeadLettered)
	s.finish(refs[2], fencerow.OutcomePermanentFailure)
	s.blockedAre(fencerow.StatusDeadLettered)
	s.blockedAre(fencerow.StatusPermanentFailure, refs[1], refs[2])
}

func blockedListPages(s *scene) {
	refs := s.fill(7)
	for _, r := range refs {
		s.finish(r, fencerow.OutcomeDeadLettered)
	}
	for _, size := range []int{1, 3, 7, 8} {
		var paged []fencerow.OutboxID
		var after fencerow.OutboxID
		for {
			page := s.blockedPage("", size, after)
			if len(page) == 0 {
				break
			}
			if len(page) > size {
				s.Fatalf("a page of %d rows, want %d at most", len(page), size)
			}
			paged = append(paged, blockedIDs(page)...)
			after = page[len(page)-1].OutboxID
		}
		if !slices.Equal(paged, blockedIDs(s.blocked(""))) || len(paged) != len(refs) {
			s.Errorf("pages of %d show %v, want all %d rows", size, paged, len(refs))
		}
	}
}
