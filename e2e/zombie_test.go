package e2e

import (
	"bytes"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
)

// allRowsSQL are all rows that say how the entries stand.
var allRowsSQL = map[string]string{
	"pending":  `SELECT * FROM fencerow.ledger_pending ORDER BY outbox_id`,
	"claims":   `SELECT * FROM fencerow.ledger_claim ORDER BY claim_token`,
	"outcomes": `SELECT * FROM fencerow.ledger_outcome ORDER BY outbox_id, life`,
	"slots":    `SELECT * FROM fencerow.ledger_slot ORDER BY instance_key, slot_id`,
	"skips":    `SELECT * FROM fencerow.ledger_skip ORDER BY instance_key, correlation_id`,
}

func (w *world) allRows() map[string][]byte {
	w.t.Helper()
	state := map[string][]byte{}
	for name, query := range allRowsSQL {
		state[name] = w.dump(query)
	}
	return state
}

// zombie is a daemon that was stopped while the ledger had its requests, and whose rows another one finished.
type zombie struct {
	*world
	daemon *daemon
	rows   int
	sent   int // by the zombie, before it was stopped
	epoch  int64
}

const (
	zombieInstance    = "desk-1"
	zombieConcurrency = 8
	zombieLease       = 6 * time.Second
)

func zombieSettings(worker string) map[string]string {
	return map[string]string{
		"WORKER": worker, "LEASE": zombieLease.String(), "DELIVERY_TIMEOUT": "2500ms", "BATCH_LIMIT": "30",
		"CONCURRENCY": fmt.Sprint(zombieConcurrency),
	}
}

// newZombie has a daemon claim rows and send some; the ledger does with those what fault says. Then it is
// stopped, and another daemon finishes all rows after the lease. The zombie is still stopped.
func newZombie(t *testing.T, fault ledgerstub.Fault) *zombie {
	t.Helper()
	z := &zombie{world: newWorld(t), rows: 30, sent: zombieConcurrency}
	z.enqueueNumbered(zombieInstance, 0, z.rows)
	_, err := z.stub.AddRule(ledgerstub.Rule{Fault: fault})
	check(t, err)
	z.daemon = z.start(zombieInstance, zombieSettings("zombie"))
	until(t, patience, "requests in flight", func() bool { return len(z.stub.Journal()) == z.sent })
	z.daemon.signal(syscall.SIGSTOP)
	z.epoch = z.stub.Journal()[0].Epoch
	equal(t, "rows held by the zombie", one[int](z.world, `
SELECT cardinality(outbox_ids) FROM fencerow.ledger_claim WHERE claimed_by = 'zombie'`), z.rows)
	z.stub.ClearRules()

	second := z.start(zombieInstance, zombieSettings("second"))
	z.awaitDrained(patience, zombieInstance)
	until(t, patience, "the end of every claim", func() bool {
		return one[int](z.world, `SELECT count(*) FROM fencerow.ledger_claim`) == 0
	})
	second.stop()
	equal(t, "rows finished by the second", len(completedBy(second)), z.rows)
	equal(t, "slots with a snapshot", one[int](z.world, `
SELECT count(*) FROM fencerow.ledger_slot WHERE ledger_version > 0`), 5)
	equal(t, "skips resolved", one[int](z.world, `
SELECT count(*) FROM fencerow.ledger_skip WHERE resolved_at IS NOT NULL`), z.rows/5)
	return z
}

// completedBy returns the correlation ids that a daemon's log says it completed, in order.
func completedBy(d *daemon) []string {
	var ids []string
	for _, r := range d.log("outcome recorded") {
		if r.Outcome == "completed" || r.Outcome == "duplicate_completed" {
			ids = append(ids, r.CorrelationIDs...)
		}
	}
	slices.Sort(ids)
	return ids
}

