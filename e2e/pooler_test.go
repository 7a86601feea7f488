package e2e

import (
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

const pooledInstance = "desk-1"

// A pooler with fewer sessions than its clients have connections, and a role with the documented grants only.
func TestDaemonsBehindAPoolerDeliverAndStopInOrder(t *testing.T) {
	t.Parallel()
	entries := size(t, 20_000, 2000)
	w := newWorld(t)
	role := newDaemonRole(t, w.db)
	pooler := pgtest.StartPooler(t, w.db, map[string]string{"default_pool_size": "2"})
	w.settings["DSN"] = w.db.DSN(pgtest.As(role), pgtest.Via(pooler.Address()),
		pgtest.With("default_query_exec_mode", "exec"))
	for name, value := range map[string]string{
		"LEASE": "1h", "DELIVERY_TIMEOUT": "30s", "BATCH_LIMIT": "50", "CONCURRENCY": "8",
		"LEDGER_INTERVAL_SEC": "0.05",
	} {
		w.settings[name] = value
	}
	_, err := w.stub.AddRule(ledgerstub.Rule{
		Fault: ledgerstub.Fault{Mode: ledgerstub.ModeSlow, Stall: ledgerstub.Millis(10 * time.Millisecond)},
	})
	check(t, err)
	w.enqueueNumbered(pooledInstance, 0, entries)
	first := w.start(pooledInstance, map[string]string{"WORKER": "first", "DB_MAX_CONNS": "1"})
	second := w.start(pooledInstance, map[string]string{"WORKER": "second"})
	first.awaitRecord("started")
	second.awaitRecord("started")
	finished := func() int { return one[int](w, `SELECT count(*) FROM fencerow.ledger_outcome`) }
	until(t, patience, "the first outcomes", func() bool { return finished() >= entries/5 })

	told := time.Now()
	first.stop()
	took := time.Since(told)
	w.checkAtRest("first")
	w.checkStopLog(first)

	pooler.Restart(t)
	restarted := finished()
	w.awaitDrained(patience, pooledInstance)
	second.stop()
	w.checkAtRest("second")
	w.checkBooked(w.stub, pooledInstance, entries)
	report := ledgerstub.Check(w.stub.Journal(), ledgerstub.CheckOptions{})
	if len(report.BookedTwice)+len(report.Changed)+len(report.Falls)+len(report.Overlaps) > 0 {
		t.Errorf("the journal: %d booked twice, %d changed, %d tokens fell, %d overlap",
			len(report.BookedTwice), len(report.Changed), len(report.Falls), len(report.Overlaps))
	}
	for _, command := range [][]string{
		{"counts"}, {"pending"}, {"claims"}, {"cash-delta"}, {"show", numbered{n: 1}.id()}, {"hold"}, {"resume"},
		{"prune", "--older-than=1h"}, {"backfill"},
	} {
		w.mustRun(pooledInstance, command...)
	}
	t.Logf("counted: %d entries, 2 daemons on 2 sessions; one with a pool of one stopped after %d, in %s; the "+
		"pooler ended at once and started again after %d; %d sends beyond one an entry", entries, entries/5,
		took.Round(time.Millisecond), restarted, report.Extra())
}

// The driver's default mode cannot work behind a pooler that keeps no prepared statements: whoever meets it
// is told what to do.
func TestCommandThatAPoolerLosesTheStatementsOfSaysWhatToDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	settings := map[string]string{"default_pool_size": "1"}
	if pgtest.StartPooler(t, w.db, nil).KeepsStatements(t) {
		settings["max_prepared_statements"] = "0"
	}
	pooler := pgtest.StartPooler(t, w.db, settings)
	w.settings["DSN"] = w.db.DSN(pgtest.Via(pooler.Address()))
	w.mustRun(pooledInstance, "counts")
	want(t, w.run(pooledInstance, "counts"), 1, "store_statement_lost", "default_query_exec_mode=exec")
}
