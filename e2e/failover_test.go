package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
	"github.com/fourblocks2020/fencerow/internal/pgstore"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

const (
	failoverInstance = "desk-1"
	// portion is how many entries a producer enqueues at once.
	portion = 10
)

// newDaemonRole makes a role with the grants that the documentation gives to a daemon, and no more.
func newDaemonRole(t *testing.T, db *pgtest.Database) pgtest.Role {
	t.Helper()
	page, err := os.ReadFile("../docs/operations.md")
	check(t, err)
	_, rest, _ := strings.Cut(string(page), "```sql\n")
	grants, _, found := strings.Cut(rest, "```\n")
	if !found || !strings.Contains(grants, "TO fencerow_daemon;") {
		t.Fatal("docs/operations.md does not begin with the grants of the daemon")
	}
	role := db.NewRole(t, nil)
	db.Exec(t, strings.ReplaceAll(grants, "fencerow_daemon", `"`+role.Name+`"`))
	return role
}

// failoverWorld is a world on a primary that has a replica. Programs and tests name both servers, and find
// the one that takes writes.
type failoverWorld struct {
	*world
	primary *pgtest.Private
	standby *pgtest.Standby
}

func newFailoverWorld(t *testing.T) *failoverWorld {
	t.Helper()
	primary := pgtest.StartPrivate(t, nil)
	db := primary.NewDatabase(t, schema)
	role := newDaemonRole(t, db)
	w := &failoverWorld{newWorldOn(t, db), primary, primary.StartStandby(t)}
	var err error
	w.pool, err = pgxpool.New(t.Context(), w.standby.DSN(db))
	check(t, err)
	t.Cleanup(w.pool.Close)
	w.settings["DSN"] = w.standby.DSN(db, pgtest.As(role))
	w.settings["STORE_TIMEOUT"] = "1s"
	return w
}

// failOver ends the primary as a crash does and promotes the replica. It returns when that takes writes, and
// the time.
func (w *failoverWorld) failOver() time.Time {
	w.t.Helper()
	w.primary.Crash(w.t)
	w.standby.Promote(w.t)
	promoted := time.Now()
	w.pool.Reset()
	return promoted
}

// newEntry is the entry as a producer in Go enqueues it.
func (e numbered) newEntry() fencerow.NewEntry {
	return fencerow.NewEntry{
		CorrelationID: fencerow.CorrelationID(e.id()), EntryKind: "fill", SlotID: fencerow.SlotID(e.slot()),
		CashDelta: e.delta(), Currency: e.currency(), Payload: json.RawMessage(e.payload()), OpenSkip: e.n%5 == 0,
	}
}

// produce enqueues the entries 0 to n-1, and repeats what was not acknowledged until it is. It tells how many
// are, after each call, and returns how many calls failed.
func produce(ctx context.Context, dsn string, n int, told chan<- int) (failed int, err error) {
	defer close(told)
	store, err := pgstore.Open(pgstore.Config{DSN: fencerow.NewSecret(dsn), Timeout: time.Second})
	if err != nil {
		return 0, err
	}
	defer store.Close()
	again := time.NewTicker(glance)
	defer again.Stop()
	for from := 0; from < n; from += portion {
		p := fencerow.EnqueueParams{Instance: failoverInstance}
		for i := from; i < min(from+portion, n); i++ {
			p.Entries = append(p.Entries, numbered{failoverInstance, i}.newEntry())
		}
		for {
			if _, err = store.EnqueueMany(ctx, p); err == nil {
				break
			}
			failed++
			select {
			case <-ctx.Done():
				return failed, err
			case <-again.C:
			}
		}
		select {
		case told <- from + portion:
		case <-ctx.Done():
			return failed, ctx.Err()
		}
	}
	return failed, nil
}

// recordedTwice are correlation ids that daemons have said more than once to have recorded as successes: what
// they were acknowledged was lost.
func recordedTwice(daemons ...*daemon) int {
	times := map[string]int{}
	for _, d := range daemons {
		for _, id := range completedBy(d) {
			times[id]++
		}
	}
	twice := 0
	for _, n := range times {
		if n > 1 {
			twice++
		}
	}
	return twice
}

