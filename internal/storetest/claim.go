package storetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fourblocks2020/fencerow"
)

func claimCases() []testCase {
	return []testCase{
		{"ClaimNamesWhatItHolds", claimNamesWhatItHolds},
		{"ClaimTakesDueRowsInOrder", claimTakesDueRowsInOrder},
		{"ClaimStopsAtItsLimitAndSaysSo", claimStopsAtItsLimit},
		{"EmptyClaimHoldsNothing", emptyClaimHoldsNothing},
		{"LeasedRowIsClaimedByNobodyElse", leasedRowIsClaimedByNobodyElse},
		{"SameWorkerIDDoesNotInheritALease", sameWorkerIDDoesNotInherit},
		{"RowWaitsForItsDelay", rowWaitsForItsDelay},
		{"UnclaimableRowsHideNothing", unclaimableRowsHideNothing},
		{"StandingTokenIsRefused", standingTokenIsRefused},
		{"RegisterIsIdempotent", registerIsIdempotent},
		{"AttemptsStopAtTheLargestNumber", attemptsStopAtTheLargestNumber},
		{"CancelledCallChangesNothing", cancelledCallChangesNothing},
	}
}

func claimNamesWhatItHolds(s *scene) {
	r := s.put(money("a", "slot-1", "3", "EUR"))[0]
	dueAt := s.pending(r).DueAt
	token := fencerow.NewClaimToken()
	c := must(s.store.ClaimBatch(s.Context(), fencerow.ClaimBatchParams{
		Instance: s.key, Worker: s.name, Token: token, Limit: 10, Lease: 90*time.Second + 999*time.Nanosecond,
	}))(s)
	if c.Instance != s.key || c.Token != token || c.Epoch <= 0 {
		s.Errorf("claim %+v does not name what it is", *c)
	}
	if got := c.LeaseExpiresAt.Sub(c.ClaimedAt); got != 90*time.Second {
		s.Errorf("lease of %v, want 90s cut to microseconds", got)
	}
	s.sameRows(c, r)
	e := c.Entries[0]
	if e.Attempt != 1 || e.Life != 1 || e.Uncertain || e.ExpiryCount != 0 || e.Reclaimed || e.LastReason != "" {
		s.Errorf("claimed %+v is not a first attempt", e)
	}
	if !e.DueAt.Equal(dueAt) || e.Instance != s.key || e.CorrelationID != "a" || e.SlotID != "slot-1" ||
		e.Currency != "EUR" {
		s.Errorf("claimed %+v is not the entry", e)
	}
	state := s.show(r)
	if l := state.Lease; l == nil || l.Worker != s.name || l.Epoch != c.Epoch || l.Rows != 1 ||
		!l.ClaimedAt.Equal(c.ClaimedAt) {
		s.Errorf("lease %+v is not the claim's", l)
	}
	// A claim writes nothing to the row: it counts when its outcome is recorded.
	if p := state.Pending; p == nil || p.Attempts != 0 || p.LastOutcome != "" {
		s.Errorf("the claim changed the pending row: %+v", p)
	}
}

func claimTakesDueRowsInOrder(s *scene) {
	refs := s.fill(6)
	c := s.claimAll(refs...)
	for i, minutes := range []int{50, 10, 30, 10, 40, 20} {
		s.apply(c, retry(refs[i], time.Duration(minutes)*time.Minute))
	}
	s.world.Advance(45 * time.Minute)
	var got []fencerow.OutboxID
	var last fencerow.ClaimedEntry
	for range 5 {
		c := s.claim(1)
		if len(c.Entries) != 1 {
			s.Fatalf("claimed %d rows, want 1", len(c.Entries))
		}
		e := c.Entries[0]
		if e.DueAt.Before(last.DueAt) || e.DueAt.Equal(last.DueAt) && e.OutboxID < last.OutboxID {
			s.Errorf("row %d came after a later one", e.OutboxID)
		}
		last = e
		got = append(got, e.OutboxID)
	}
	want := []fencerow.OutboxID{refs[1].id, refs[3].id, refs[5].id, refs[2].id, refs[4].id}
	if !slices.Equal(got, want) {
		s.Errorf("claimed %v, want %v", got, want)
	}
	s.claimAll()
}