// wake lets the zombie go on, and checks that it reports each row as lost and changes nothing. It returns how
// many of each outcome it dropped.
func (z *zombie) wake() map[string]int {
	z.t.Helper()
	before, balances := z.allRows(), z.stub.Balances()
	sends := len(z.stub.Journal())
	z.daemon.signal(syscall.SIGCONT)
	z.daemon.await("claim lost for each row", func() bool { return len(z.daemon.log("claim lost")) >= z.rows })

	dropped := map[string]int{}
	lost := map[string]bool{}
	for _, r := range z.daemon.log("claim lost") {
		lost[r.CorrelationID] = true
		dropped[r.Dropped]++
		equal(z.t, "level of claim lost", r.Level, "WARN")
		equal(z.t, "claim result", r.ClaimResult, "lost")
		equal(z.t, "reason of "+r.CorrelationID, r.Reason, "finished")
	}
	equal(z.t, "rows reported as lost", len(lost), z.rows)
	equal(z.t, "records of a lost claim", len(z.daemon.log("claim lost")), z.rows)
	equal(z.t, "outcomes recorded by the zombie", len(z.daemon.log("outcome recorded")), 0)
	for name, rows := range z.allRows() {
		if !bytes.Equal(rows, before[name]) {
			z.t.Errorf("the zombie changed the %s", name)
		}
	}
	byName := func(a, b ledgerstub.Balance) int {
		return bytes.Compare([]byte(a.Slot+a.Currency), []byte(b.Slot+b.Currency))
	}
	after := z.stub.Balances()
	slices.SortFunc(balances, byName)
	slices.SortFunc(after, byName)
	equal(z.t, "the ledger's balances", fmt.Sprint(after), fmt.Sprint(balances))
	equal(z.t, "sends after the zombie woke", len(z.stub.Journal())-sends, 0)
	z.checkBooked(z.stub, zombieInstance, z.rows)

	// It is a daemon like any other again.
	z.enqueueNumbered(zombieInstance, z.rows, 2*z.rows)
	z.awaitDrained(patience, zombieInstance)
	z.daemon.stop()
	equal(z.t, "rows completed by the daemon that was a zombie", len(completedBy(z.daemon)), z.rows)
	z.checkBooked(z.stub, zombieInstance, 2*z.rows)
	return dropped
}

func TestAZombieWithoutAnswersChangesNothing(t *testing.T) {
	t.Parallel()
	z := newZombie(t, ledgerstub.Fault{Mode: ledgerstub.ModeHang})
	dropped := z.wake()
	// What hung ended as a failure with no answer; what had not started was to be released.
	equal(t, "failures dropped", dropped["retryable_failure"], z.sent)
	equal(t, "releases dropped", dropped["none"], z.rows-z.sent)
	z.logCounts(dropped)
}

// The answers of a zombie are late successes: its requests were booked, and the second holder's were
// duplicates. They came while it was stopped, so that it may see them or its own timeout first.
func TestAZombieWithLateSuccessesChangesNothing(t *testing.T) {
	t.Parallel()
	z := newZombie(t, ledgerstub.Fault{Mode: ledgerstub.ModeSlow, Stall: ledgerstub.Millis(time.Second)})
	duplicates := one[int](z.world, `
SELECT count(*) FROM fencerow.ledger_outcome WHERE outcome = 'duplicate_completed' AND attempt_count = 2`)
	equal(t, "rows that the second found booked", duplicates, z.sent)
	dropped := z.wake()
	equal(t, "outcomes dropped", dropped["retryable_failure"]+dropped["completed"], z.sent)
	equal(t, "releases dropped", dropped["none"], z.rows-z.sent)
	z.logCounts(dropped)
}

func (z *zombie) logCounts(dropped map[string]int) {
	z.t.Helper()
	report := ledgerstub.Check(z.stub.Journal(), ledgerstub.CheckOptions{Zombies: []int64{z.epoch}})
	equal(z.t, "fencing tokens that fell", len(report.Falls), 0)
	equal(z.t, "requests beyond one an entry", report.Extra(), z.sent)
	z.t.Logf("counted: %d rows held past their lease, %d of them sent; claim lost %d times, dropped %v; "+
		"nothing changed in %d tables", z.rows, z.sent, z.rows, dropped, len(allRowsSQL))
}
