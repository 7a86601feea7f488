package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
)

const (
	crashInstance    = "desk-1"
	crashConcurrency = 8
	crashLease       = 3 * time.Second
	crashInterval    = 50 * time.Millisecond
)

// crashScene keeps some daemons busy while they are killed one after the other.
type crashScene struct {
	*world
	random   *rand.Rand
	started  int // daemons, which number their workers
	enqueued int
}

func newCrashScene(t *testing.T) *crashScene {
	t.Helper()
	s := &crashScene{world: newWorld(t), random: rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))}
	s.db.Exec(t, auditSQL)
	for name, value := range map[string]string{
		"LEASE": crashLease.String(), "DELIVERY_TIMEOUT": "2s", "BATCH_LIMIT": "40",
		"CONCURRENCY": fmt.Sprint(crashConcurrency), "LEDGER_INTERVAL_SEC": fmt.Sprint(crashInterval.Seconds()),
	} {
		s.settings[name] = value
	}
	_, err := s.stub.AddRule(ledgerstub.Rule{
		Fault: ledgerstub.Fault{
			Mode: ledgerstub.ModeSlow, Delay: ledgerstub.Millis(20 * time.Millisecond),
			Stall: ledgerstub.Millis(20 * time.Millisecond),
		},
	})
	check(t, err)
	return s
}

// feed keeps entries waiting.
func (s *crashScene) feed() {
	const low, portion = 600, 1500
	if s.pendingOf(crashInstance) < low {
		s.enqueueNumbered(crashInstance, s.enqueued, s.enqueued+portion)
		s.enqueued += portion
	}
}

// worker is a daemon and the name that it claims under.
type worker struct {
	*daemon
	name string
}

func (s *crashScene) startWorker() worker {
	name := fmt.Sprintf("worker-%d", s.started)
	s.started++
	return worker{s.start(crashInstance, map[string]string{"WORKER": name}), name}
}

// held is how many rows a worker holds by claims that have not ended.
func (s *crashScene) held(worker string) int {
	return one[int](s.world, `
SELECT coalesce(sum(cardinality(outbox_ids)), 0) FROM fencerow.ledger_claim WHERE claimed_by = $1`, worker)
}

// killAmidABatch kills a worker that holds rows, and reports whether it left rows behind.
func (s *crashScene) killAmidABatch(victim worker) (amid bool) {
	s.t.Helper()
	victim.awaitRecord("batch claimed")
	pause := time.After(time.Duration(s.random.IntN(300)) * time.Millisecond) // a moment at random
	until(s.t, patience, "rows held by "+victim.name, func() bool {
		select {
		case <-pause:
			pause = nil
		default:
		}
		return pause == nil && s.held(victim.name) > 0
	})
	victim.kill()
	return s.held(victim.name) > 0
}