func claimStopsAtItsLimit(s *scene) {
	refs := s.fill(5)
	c := s.claim(2)
	if len(c.Entries) != 2 || !c.More {
		s.Errorf("claimed %d rows, more %v, want 2 and more", len(c.Entries), c.More)
	}
	if !slices.IsSortedFunc(c.Entries, func(a, b fencerow.ClaimedEntry) int {
		return a.DueAt.Compare(b.DueAt)*2 + int(a.OutboxID-b.OutboxID)
	}) {
		s.Errorf("the rows of a claim are not in order of (due time, id)")
	}
	rest := s.claim(10)
	if len(rest.Entries) != 3 {
		s.Errorf("claimed %d rows, want the last 3", len(rest.Entries))
	}
	s.claimedTogether(refs, c, rest)
	// Another claim may find more, or not; one that finds nothing says so.
	if empty := s.claim(10); len(empty.Entries) != 0 || empty.More {
		s.Errorf("claimed %d rows, more %v, after the last", len(empty.Entries), empty.More)
	}
}

// claimedTogether demands that the claims hold exactly the rows, each once.
func (a *actor) claimedTogether(refs []ref, claims ...*fencerow.Claim) {
	a.t.Helper()
	all := &fencerow.Claim{}
	for _, c := range claims {
		all.Entries = append(all.Entries, c.Entries...)
	}
	a.sameRows(all, refs...)
}

func emptyClaimHoldsNothing(s *scene) {
	c := s.claim(10)
	if c.Instance != s.key || len(c.Entries) != 0 || c.More {
		s.Errorf("claim %+v of nothing", *c)
	}
	if claims := s.claims(); len(claims) != 0 {
		s.Errorf("an empty claim stands: %+v", claims)
	}
	if verdicts := s.releaseAll(c, false); len(verdicts) != 0 {
		s.Errorf("an empty claim released %+v", verdicts)
	}
}

func leasedRowIsClaimedByNobodyElse(s *scene) {
	refs := s.fill(3)
	a := s.claimAll(refs...)
	b := s.worker(s.key)
	for range 2 {
		b.claimAll()
		for _, r := range refs {
			b.refused(r.corr, true, fencerow.RefusedLeased)
		}
		s.world.Advance(lease/2 - tolerance)
	}
	for _, r := range refs {
		s.apply(a, outcome(r, fencerow.OutcomeCompleted))
	}
}

func sameWorkerIDDoesNotInherit(s *scene) {
	r := s.fill(1)[0]
	c := s.one(r)
	restarted := s.worker(s.key)
	restarted.name = s.name
	restarted.claimAll()
	restarted.refused(r.corr, true, fencerow.RefusedLeased)
	own := restarted.claim(1)
	s.lost(restarted.record(own, outcome(r, fencerow.OutcomeCompleted))[0], fencerow.LostReclaimed, c.Epoch, "")
	s.lost(restarted.release(own, r)[0], fencerow.LostReclaimed, c.Epoch, "")
	s.apply(c, outcome(r, fencerow.OutcomeCompleted))
}

func rowWaitsForItsDelay(s *scene) {
	r := s.fill(1)[0]
	s.apply(s.one(r), retry(r, time.Hour))
	s.world.Advance(time.Hour - tolerance)
	s.claimAll()
	s.refused(r.corr, false, fencerow.RefusedNotDue)
	s.world.Advance(tolerance)
	if e := s.claimAll(r).Entries[0]; e.Attempt != 2 || e.LastReason != fencerow.ReasonLedgerError ||
		e.Reclaimed {
		s.Errorf("claimed %+v, want a second attempt", e)
	}
}

