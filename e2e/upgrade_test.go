package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
)

// upgradeScene keeps daemons of today's version and of the next one busy on one database.
type upgradeScene struct {
	*crashScene
	next *world
	// newer are the workers of the next version.
	newer []string
	// fell has when each worker was killed or stopped, woke when those that were stopped went on.
	fell, woke map[string]time.Time
}

func newUpgradeScene(t *testing.T) *upgradeScene {
	t.Helper()
	s := &upgradeScene{crashScene: newCrashScene(t), fell: map[string]time.Time{}, woke: map[string]time.Time{}}
	s.next = s.crashScene.next(t)
	return s
}

// feed keeps entries waiting.
func (s *upgradeScene) feed() {
	const low, portion = 200, 400
	if s.pendingOf(crashInstance) < low {
		s.enqueueNumbered(crashInstance, s.enqueued, s.enqueued+portion)
		s.enqueued += portion
	}
}

// startToday starts a daemon of today's version and returns once it is ready.
func (s *upgradeScene) startToday() worker {
	s.t.Helper()
	w := s.startWorker()
	awaitReady(s.t, w.daemon)
	return w
}

// startPatient starts one whose claims wait for a table's lock for longer than any migration here holds it,
// as they do with the default lease.
func (s *upgradeScene) startPatient() worker {
	s.t.Helper()
	lease := s.settings["LEASE"]
	defer func() { s.settings["LEASE"] = lease }()
	s.settings["LEASE"] = "30s"
	return s.startToday()
}

// startNext starts a daemon of the next version and returns once it is ready.
func (s *upgradeScene) startNext() worker {
	s.t.Helper()
	w := worker{name: fmt.Sprintf("next-%d", len(s.newer))}
	s.newer = append(s.newer, w.name)
	w.daemon = s.next.start(crashInstance, map[string]string{"WORKER": w.name})
	awaitReady(s.t, w.daemon)
	return w
}

func awaitReady(t *testing.T, d *daemon) {
	t.Helper()
	until(t, patience, "readiness", func() bool {
		status, _ := readiness(t, d)
		return status == http.StatusOK
	})
}

// awaitClaim returns once a worker has made a claim after a moment of the database's clock.
func (s *upgradeScene) awaitClaim(w worker, after time.Time) {
	s.t.Helper()
	w.await("a claim of "+w.name, func() bool {
		s.feed()
		return one[bool](s.world, `
SELECT EXISTS (SELECT FROM audit.claim WHERE claimed_by = $1 AND claimed_at > $2)`, w.name, after)
	})
}

func (s *upgradeScene) now() time.Time {
	s.t.Helper()
	return one[time.Time](s.world, `SELECT clock_timestamp()`)
}

// stopHolding stops a worker amid the deliveries of a claim that has more rows than could just be recorded.
func (s *upgradeScene) stopHolding(w worker) {
	s.t.Helper()
	amid := func() bool {
		claims := column[int64](s.world, `
SELECT claim_epoch
FROM fencerow.ledger_claim
WHERE claimed_by = $1 AND cardinality(outbox_ids) >= $2`, w.name, 2*crashConcurrency)
		return slices.ContainsFunc(s.stub.Journal(), func(r ledgerstub.Record) bool {
			return slices.Contains(claims, r.Epoch)
		})
	}
	w.await("deliveries of "+w.name, func() bool {
		s.feed()
		if !amid() {
			return false
		}
		w.signal(syscall.SIGSTOP)
		if amid() {
			return true
		}
		w.signal(syscall.SIGCONT)
		return false
	})
	s.fell[w.name] = time.Now()
}

// awaitTakeover returns once one worker has taken over all that another held.
func (s *upgradeScene) awaitTakeover(from, by worker) {
	s.t.Helper()
	by.await("the end of what "+from.name+" held", func() bool { return s.held(from.name) == 0 })
	if s.tookOver(from.name, by.name) == 0 {
		s.t.Errorf("%s took nothing over from %s", by.name, from.name)
	}
}

// tookOver is how many rows of a worker's expired claims were freed by another's claims.
func (s *upgradeScene) tookOver(from, by string) int {
	s.t.Helper()
	return one[int](s.world, `
SELECT count(*)
FROM audit.expiry e
JOIN audit.claim old ON old.claim_epoch = e.claim_epoch
JOIN audit.claim new ON new.claim_xact = e.claim_xact
WHERE old.claimed_by = $1 AND new.claimed_by = $2`, from, by)
}