// With synchronous replication a failover under load loses nothing that was acknowledged to anybody: daemons
// go on under the claims that they hold.
func TestFailoverToASynchronousReplicaLosesNothingThatWasAcknowledged(t *testing.T) {
	t.Parallel()
	entries := size(t, 20_000, 2000)
	w := newFailoverWorld(t)
	w.standby.Synchronous(t)
	for name, value := range map[string]string{
		"LEASE": "20s", "DELIVERY_TIMEOUT": "5s", "BATCH_LIMIT": "50", "CONCURRENCY": "8",
		"LEDGER_INTERVAL_SEC": "0.05",
	} {
		w.settings[name] = value
	}
	_, err := w.stub.AddRule(ledgerstub.Rule{
		Fault: ledgerstub.Fault{Mode: ledgerstub.ModeSlow, Stall: ledgerstub.Millis(10 * time.Millisecond)},
	})
	check(t, err)
	daemons := []*daemon{
		w.start(failoverInstance, map[string]string{"WORKER": "first"}),
		w.start(failoverInstance, map[string]string{"WORKER": "second"}),
	}
	type end struct {
		failed int
		err    error
	}
	// The producer gets a third of its work ahead of the test at most, so that the failover comes amid it.
	told, ended := make(chan int, entries/3/portion), make(chan end, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	go func() {
		failed, err := produce(ctx, w.settings["DSN"], entries, told)
		ended <- end{failed, err}
	}()
	acknowledged := 0
	for acknowledged < entries/3 {
		acknowledged = <-told
	}
	until(t, patience, "outcomes on the old primary", func() bool {
		return one[int](w.world, `SELECT count(*) FROM fencerow.ledger_outcome`) >= entries/10
	})
	promoted := w.failOver()
	kept := one[int](w.world, `SELECT count(*) FROM fencerow.ledger_outcome`)
	for range told {
		// It goes on.
	}
	produced := <-ended
	check(t, produced.err)
	w.awaitDrained(2*patience, failoverInstance)
	var recovered time.Duration
	for _, d := range daemons {
		d.stop()
		equal(t, "records given up", len(d.log("record abandoned")), 0)
		for _, r := range d.log("outcome recorded") {
			if r.Time.After(promoted) && (recovered == 0 || r.Time.Sub(promoted) < recovered) {
				recovered = r.Time.Sub(promoted)
			}
		}
	}

	w.checkBooked(w.stub, failoverInstance, entries)
	equal(t, "entries that ended in success, once", one[int](w.world, `
SELECT count(*)
FROM fencerow.ledger_outbox e
WHERE (
    SELECT count(*) FILTER (WHERE status = 'completed') * count(*)
    FROM fencerow.ledger_outcome o
    WHERE o.outbox_id = e.outbox_id
) = 1`), entries)
	equal(t, "entries recorded twice", recordedTwice(daemons...), 0)
	equal(t, "claims left", one[int](w.world, `SELECT count(*) FROM fencerow.ledger_claim`), 0)
	report := ledgerstub.Check(w.stub.Journal(), ledgerstub.CheckOptions{})
	if len(report.BookedTwice)+len(report.Changed)+len(report.Falls)+len(report.Overlaps) > 0 {
		t.Errorf("the journal: %d booked twice, %d changed, %d tokens fell, %d overlap",
			len(report.BookedTwice), len(report.Changed), len(report.Falls), len(report.Overlaps))
	}
	if produced.failed == 0 {
		t.Error("the producer met no failover")
	}
	t.Logf("counted: %d entries, %d of them finished before the failover and kept by it; %d calls of the "+
		"producer failed and were repeated; first outcome %s after the promotion; %d sends beyond one an entry, "+
		"0 booked twice",
		entries, kept, produced.failed, recovered.Round(time.Millisecond), report.Extra())
}

// Without it the last commits are lost: claims, outcomes and entries. What was delivered in them is delivered
// again under its old key, and a worker that still believes in a claim of the lost time line is refused by
// the store and by the ledger.
func TestFailoverThatLosesCommitsBooksNothingTwice(t *testing.T) {
	t.Parallel()
	const kept, lost, sent = 300, 50, 8
	w := newFailoverWorld(t)
	// Leases that outlast the test: nothing comes back by expiry, and the zombie believes in its claim. The
	// budget keeps it to one.
	for name, value := range map[string]string{
		"LEASE": "10m", "DELIVERY_TIMEOUT": "2m", "BATCH_LIMIT": "100", "BUDGET": "100", "CONCURRENCY": "8",
		"LEDGER_INTERVAL_SEC": "0.05",
	} {
		w.settings[name] = value
	}
	w.enqueueNumbered(failoverInstance, 0, kept)
	w.standby.AwaitReplay(t)
	w.standby.Disconnect(t)

	w.enqueueNumbered(failoverInstance, kept, kept+lost)
	_, err := w.stub.AddRule(ledgerstub.Rule{
		Fault: ledgerstub.Fault{Mode: ledgerstub.ModeSlow, Stall: ledgerstub.Millis(5 * time.Second)},
	})
	check(t, err)
	zombie := w.start(failoverInstance, map[string]string{"WORKER": "zombie"})
	until(t, patience, "requests in flight", func() bool { return len(w.stub.Journal()) == sent })
	zombie.signal(syscall.SIGSTOP)
	w.stub.ClearRules()
	epoch := w.stub.Journal()[0].Epoch
	held := one[int](w.world, `
SELECT sum(cardinality(outbox_ids)) FROM fencerow.ledger_claim WHERE claimed_by = 'zombie'`)
	second := w.start(failoverInstance, map[string]string{"WORKER": "second"})
	finished := func() int { return one[int](w.world, `SELECT count(*) FROM fencerow.ledger_outcome`) }
	until(t, patience, "outcomes on the old primary", func() bool { return finished() == kept+lost-held })

	promoted := w.failOver()
	w.awaitDrained(patience, failoverInstance)
	recovered := time.Since(promoted)
	equal(t, "entries that survived", finished(), kept)
	// Their producer was told that they are committed, or was not sure: it repeats them.
	w.enqueueNumbered(failoverInstance, kept, kept+lost)
	w.awaitDrained(patience, failoverInstance)
	equal(t, "entries that the ledger had booked for the lost time line", one[int](w.world, `
SELECT count(*) FROM fencerow.ledger_outcome WHERE outcome = 'duplicate_completed'`), kept+lost-held+sent)
	until(t, patience, "the end of every claim", func() bool {
		return one[int](w.world, `SELECT count(*) FROM fencerow.ledger_claim`) == 0
	})

	before := w.allRows()
	zombie.signal(syscall.SIGCONT)
	zombie.await("claim lost for each row", func() bool { return len(zombie.log("claim lost")) >= held })
	dropped := map[string]int{}
	for _, r := range zombie.log("claim lost") {
		dropped[r.Dropped]++
		equal(t, "reason of "+r.CorrelationID, r.Reason, "finished")
	}
	equal(t, "late successes refused", dropped["completed"], sent)
	equal(t, "outcomes recorded by the zombie", len(zombie.log("outcome recorded")), 0)
	for name, rows := range w.allRows() {
		if !bytes.Equal(rows, before[name]) {
			t.Errorf("the zombie changed the %s", name)
		}
	}
	zombie.stop()
	second.stop()
	equal(t, "entries recorded on both time lines", recordedTwice(second), kept+lost-held)
	w.checkBooked(w.stub, failoverInstance, kept+lost)

	stale := 0
	for _, r := range w.stub.Journal() {
		if r.Verdict == ledgerstub.VerdictStale {
			equal(t, "token of a refused request", r.Epoch, epoch)
			stale++
		}
	}
	equal(t, "requests of the zombie refused by the ledger", stale, held-sent)
	report := ledgerstub.Check(w.stub.Journal(), ledgerstub.CheckOptions{Zombies: []int64{epoch}})
	if len(report.BookedTwice)+len(report.Changed)+len(report.Falls) > 0 {
		t.Errorf("the journal: %d booked twice, %d changed, %d tokens fell",
			len(report.BookedTwice), len(report.Changed), len(report.Falls))
	}
	t.Logf("counted: %d entries, a claim of %d rows, %d outcomes and %d of the entries lost with the old time "+
		"line; all delivered %s after the promotion; the zombie: claim lost %d times, %d requests refused as "+
		"stale; 0 booked twice", kept+lost, held, kept+lost-held, lost, recovered.Round(time.Millisecond), held,
		stale)
}