func unclaimableRowsHideNothing(s *scene) {
	leased, waiting := s.fill(30), s.fill(30)
	foreign := s.other()
	foreign.fill(30)
	c := s.claimAll(append(slices.Clone(leased), waiting...)...)
	retries := make([]fencerow.Outcome, len(waiting))
	for i, r := range waiting {
		retries[i] = retry(r, time.Hour)
	}
	s.apply(c, retries...)
	if claims := s.claims(); len(claims) != 1 || claims[0].Rows != len(leased) {
		s.Fatalf("claims %+v, want one of %d rows", claims, len(leased))
	}
	due := s.fill(3)
	listed := listedIDs(s.page(len(due), fencerow.PendingPosition{}))
	if !slices.Equal(listed, []fencerow.OutboxID{due[0].id, due[1].id, due[2].id}) {
		s.Errorf("the first page lists %v, want the due rows", listed)
	}
	var got []*fencerow.Claim
	for range due {
		got = append(got, s.claim(1))
	}
	s.claimedTogether(due, got...)
	s.claimAll()
}

func standingTokenIsRefused(s *scene) {
	refs := s.fill(2)
	c := s.one(refs[0])
	before := s.picture(refs...)
	got, err := s.store.ClaimBatch(s.Context(), fencerow.ClaimBatchParams{
		Instance: s.key, Worker: s.name, Token: c.Token, Limit: 10, Lease: lease,
	})
	if err == nil {
		s.Errorf("a batch claim under a token that stands: got %+v", *got)
	}
	got, err = s.store.ClaimOne(s.Context(), fencerow.ClaimOneParams{
		Instance: s.key, Worker: s.name, Token: c.Token, CorrelationID: refs[1].corr, Lease: lease,
	})
	if err == nil {
		s.Errorf("a targeted claim under a token that stands: got %+v", *got)
	}
	s.unchanged(before, s.picture(refs...))
}

func registerIsIdempotent(s *scene) {
	refs := s.fill(1)
	for range 2 {
		noError(s, s.store.Register(s.Context(), s.key))
	}
	if s.counts().HeldSince != nil {
		s.Errorf("a registered instance is on hold")
	}
	s.claimAll(refs...)
	noError(s, s.store.Register(s.Context(), s.key))
	s.claimAll()
}

func attemptsStopAtTheLargestNumber(s *scene) {
	const largest = 1<<31 - 1
	refs := s.fill(3)
	for _, r := range refs {
		s.world.SetAttempts(s.key, r.id, largest)
	}
	c := s.claimAll(refs...)
	for _, e := range c.Entries {
		if e.Attempt != largest {
			s.Errorf("attempt %d, want %d", e.Attempt, largest)
		}
	}
	s.apply(c, retry(refs[0], 0), outcome(refs[1], fencerow.OutcomeDeadLettered))
	if got := s.pending(refs[0]).Attempts; got != largest {
		s.Errorf("a retry made it attempt %d", got)
	}
	if got := s.show(refs[1]).Outcomes[0].Attempts; got != largest {
		s.Errorf("a terminal outcome made it attempt %d", got)
	}
	s.world.Advance(lease + tolerance)
	if e := s.claimed(s.claimAll(refs[0], refs[2]), refs[2]); e.Attempt != largest ||
		s.pending(refs[2]).Attempts != largest {
		s.Errorf("an expiry made it attempt %d", e.Attempt)
	}
}

func cancelledCallChangesNothing(s *scene) {
	refs := s.fill(2)
	c := s.one(refs[0])
	before := s.picture(refs...)
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	for name, call := range everyCall(s.store, s.key, c, refs[0]) {
		if err := call(ctx); !errors.Is(err, context.Canceled) {
			s.Errorf("%s under a cancelled context: got %v, want an error that is context.Canceled", name, err)
		}
	}
	s.unchanged(before, s.picture(refs...))
	s.apply(c, outcome(refs[0], fencerow.OutcomeCompleted))
	if len(s.claim(1).Entries) != 1 {
		s.Errorf("row %d cannot be claimed after a cancelled call", refs[1].id)
	}
}