func TestKilledDaemonsLoseNothingAndBookNothingTwice(t *testing.T) {
	t.Parallel()
	kills := size(t, 20, 20)
	s := newCrashScene(t)
	s.feed()
	workers := []worker{s.startWorker(), s.startWorker(), s.startWorker()}
	killed := map[string]time.Time{}
	for amid := 0; amid < kills; {
		s.feed()
		i := s.random.IntN(len(workers))
		if s.killAmidABatch(workers[i]) {
			amid++
		}
		killed[workers[i].name] = time.Now()
		workers[i] = s.startWorker()
	}
	s.awaitDrained(2*time.Minute, crashInstance)
	until(t, patience, "the end of every claim", func() bool {
		return one[int](s.world, `SELECT count(*) FROM fencerow.ledger_claim`) == 0
	})
	for _, survivor := range workers {
		survivor.stop()
	}

	s.checkBooked(s.stub, crashInstance, s.enqueued)
	equal(t, "entries completed", one[int](s.world, `
SELECT count(DISTINCT outbox_id) FROM fencerow.ledger_outcome WHERE status = 'completed'`), s.enqueued)
	equal(t, "outcomes", one[int](s.world, `SELECT count(*) FROM fencerow.ledger_outcome`), s.enqueued)

	journal := s.stub.Journal()
	report := ledgerstub.Check(journal, ledgerstub.CheckOptions{})
	equal(t, "entries booked twice", len(report.BookedTwice), 0)
	equal(t, "fencing tokens that fell", len(report.Falls), 0)
	equal(t, "bodies that changed", len(report.Changed), 0)
	recoveries := s.checkClaims(journal, killed)
	open, answered := s.checkSentAgain(journal, killed)
	equal(t, "requests beyond one an entry", report.Extra(), open+answered)
	if most := s.enqueued + len(killed)*crashConcurrency; len(journal) > most {
		t.Errorf("%d sends for %d entries and %d kills at %d deliveries at once, want %d at most",
			len(journal), s.enqueued, len(killed), crashConcurrency, most)
	}
	t.Logf("counted: %d kills, %d of them amid a batch; %d entries booked once each; %d sends, of which %d "+
		"again because they were in flight at a kill (%d at once) and %d because they were answered and not "+
		"recorded yet; leases of %s; %d claims recovered by the next claim that had room, after %s at the "+
		"median, %s at most",
		len(killed), kills, s.enqueued, len(journal), open, crashConcurrency, answered,
		crashLease, len(recoveries), recoveries[len(recoveries)/2], recoveries[len(recoveries)-1])
}

// checkSentAgain checks that whatever was sent more than once had been sent by a worker that was killed
// before it could record the answer: at most as many as it sends at once were in flight or answered just
// before. It returns how many of both there were.
func (s *crashScene) checkSentAgain(
	journal []ledgerstub.Record, killed map[string]time.Time,
) (open, answered int) {
	s.t.Helper()
	workers := map[int64]string{}
	for _, c := range s.auditedClaims() {
		workers[c.Epoch] = c.Worker
	}
	latest := map[string]int64{}
	for _, r := range journal {
		latest[r.Key] = max(latest[r.Key], r.Epoch)
	}
	inFlight := map[string]int{}
	for _, r := range journal {
		if r.Epoch == latest[r.Key] {
			continue
		}
		worker := workers[r.Epoch]
		death, dead := killed[worker]
		switch {
		case !dead:
			s.t.Errorf("%s was sent again after %s, which was never killed", r.Key, worker)
		case r.EndedAt.After(death):
			open++
			inFlight[worker]++
		default:
			answered++
			inFlight[worker]++
			if lag := death.Sub(r.EndedAt); lag > crashPatience {
				s.t.Errorf("%s had not recorded an answer for %s when it was killed", worker, lag)
			}
		}
	}
	for worker, n := range inFlight {
		if n > crashConcurrency {
			s.t.Errorf("%s had %d deliveries in flight or unrecorded when it was killed", worker, n)
		}
	}
	return open, answered
}

// checkClaims checks every claim that was made against those before it and against what the ledger was sent.
// It returns how long after its lease had ended each killed worker's claim was recovered, in rising order.
func (s *crashScene) checkClaims(journal []ledgerstub.Record, killed map[string]time.Time) []time.Duration {
	s.t.Helper()
	claims := s.auditedClaims()
	byEpoch := map[int64]auditedClaim{}
	for _, c := range claims {
		if _, twice := byEpoch[c.Epoch]; twice {
			s.t.Fatalf("two claims have the epoch %d", c.Epoch)
		}
		byEpoch[c.Epoch] = c
	}
	ended := map[[2]int64]uint64{} // row and epoch, to the transaction that took the row back
	for _, e := range s.auditedExpiries() {
		ended[[2]int64{e.Row, e.Epoch}] = e.Xact
	}
	released := map[[2]int64]bool{}
	for _, r := range column[[2]int64](s.world, `SELECT ARRAY[outbox_id, claim_epoch] FROM audit.release`) {
		released[r] = true
	}
	s.checkOneHolder(claims, ended, released)
	s.checkSends(journal, byEpoch)
	return s.recoveries(claims, ended, killed)
}

