package e2e

import (
	"strconv"
	"testing"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
)

func TestAPoisonEntryIsDeadLetteredAloneAndHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	status := func(code int) ledgerstub.Fault {
		return ledgerstub.Fault{Mode: ledgerstub.ModeStatus, Status: code}
	}
	const attempts = 5
	for _, kind := range []struct {
		name   string
		fault  ledgerstub.Fault
		reason fencerow.ReasonCode
		// targetWide answers look like the ledger's own failure. Each daemon forgives an entry two of them; of
		// the others, two at the last attempt.
		targetWide bool
	}{
		{"Drawing500", status(500), fencerow.ReasonLedgerError.AsUnverified(), false},
		{"CuttingItsConnection", ledgerstub.Fault{Mode: ledgerstub.ModeCut},
			fencerow.ReasonConnectionCut.AsUnverified(), false},
		{"Drawing404", status(404), fencerow.ReasonEndpointRefused, true},
		{"Drawing503", status(503), fencerow.ReasonLedgerUnavailable, true},
	} {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			n := size(t, 5000, 500)
			_, err := w.stub.AddRule(ledgerstub.Rule{Key: "desk-1:poison-1", Fault: kind.fault})
			check(t, err)
			w.enqueueLines("desk-1", append(fills("poison", 1), fills("healthy", n)...))
			settings := func(worker string) map[string]string {
				s := impatient(worker)
				s["MAX_ATTEMPTS"] = strconv.Itoa(attempts)
				return s
			}
			daemons := []*daemon{w.start("desk-1", settings("first")), w.start("desk-1", settings("second"))}

			// Others go on being enqueued while it is tried: an entry is told from a ledger that is down by what the
			// others are answered.
			meanwhile := 0
			until(t, patience, "the end of the poison entry", func() bool {
				meanwhile += one[int](w, `
SELECT count(*)
FROM generate_series(1, 10) n,
LATERAL fencerow.enqueue('desk-1', 'meanwhile-' || ($1::int + n), 'fill', '{}')`, meanwhile)
				return one[int](w, `SELECT count(*) FROM fencerow.ledger_outcome WHERE status <> 'completed'`) > 0
			})
			w.enqueueLines("desk-1", fills("afterwards", 1))
			w.awaitDrained(patience, "desk-1")
			healthy, holds := n+meanwhile+1, 0
			for _, d := range daemons {
				d.stop()
				holds += len(d.log("target held"))
			}

			type life struct {
				Status, Reason string
				Attempts       int
			}
			type shown struct{ Outcomes []life }
			lives := document[shown](t, w.mustRun("desk-1", "show", "--json", "poison-1")).Outcomes
			if want := (life{"dead_lettered", string(kind.reason), attempts}); len(lives) != 1 || lives[0] != want {
				t.Errorf("the poison entry ended as %+v, want %+v", lives, want)
			}
			// Where a daemon finds nothing but the poison entry to try, it cannot tell it from the ledger: such draws
			// come on top of those that are forgiven, a poll each.
			sends, alone := len(w.stub.Sends("desk-1:poison-1")), claimedAlone(w.stub, "desk-1:poison-1")
			forgiven, held := 2*len(daemons), 0
			if kind.targetWide {
				held = forgiven // each forgiven one holds a daemon until another entry is answered
			}
			if sends < attempts || sends > attempts+forgiven+alone || holds > held {
				t.Errorf("%d sends of the poison entry, %d of them alone, %d holds", sends, alone, holds)
			}
			equal(t, "healthy entries completed at their first attempt", one[int](w, `
SELECT count(*)
FROM fencerow.ledger_outcome
WHERE status = 'completed'
    AND attempt_count = 1`), healthy)
			equal(t, "sends of healthy entries", len(w.stub.Journal())-sends, healthy)
			slowest := one[float64](w, `
SELECT max(extract(epoch FROM c.outcome_at - o.enqueued_at))::float
FROM fencerow.ledger_outcome c
JOIN fencerow.ledger_outbox o ON o.outbox_id = c.outbox_id
WHERE o.correlation_id LIKE 'meanwhile-%'`)
			if slowest > 30 { // seconds, for a machine that is busy with other tests
				t.Errorf("an entry beside the poison one waited %.1f s", slowest)
			}
			t.Logf("%d healthy entries, 2 daemons: each delivered once, the slowest of those enqueued meanwhile "+
				"after %.2f s; the poison entry sent %d times, %d of them alone, dead-lettered after %d attempts (%s); "+
				"%d holds", healthy, slowest, sends, alone, attempts, kind.reason, holds)
		})
	}
}

// claimedAlone counts the claims under which nothing but the entry of the key was sent.
func claimedAlone(stub *ledgerstub.Stub, key string) (n int) {
	sent := map[int64]int{}
	for _, r := range stub.Journal() {
		sent[r.Epoch]++
	}
	for _, r := range stub.Sends(key) {
		if sent[r.Epoch] == 1 {
			n++
		}
	}
	return n
}