// die kills a worker amid its work, so that another one takes over its rows.
func (s *upgradeScene) die(w, by worker) {
	s.t.Helper()
	s.stopHolding(w)
	w.kill()
	s.awaitTakeover(w, by)
}

// outlive stops a worker until another one has taken over its rows. When it goes on it is told that its claim
// is lost, and works on.
func (s *upgradeScene) outlive(w, by worker) {
	s.t.Helper()
	s.stopHolding(w)
	s.awaitTakeover(w, by)
	s.woke[w.name] = time.Now()
	w.signal(syscall.SIGCONT)
	w.await("claim lost", func() bool { return len(w.log("claim lost")) > 0 })
	s.awaitClaim(w, s.now())
}

// checkPolls fails the test if a poll of a worker that nothing has befallen failed.
func (s *upgradeScene) checkPolls(workers ...worker) {
	s.t.Helper()
	for _, w := range workers {
		for _, r := range w.log("poll failed", "store failing", "start failed") {
			s.t.Errorf("%s: %s", w.name, r.line)
		}
	}
}

func TestOldAndNewProgramsShareADatabaseThroughAMigrationAndBack(t *testing.T) {
	s := newUpgradeScene(t)
	s.feed()
	first, second := s.startPatient(), s.startPatient()
	began := s.now()
	s.awaitClaim(first, began)
	s.awaitClaim(second, began)

	// Before its migration the new program does nothing but say what it would do.
	const advice = "run fencerow migrate up"
	want(t, s.next.runDaemon(nil), 1, advice)
	want(t, s.next.run(crashInstance, "counts"), 1, "store_schema_mismatch", "fencerow migrate up")
	status := s.next.versions()
	equal(t, "what it would do", fmt.Sprint(status.Current, status.Latest, len(status.Pending)),
		fmt.Sprint(latest, latest+1, 1))
	equal(t, "the oldest program afterwards", status.OldestProgram, latest)

	// It migrates while the old daemons work. They go on, ready, and old commands do.
	s.feed()
	equal(t, "up", s.next.migrate("up"), migrated{latest, latest + 1})
	migratedAt := s.now()
	s.awaitClaim(first, migratedAt)
	s.awaitClaim(second, migratedAt)
	awaitReady(t, first.daemon)
	awaitReady(t, second.daemon)
	s.checkPolls(first, second)
	for _, command := range []string{"counts", "pending"} {
		s.mustRun(crashInstance, command)
	}
	want(t, s.run("", "migrate", "up"), 1, "schema_newer")

	// One by one: restarted by the old program, in order; then by the new one. Each takes over the other's rows,
	// and is refused what it has lost.
	first.stop()
	first = s.startToday()
	s.awaitClaim(first, migratedAt)
	third := s.startNext()
	second.stop()
	s.die(first, third)
	first = s.startToday() // as a supervisor does after a crash
	s.die(third, first)
	fourth := s.startNext()
	s.outlive(fourth, first)
	s.outlive(first, fourth)
	crossed := s.crossed()

	// And back.
	fourth.stop()
	s.feed()
	equal(t, "down", s.next.migrate("down", "--to", fmt.Sprint(latest)), migrated{latest + 1, latest})
	s.awaitClaim(first, s.now())
	awaitReady(t, first.daemon)
	s.awaitDrained(patience, crashInstance)
	first.stop()
	s.checkAll()
	t.Logf("counted: %d entries booked once each through a migration and back; %s; taken over: %d rows by the "+
		"new program from the old one, %d by the old one from the new one", s.enqueued, crossed,
		s.tookOver("worker-2", "next-0")+s.tookOver("worker-3", "next-1"),
		s.tookOver("next-0", "worker-3")+s.tookOver("next-1", "worker-3"))
}

// crossed checks that the outcomes since the migration were recorded by the program that had claimed them,
// and says how many each recorded.
func (s *upgradeScene) crossed() string {
	s.t.Helper()
	equal(s.t, "outcomes recorded by another program than had claimed them", one[int](s.world, `
SELECT count(*)
FROM fencerow.ledger_outcome o
JOIN audit.claim c ON c.claim_epoch = o.claim_epoch
WHERE (o.recorded_with = $1) <> (c.claimed_by = ANY ($2))`, latest+1, s.newer), 0)
	by := map[int]int{}
	for _, program := range []int{latest, latest + 1} {
		by[program] = one[int](s.world, `
SELECT count(*) FROM fencerow.ledger_outcome WHERE recorded_with = $1`, program)
		if by[program] == 0 {
			s.t.Errorf("programs of version %d recorded nothing", program)
		}
	}
	return fmt.Sprintf("%d outcomes by the old program, %d by the new one", by[latest], by[latest+1])
}