// checkOneHolder checks that a row was claimed again only after its lease, unless it had been released.
func (s *crashScene) checkOneHolder(
	claims []auditedClaim, ended map[[2]int64]uint64, released map[[2]int64]bool,
) {
	s.t.Helper()
	last := map[int64]auditedClaim{}
	for _, c := range claims {
		for _, row := range c.Rows {
			before, again := last[row]
			last[row] = c
			if !again {
				continue
			}
			if c.Epoch <= before.Epoch {
				s.t.Errorf("row %d: epoch %d after %d", row, c.Epoch, before.Epoch)
			}
			_, expired := ended[[2]int64{row, before.Epoch}]
			switch {
			case expired && c.At.Before(before.ExpiresAt):
				s.t.Errorf("row %d of %s was claimed %s before its lease ended", row, before.Worker,
					before.ExpiresAt.Sub(c.At))
			case !expired && !released[[2]int64{row, before.Epoch}]:
				s.t.Errorf("row %d of %s was claimed again though it was neither released nor expired", row,
					before.Worker)
			}
		}
	}
}

// checkSends checks that each request began under a claim that stood at that time.
func (s *crashScene) checkSends(journal []ledgerstub.Record, byEpoch map[int64]auditedClaim) {
	s.t.Helper()
	for _, r := range journal {
		c, known := byEpoch[r.Epoch]
		if !known || r.ArrivedAt.Before(c.At) || !r.ArrivedAt.Before(c.ExpiresAt) {
			s.t.Errorf("a request for %s arrived at %s, outside of its claim (%s to %s)", r.Key, r.ArrivedAt, c.At,
				c.ExpiresAt)
		}
	}
}

// recoveries checks that each claim which a killed worker left was taken back by the very first claim that
// was made after its lease had ended, or, if that took back as many as it may, by the one after it.
func (s *crashScene) recoveries(
	claims []auditedClaim, ended map[[2]int64]uint64, killed map[string]time.Time,
) []time.Duration {
	s.t.Helper()
	var taken []auditedClaim
	by := map[int64]uint64{}  // epoch of a claim that was taken back, to the transaction that did it
	count := map[uint64]int{} // and how many that transaction took back
	for _, c := range claims {
		for _, row := range c.Rows {
			if xact, left := ended[[2]int64{row, c.Epoch}]; left {
				by[c.Epoch] = xact
			}
		}
		if xact, left := by[c.Epoch]; left {
			count[xact]++
			taken = append(taken, c)
		}
	}
	var took []time.Duration
	for _, c := range taken {
		if _, dead := killed[c.Worker]; !dead {
			s.t.Errorf("a claim of %s expired, and it was never killed", c.Worker)
		}
		by := by[c.Epoch]
		next := slices.IndexFunc(claims, func(n auditedClaim) bool {
			full := n.Xact != by && count[n.Xact] == mostEnded // the next one follows
			return !n.At.Before(c.ExpiresAt) && !full
		})
		if next < 0 || claims[next].Xact != by {
			s.t.Errorf("the claim of %s that ended at %s was not taken back by the next claim", c.Worker, c.ExpiresAt)
			continue
		}
		took = append(took, claims[next].At.Sub(c.ExpiresAt))
	}
	slices.Sort(took)
	if len(took) == 0 || took[len(took)-1] > crashInterval+crashPatience {
		s.t.Fatalf("recoveries after the end of the lease took %v", took)
	}
	return took
}

// mostEnded is how many expired claims one claim takes back at most; the rest are left to the one after it.
const mostEnded = 8

// crashPatience is how much later than the interval says a poll may come on a machine that is busy.
const crashPatience = 2 * time.Second
