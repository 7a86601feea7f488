package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/fourblocks2020/fencerow"
)

func viewCases() []testCase {
	return []testCase{
		{"CountsHaveEveryStatus", countsHaveEveryStatus},
		{"CountsTellLeasedFromDue", countsTellLeasedFromDue},
		{"OldestDueIsTheAgeOfTheOldestFreeRow", oldestDue},
		{"OldestPendingIsTheAgeSinceEnqueue", oldestPending},
		{"ClaimsAreListedByLeaseEnd", claimsAreListed},
		{"ShowOfNothingIsNotFound", showOfNothing},
		{"EmptyInstanceHasEmptyViews", emptyInstance},
		{"StoreIsReady", storeIsReady},
	}
}

func countsHaveEveryStatus(s *scene) {
	counts := s.counts()
	if len(counts.ByStatus) != len(fencerow.Statuses()) {
		s.Errorf("counts %v of nothing, want every status", counts.ByStatus)
	}
	for i, kind := range fencerow.OutcomeKinds() {
		for range i + 1 {
			r := s.fill(1)[0]
			s.apply(s.one(r), outcome(r, kind))
		}
	}
	for status, want := range map[fencerow.Status]int64{
		fencerow.StatusCompleted: 1 + 2, fencerow.StatusPending: 3, fencerow.StatusConflictBlocked: 4,
		fencerow.StatusPermanentFailure: 5, fencerow.StatusDeadLettered: 6,
	} {
		if got := s.counts().ByStatus[status]; got != want {
			s.Errorf("%d entries are %s, want %d", got, status, want)
		}
	}
}

func countsTellLeasedFromDue(s *scene) {
	refs := s.fill(6)
	s.one(refs[0])
	s.one(refs[1])
	s.apply(s.one(refs[2]), retry(refs[2], 10*time.Hour))
	if c := s.counts(); c.Leased != 2 || c.Due != 3 || c.ByStatus[fencerow.StatusPending] != 6 ||
		c.HeldSince != nil {
		s.Errorf("counts %+v, want 2 leased and 3 due of 6", *c)
	}
	s.world.Advance(lease + tolerance)
	if c := s.counts(); c.Leased != 0 || c.Due != 5 {
		s.Errorf("counts %+v, want the rows of the expired claims due", *c)
	}
}

func oldestDue(s *scene) {
	if got := s.counts().OldestDue; got != 0 {
		s.Errorf("the oldest due row of none has been due for %v", got)
	}
	refs := s.fill(1)
	s.world.Advance(10 * time.Minute)
	young := s.fill(1)[0]
	s.world.Advance(20 * time.Minute)
	if got := s.counts().OldestDue; !near(got, 30*time.Minute) {
		s.Errorf("the oldest row has been due for %v, want 30m", got)
	}
	if got := s.list()[0].DueFor; !near(got, 30*time.Minute) {
		s.Errorf("the first row listed has been due for %v, want 30m", got)
	}
	if got := s.pending(young).DueFor; !near(got, 20*time.Minute) {
		s.Errorf("the young row is shown as due for %v, want 20m", got)
	}
	c := s.one(refs[0])
	if got := s.counts().OldestDue; !near(got, 20*time.Minute) {
		s.Errorf("the oldest row that nobody holds has been due for %v, want 20m", got)
	}
	s.finish(young, fencerow.OutcomeCompleted)
	if got := s.counts().OldestDue; got != 0 {
		s.Errorf("every row is held, but the oldest has been due for %v", got)
	}
	s.apply(c, retry(refs[0], time.Hour))
	if got := s.counts().OldestDue; got != 0 {
		s.Errorf("the only row waits, but has been due for %v", got)
	}
	if got := s.pending(refs[0]).DueFor; got != 0 {
		s.Errorf("the only row waits, but is shown as due for %v", got)
	}
}

