package storetest

import (
	"slices"
	"time"

	"github.com/fourblocks2020/fencerow"
)

func listCases() []testCase {
	return []testCase{
		{"ListShowsDueAndWaitingRowsButNoLeasedOnes", listShowsDueAndWaiting},
		{"ListPagesByPosition", listPagesByPosition},
		{"ListReadsPayloadsOnlyIfAsked", listReadsPayloadsOnlyIfAsked},
		{"ListTellsWhatIsKnownOfARow", listTellsWhatIsKnown},
		{"ListChangesNothing", listChangesNothing},
	}
}

func (a *actor) page(limit int, after fencerow.PendingPosition) []fencerow.PendingEntry {
	a.t.Helper()
	listed, err := a.store.ListPending(a.t.Context(), fencerow.ListPendingParams{
		Instance: a.key, Limit: limit, After: after,
	})
	return must(listed, err)(a.t)
}

func listedIDs(listed []fencerow.PendingEntry) []fencerow.OutboxID {
	ids := make([]fencerow.OutboxID, len(listed))
	for i := range listed {
		ids[i] = listed[i].OutboxID
	}
	return ids
}

func listShowsDueAndWaiting(s *scene) {
	refs := s.fill(5)
	due, waiting, leased, finished, blocked := refs[0], refs[1], refs[2], refs[3], refs[4]
	s.apply(s.one(waiting), retry(waiting, time.Hour))
	s.finish(finished, fencerow.OutcomeCompleted)
	s.finish(blocked, fencerow.OutcomeConflictBlocked)
	c := s.one(leased)
	listed := s.list()
	if ids := listedIDs(listed); !slices.Equal(ids, []fencerow.OutboxID{due.id, waiting.id}) {
		s.Fatalf("listed %v, want the due and the waiting row", ids)
	}
	if !listed[0].Due || listed[1].Due {
		s.Errorf("listed %+v, want the first due and the second not", listed)
	}
	s.release(c, leased)
	if ids := listedIDs(s.list()); !slices.Equal(ids, []fencerow.OutboxID{due.id, leased.id, waiting.id}) {
		s.Errorf("listed %v, want the released row too, in order of due time", ids)
	}
}

func listPagesByPosition(s *scene) {
	refs := s.fill(23) // all due at the same time, or nearly
	c := s.claim(5)
	for i, id := range claimedIDs(c) {
		s.apply(c, retry(ref{id: id}, time.Duration(5-i)*time.Minute))
	}
	all := s.list()
	if len(all) != len(refs) {
		s.Fatalf("listed %d rows, want %d", len(all), len(refs))
	}
	for i := 1; i < len(all); i++ {
		if all[i].DueAt.Before(all[i-1].DueAt) || all[i].DueAt.Equal(all[i-1].DueAt) &&
			all[i].OutboxID <= all[i-1].OutboxID {
			s.Errorf("row %d of the list is not in order of (due time, id)", i)
		}
	}
	for _, size := range []int{1, 7, 23, 24} {
		var paged []fencerow.OutboxID
		var after fencerow.PendingPosition
		for {
			page := s.page(size, after)
			if len(page) == 0 {
				break
			}
			if len(page) > size {
				s.Fatalf("a page of %d rows, want %d at most", len(page), size)
			}
			paged = append(paged, listedIDs(page)...)
			last := page[len(page)-1]
			after = fencerow.PendingPosition{DueAt: last.DueAt, OutboxID: last.OutboxID}
		}
		if !slices.Equal(paged, listedIDs(all)) {
			s.Errorf("pages of %d show %v, want %v", size, paged, listedIDs(all))
		}
	}
	// A position is a place, not a row: it holds after its row is gone.
	s.finish(ref{id: all[3].OutboxID, corr: all[3].CorrelationID}, fencerow.OutcomeCompleted)
	rest := s.page(fencerow.MaxPage, fencerow.PendingPosition{DueAt: all[3].DueAt, OutboxID: all[3].OutboxID})
	if !slices.Equal(listedIDs(rest), listedIDs(all)[4:]) {
		s.Errorf("after a finished row: %v, want %v", listedIDs(rest), listedIDs(all)[4:])
	}
}

func listReadsPayloadsOnlyIfAsked(s *scene) {
	n := plain("a")
	n.Payload = []byte(`{"secret": 1}`)
	s.put(n)
	for _, asked := range []bool{false, true} {
		listed := must(s.store.ListPending(s.Context(), fencerow.ListPendingParams{
			Instance: s.key, Limit: 1, WithPayload: asked,
		}))(s)
		want := ""
		if asked {
			want = `{"secret": 1}`
		}
		if len(listed) != 1 || string(listed[0].Payload) != want {
			s.Errorf("payload asked for %v: listed %+v", asked, listed)
		}
	}
}

func listTellsWhatIsKnown(s *scene) {
	n := money("a", "slot-1", "-2.5", "EUR")
	n.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	r := s.put(n)[0]
	s.one(r)
	s.world.Advance(lease + tolerance)
	throttled := retry(r, time.Hour)
	throttled.Reason = fencerow.ReasonThrottled
	s.apply(s.one(r), throttled)
	p := s.list()[0]
	shown := s.pending(r)
	if p.OutboxID != r.id || p.Instance != s.key || p.CorrelationID != "a" || p.EntryKind != "fill" ||
		p.SlotID != "slot-1" || !p.CashDelta.Equal(n.CashDelta) || p.Currency != "EUR" ||
		p.TraceParent != n.TraceParent || !p.EnqueuedAt.Equal(s.show(r).Entry.EnqueuedAt) {
		s.Errorf("listed %+v, want the entry", p.Entry)
	}
	if p.Attempts != 2 || p.Life != 1 || !p.Uncertain || p.ExpiryCount != 0 || p.Due ||
		!p.DueAt.Equal(shown.DueAt) || p.LastOutcome != fencerow.OutcomeRetryableFailure ||
		p.LastReason != fencerow.ReasonThrottled {
		s.Errorf("listed %+v, want a second failed attempt", p)
	}
}

func listChangesNothing(s *scene) {
	refs := s.fill(3)
	s.one(refs[0])
	s.world.Advance(lease + tolerance)
	before := s.picture(refs...)
	s.list()
	s.blocked("")
	s.sum("")
	s.counts()
	s.slots()
	s.claims()
	s.unchanged(before, s.picture(refs...))
}
