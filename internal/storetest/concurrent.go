package storetest

import (
	"sync"

	"github.com/fourblocks2020/fencerow"
)

func concurrentCases() []testCase {
	return []testCase{
		{"ConcurrentClaimsAreDisjoint", concurrentClaims},
		{"OnlyOneOfTwoWorkersEndsARow", onlyOneEndsARow},
		{"ConcurrentTargetedClaimsHaveOneWinner", concurrentTargetedClaims},
		{"ConcurrentEnqueuesOfOneEntryInsertItOnce", concurrentEnqueues},
	}
}

// together runs f for 0 to n-1 at once and waits for all.
func together(n int, f func(int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

func concurrentClaims(s *scene) {
	const workers, rows = 6, 60
	refs := s.fill(rows)
	claims := make([][]*fencerow.Claim, workers)
	all := make([]*actor, workers)
	for i := range all {
		all[i] = s.worker(s.key)
	}
	together(workers, func(i int) {
		for range rows {
			c, err := all[i].tryClaim(7)
			if err != nil {
				s.Errorf("worker %d: %v", i, err)
				return
			}
			if len(c.Entries) == 0 {
				return
			}
			claims[i] = append(claims[i], c)
		}
	})
	var flat []*fencerow.Claim
	for _, c := range claims {
		flat = append(flat, c...)
	}
	s.claimedTogether(refs, flat...)
}

func onlyOneEndsARow(s *scene) {
	refs := s.fill(20)
	stale := s.claimAll(refs...)
	s.world.Advance(lease + tolerance)
	b := s.worker(s.key)
	// One worker reclaims and ends the rows while the other wakes up and ends them, too.
	verdicts := make([][]fencerow.Verdict, 2)
	together(2, func(i int) {
		who, c := s.actor, stale
		if i == 1 {
			who = b
			var err error
			if c, err = b.tryClaim(fencerow.MaxBatch); err != nil {
				s.Errorf("reclaim: %v", err)
				return
			}
		}
		for _, r := range refs {
			got, err := who.store.RecordOutcomes(s.Context(), fencerow.RecordParams{
				Instance: s.key, Token: c.Token, Outcomes: []fencerow.Outcome{outcome(r, fencerow.OutcomeCompleted)},
			})
			if err != nil {
				s.Errorf("record: %v", err)
				return
			}
			verdicts[i] = append(verdicts[i], got...)
		}
	})
	if len(verdicts[0]) != len(refs) || len(verdicts[1]) != len(refs) {
		s.Fatalf("%d and %d verdicts, want %d each", len(verdicts[0]), len(verdicts[1]), len(refs))
	}
	for i, r := range refs {
		if verdicts[0][i].Applied == verdicts[1][i].Applied {
			s.Errorf("row %d: verdicts %+v and %+v, want one of them applied", r.id, verdicts[0][i], verdicts[1][i])
		}
		loser := verdicts[0][i]
		if loser.Applied {
			loser = verdicts[1][i]
		}
		if loser.Lost != fencerow.LostReclaimed &&
			(loser.Lost != fencerow.LostFinished || loser.Outcome != fencerow.OutcomeCompleted) {
			s.Errorf("row %d: the loser is told %+v, want reclaimed, or finished and how", r.id, loser)
		}
		if state := s.show(r); state.Status != fencerow.StatusCompleted || len(state.Outcomes) != 1 {
			s.Errorf("row %d is %+v", r.id, *state)
		}
	}
}

func concurrentTargetedClaims(s *scene) {
	r := s.fill(1)[0]
	won := make([]*fencerow.Claim, 6)
	all := make([]*actor, len(won))
	for i := range all {
		all[i] = s.worker(s.key)
	}
	together(len(won), func(i int) { won[i], _ = all[i].tryOne(r.corr, true) })
	winners := 0
	for _, c := range won {
		if c != nil {
			winners++
		}
	}
	if winners != 1 {
		s.Errorf("%d workers claimed the same entry", winners)
	}
}

func concurrentEnqueues(s *scene) {
	const n = 6
	results := make([][]fencerow.Enqueued, n)
	all := make([]*actor, n)
	for i := range all {
		all[i] = s.worker(s.key)
	}
	together(n, func(i int) {
		var err error
		if results[i], err = all[i].enqueue(plain("b"), plain("a"), plain("c")); err != nil {
			s.Errorf("enqueue: %v", err)
		}
	})
	inserted := make(map[fencerow.OutboxID]int)
	for _, result := range results {
		for _, e := range result {
			switch e.Result {
			case fencerow.EnqueueInserted:
				inserted[e.OutboxID]++
			case fencerow.EnqueueDuplicate:
			case fencerow.EnqueueConflict:
				s.Errorf("equal content is called a conflict")
			}
		}
	}
	if len(inserted) != 3 {
		s.Errorf("inserted %v, want each of three entries once", inserted)
	}
	s.claimAll(s.refs("a", "b", "c")...)
}