// checkAll checks what every scene of crashes must leave behind. A worker that was stopped counts as killed
// then: what it sent afterwards under a claim that it had lost comes late and counts for nothing.
func (s *upgradeScene) checkAll() {
	s.t.Helper()
	s.checkBooked(s.stub, crashInstance, s.enqueued)
	equal(s.t, "outcomes", one[int](s.world, `SELECT count(*) FROM fencerow.ledger_outcome`), s.enqueued)
	equal(s.t, "entries completed", one[int](s.world, `
SELECT count(DISTINCT outbox_id) FROM fencerow.ledger_outcome WHERE status = 'completed'`), s.enqueued)
	equal(s.t, "outcomes of claims that had been lost", one[int](s.world, `
SELECT count(*)
FROM audit.expiry e
JOIN fencerow.ledger_outcome o ON o.outbox_id = e.outbox_id AND o.claim_epoch = e.claim_epoch`), 0)
	stopped := map[int64]string{}
	for _, c := range s.auditedClaims() {
		if woke, found := s.woke[c.Worker]; found && c.At.Before(woke) {
			stopped[c.Epoch] = c.Worker
		}
	}
	late := func(r ledgerstub.Record) bool {
		w, found := stopped[r.Epoch]
		return found && !r.ArrivedAt.Before(s.woke[w])
	}
	zombies := make([]int64, 0, len(stopped))
	for epoch := range stopped {
		zombies = append(zombies, epoch)
	}
	journal := s.stub.Journal()
	report := ledgerstub.Check(journal, ledgerstub.CheckOptions{Zombies: zombies})
	equal(s.t, "entries booked twice", len(report.BookedTwice), 0)
	equal(s.t, "fencing tokens that fell", len(report.Falls), 0)
	equal(s.t, "bodies that changed", len(report.Changed), 0)
	journal = slices.DeleteFunc(journal, late)
	s.checkClaims(journal, s.fell)
	s.checkSentAgain(journal, s.fell)
}

// A migration that old programs cannot work with says so, and then they keep off.
func TestProgramsThatAMigrationLeavesBehindClaimNothing(t *testing.T) {
	t.Parallel()
	const id = "desk-1"
	w := newWorld(t)
	next := w.next(t)
	equal(t, "up", next.migrate("up"), migrated{latest, latest + 1})
	old := w.start(id, nil)
	w.enqueueOne(id, "before")
	w.awaitDrained(patience, id)

	w.declare(latest+2, latest+1)
	next.enqueueLines(id, fills("c", 20))
	failing := old.awaitRecord("store failing")
	equal(t, "why the old daemon fails", failing.Reason, "store_schema_mismatch")
	until(t, patience, "the end of readiness", func() bool {
		status, reason := readiness(t, old)
		return status == http.StatusServiceUnavailable && reason == "store_schema_mismatch"
	})
	equal(t, "entries that wait", w.pendingOf(id), 20)
	equal(t, "claims", one[int](w, `SELECT count(*) FROM fencerow.ledger_claim`), 0)
	want(t, w.runDaemon(nil), 1, fmt.Sprintf("version %d, is not one that this program works with", latest+2))
	want(t, w.run(id, "process", "c-1"), 1, "store_schema_mismatch")

	// The next version's programs may go on.
	newer := next.start(id, nil)
	w.awaitDrained(patience, id)
	awaitReady(t, newer)
	newer.stop()
	equal(t, "entries that the new daemon completed", len(completedBy(newer)), 20)

	// The old daemon was left running; it works again when it may.
	w.declare(latest+1, latest)
	awaitReady(t, old)
	w.enqueueOne(id, "after")
	w.awaitDrained(patience, id)
	old.stop()
	equal(t, "entries that the old daemon completed", strings.Join(completedBy(old), " "), "after before")
	t.Logf("counted: 20 entries that the old daemon left alone and the new one completed; it was not ready, "+
		"and did not start, while the schema named %d as the oldest program", latest+1)
}