func oldestPending(s *scene) {
	is := func(want time.Duration, when string) {
		s.Helper()
		if got := s.counts().OldestPending; !near(got, want) || want == 0 && got != 0 {
			s.Errorf("%s: the oldest pending entry is %v old, want %v", when, got, want)
		}
	}
	is(0, "of none")
	s.other().fill(1)
	s.world.Advance(10 * time.Minute)
	old := s.fill(1)[0]
	s.world.Advance(10 * time.Minute)
	young := s.fill(1)[0]
	s.world.Advance(20 * time.Minute)
	is(30*time.Minute, "of two that are due")
	c := s.one(old)
	is(30*time.Minute, "while it is leased")
	s.apply(c, retry(old, 10*time.Hour))
	is(30*time.Minute, "while it waits")
	s.finish(old, fencerow.OutcomeDeadLettered)
	is(20*time.Minute, "when the older one is blocked")
	s.requeue(old, fencerow.StatusDeadLettered)
	is(30*time.Minute, "when it is pending again")
	s.finish(old, fencerow.OutcomeCompleted)
	s.finish(young, fencerow.OutcomeCompleted)
	is(0, "when all are finished")
}

func claimsAreListed(s *scene) {
	refs := s.fill(6)
	for i, minutes := range []int{40, 20, 30} {
		must(s.store.ClaimBatch(s.Context(), fencerow.ClaimBatchParams{
			Instance: s.key, Worker: fencerow.WorkerID("w-" + string(rune('a'+i))), Token: fencerow.NewClaimToken(),
			Limit: i + 1,
			Lease: time.Duration(minutes) * time.Minute,
		}))(s)
	}
	s.world.Advance(25 * time.Minute)
	leases := s.claims()
	var workers []fencerow.WorkerID
	for _, l := range leases {
		workers = append(workers, l.Worker)
		if !near(l.Age, 25*time.Minute) || l.Epoch <= 0 || l.ClaimedAt.IsZero() {
			s.Errorf("claim %+v, want an age of 25m", l)
		}
	}
	if !slices.Equal(workers, []fencerow.WorkerID{"w-b", "w-c", "w-a"}) {
		s.Fatalf("claims of %v, want them in order of lease end", workers)
	}
	if leases[0].Rows != 2 || leases[1].Rows != 3 || leases[2].Rows != 1 {
		s.Errorf("claims %+v, want 2, 3 and 1 rows", leases)
	}
	for i, want := range []time.Duration{-5 * time.Minute, 5 * time.Minute, 15 * time.Minute} {
		if got := leases[i].Remaining; got > want || got < want-tolerance {
			s.Errorf("claim %d has %v remaining, want %v", i, got, want)
		}
	}
	for _, r := range refs {
		l := s.show(r).Lease
		listed := func(other fencerow.LeaseInfo) bool { return other.Epoch == l.Epoch }
		if l == nil || !slices.ContainsFunc(leases, listed) {
			s.Errorf("row %d shows a lease %+v that is not in the list", r.id, l)
		}
	}
}

func showOfNothing(s *scene) {
	if state, err := s.tryShow("nobody-has-this"); !errors.Is(err, fencerow.ErrNotFound) {
		s.Errorf("got %v, %v, want not found", state, err)
	}
	s.other().put(plain("foreign"))
	if state, err := s.tryShow("foreign"); !errors.Is(err, fencerow.ErrForeignInstance) || state != nil {
		s.Errorf("got %v, %v, want foreign", state, err)
	}
}

func emptyInstance(s *scene) {
	if got := s.list(); len(got) != 0 {
		s.Errorf("listed %+v", got)
	}
	if got := s.blocked(""); len(got) != 0 {
		s.Errorf("blocked %+v", got)
	}
	if got := s.sum(""); len(got) != 0 {
		s.Errorf("sums %+v", got)
	}
	if got := s.claims(); len(got) != 0 {
		s.Errorf("claims %+v", got)
	}
	if got := s.slots(); len(got) != 0 {
		s.Errorf("slots %+v", got)
	}
	if got := s.counts(); got.Due != 0 || got.Leased != 0 || got.OldestDue != 0 || got.HeldSince != nil {
		s.Errorf("counts %+v", *got)
	}
	if got := s.prune(0, 1, 0); got != (fencerow.PruneResult{}) {
		s.Errorf("pruned %+v", got)
	}
}

func storeIsReady(s *scene) {
	must(s.store.Ready(s.Context()))(s)
	s.fill(1)
	if count := must(s.store.LegacyCount(s.Context()))(s); count != 0 {
		s.Errorf("%d entries without an owner, want none: an owned entry is not one", count)
	}
	if exported := must(s.store.LegacyExport(s.Context(), "entry-1"))(s); len(exported) != 0 {
		s.Errorf("an owned entry was exported as one without an owner: %+v", exported)
	}
}
