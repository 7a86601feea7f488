package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
)

const (
	stopInstance = "desk-1"
	stopGrace    = 5 * time.Second
)

// newStopWorld returns a world whose daemons have a lease so long that no row comes back by expiry.
func newStopWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	for name, value := range map[string]string{
		"GRACE": stopGrace.String(), "LEASE": "1h", "DELIVERY_TIMEOUT": "30s", "BATCH_LIMIT": "50",
		"CONCURRENCY": "8", "LEDGER_INTERVAL_SEC": "0.05",
	} {
		w.settings[name] = value
	}
	return w
}

// checkAtRest fails the test if the worker holds a row, or if a pending row has used up an attempt or may
// have been sent.
func (w *world) checkAtRest(worker string) {
	w.t.Helper()
	equal(w.t, "rows held by "+worker, one[int](w, `
SELECT count(*) FROM fencerow.ledger_claim WHERE claimed_by = $1`, worker), 0)
	equal(w.t, "pending rows that are not as they were enqueued", one[int](w, `
SELECT count(*) FROM fencerow.ledger_pending
WHERE attempt_count > 0 OR expiry_count > 0 OR delivery_uncertain OR outcome IS NOT NULL`), 0)
}

// TestStoppedUnderLoadNothingIsLeftOrSentTwice deploys again and again: a new daemon starts, and at a moment
// at random the one before is told to stop, while both work.
func TestStoppedUnderLoadNothingIsLeftOrSentTwice(t *testing.T) {
	t.Parallel()
	stops := size(t, 100, 100)
	const low, portion = 400, 1000
	w := newStopWorld(t)
	_, err := w.stub.AddRule(ledgerstub.Rule{
		Fault: ledgerstub.Fault{Mode: ledgerstub.ModeSlow, Stall: ledgerstub.Millis(15 * time.Millisecond)},
	})
	check(t, err)
	random := rand.New(rand.NewPCG(2, uint64(time.Now().UnixNano())))
	enqueued := 0
	start := func(i int) *daemon {
		if w.pendingOf(stopInstance) < low {
			w.enqueueNumbered(stopInstance, enqueued, enqueued+portion)
			enqueued += portion
		}
		d := w.start(stopInstance, map[string]string{"WORKER": fmt.Sprintf("worker-%d", i)})
		d.awaitRecord("started")
		return d
	}
	var took []time.Duration
	busy := 0
	old := start(0)
	for i := range stops {
		next := start(i + 1)
		<-time.After(time.Duration(random.IntN(200)) * time.Millisecond) // the moment at random
		worker := fmt.Sprintf("worker-%d", i)
		if one[int](w, `SELECT count(*) FROM fencerow.ledger_claim WHERE claimed_by = $1`, worker) > 0 {
			busy++
		}
		told := time.Now()
		old.stop()
		took = append(took, time.Since(told))
		w.checkAtRest(worker)
		w.checkStopLog(old)
		old = next
	}
	w.awaitDrained(2*time.Minute, stopInstance)
	old.stop()

	slices.Sort(took)
	if slowest := took[len(took)-1]; slowest > stopGrace {
		t.Errorf("stopping took %s, with %s of grace", slowest, stopGrace)
	}
	if busy < stops/2 {
		t.Errorf("only %d of %d daemons held rows when they were told to stop", busy, stops)
	}
	w.checkBooked(w.stub, stopInstance, enqueued)
	report := ledgerstub.Check(w.stub.Journal(), ledgerstub.CheckOptions{})
	equal(t, "requests", report.Requests, enqueued)
	equal(t, "entries sent more than once", len(report.Repeated), 0)
	equal(t, "entries completed at their first attempt", one[int](w, `
SELECT count(*) FROM fencerow.ledger_outcome WHERE outcome = 'completed' AND attempt_count = 1`), enqueued)
	t.Logf("counted: %d stops by SIGTERM, %d of them while rows were held; every exit status 0; stopping took "+
		"%s at the median, %s at most, of %s; %d entries, %d sends, no attempt used up, no row left leased",
		stops, busy, took[len(took)/2], took[len(took)-1], stopGrace, enqueued, report.Requests)
}

// checkStopLog fails the test unless the daemon's log ends in order and tells of no trouble.
func (w *world) checkStopLog(d *daemon) {
	w.t.Helper()
	for _, r := range d.trouble() {
		w.t.Errorf("a stopped daemon logged %+v", r)
	}
	equal(w.t, "records of stopping", len(d.log("stopping")), 1)
	records := d.log()
	equal(w.t, "the last record", records[len(records)-1].Msg, "stopped")
}

func TestStoppedWhileTheLedgerHangsRowsAreReleasedInDoubt(t *testing.T) {
	t.Parallel()
	const rows, sent = 20, 8
	w := newStopWorld(t)
	w.enqueueNumbered(stopInstance, 0, rows)
	_, err := w.stub.AddRule(ledgerstub.Rule{Fault: ledgerstub.Fault{Mode: ledgerstub.ModeHang, Commit: true}})
	check(t, err)
	d := w.start(stopInstance, map[string]string{"GRACE": "2s", "WORKER": "stopped"})
	until(t, patience, "requests in flight", func() bool { return len(w.stub.Journal()) == sent })
	told := time.Now()
	d.stop()
	took := time.Since(told)
	if took > 2*time.Second+500*time.Millisecond {
		t.Errorf("stopping took %s, with 2s of grace", took)
	}
	w.checkStopLog(d)
	equal(t, "rows held", one[int](w, `SELECT count(*) FROM fencerow.ledger_claim`), 0)
	equal(t, "rows in doubt, with no attempt used up", one[int](w, `
SELECT count(*)
FROM fencerow.ledger_pending
WHERE delivery_uncertain AND attempt_count = 0 AND outcome IS NULL`), sent)

	// They need not wait for a lease: the next daemon takes them at once, and the ledger knows what it booked.
	w.stub.ClearRules()
	next := w.start(stopInstance, nil)
	w.awaitDrained(patience, stopInstance)
	next.stop()
	w.checkBooked(w.stub, stopInstance, rows)
	equal(t, "duplicates", one[int](w, `
SELECT count(*)
FROM fencerow.ledger_outcome
WHERE outcome = 'duplicate_completed' AND attempt_count = 1`), sent)
}

// A second signal is for an operator who will not wait. What was in flight comes back by its lease.
func TestTheSecondSignalEndsItAtOnce(t *testing.T) {
	t.Parallel()
	w := newStopWorld(t)
	w.enqueueNumbered(stopInstance, 0, 1)
	_, err := w.stub.AddRule(ledgerstub.Rule{Fault: ledgerstub.Fault{Mode: ledgerstub.ModeHang}})
	check(t, err)
	d := w.start(stopInstance, map[string]string{"GRACE": "1m", "LEASE": "3s", "DELIVERY_TIMEOUT": "2s"})
	until(t, patience, "a request in flight", func() bool { return len(w.stub.Journal()) == 1 })
	d.signal(syscall.SIGTERM)
	d.awaitRecord("stopping")
	d.signal(syscall.SIGTERM)
	equal(t, "exit status", d.wait(), 1)
	w.stub.ClearRules()
	next := w.start(stopInstance, nil)
	w.awaitDrained(patience, stopInstance)
	next.stop()
	w.checkBooked(w.stub, stopInstance, 1)
	reclaimed := 0
	for _, r := range next.log("batch claimed") {
		reclaimed += r.Reclaimed
	}
	equal(t, "rows reclaimed", reclaimed, 1)
	equal(t, "claims lost", len(next.log("claim lost")), 0)
}
