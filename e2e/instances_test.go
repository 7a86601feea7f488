package e2e

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

// insertLegacySQL makes $1 rows of the outbox as it was before entries had owners, of everything that it
// allowed. Half of them have a correlation id that an owned entry gets too, and all that are pending are due.
const insertLegacySQL = `
INSERT INTO fencerow.ledger_outbox (
    outbox_id, correlation_id, entry_kind, slot_id, cash_delta, currency, payload, status, attempt_count,
    next_retry_at, enqueued_at
)
SELECT
    CASE WHEN n % 100 = 0 THEN 5000000000 + n ELSE n END,
    CASE n % 4
        WHEN 0 THEN 'e-' || lpad(n::text, 5, '0')
        WHEN 1 THEN 'e-' || lpad((n / 2)::text, 5, '0')
        WHEN 2 THEN 'repeated'
        ELSE E' \x01 ünreadable \n' || repeat('x', n)
    END,
    CASE WHEN n % 3 = 0 THEN 'Not A Word!' ELSE 'fill' END,
    CASE n % 5 WHEN 0 THEN NULL WHEN 1 THEN '' ELSE 'slot-' || n % 6 END,
    CASE n % 6
        WHEN 0 THEN 'NaN'
        WHEN 1 THEN 0
        WHEN 2 THEN 1e60 + n
        ELSE (n::numeric / 7)::numeric(60, 30)
    END,
    CASE n % 3 WHEN 0 THEN NULL WHEN 1 THEN 'EUR' ELSE 'no currency' END,
    (CASE n % 4
        WHEN 0 THEN '{"n" :  1.0e2, "n":1}'
        WHEN 1 THEN '[1, 2 ]'
        WHEN 2 THEN 'null'
        ELSE '"\u0000"'
    END)::json,
    CASE n % 3 WHEN 0 THEN 'completed' WHEN 1 THEN 'pending' ELSE 'whatever' END,
    n % 25 - 3,
    CASE n % 4 WHEN 0 THEN NULL WHEN 1 THEN '-infinity' WHEN 2 THEN now() - n * interval '1 s' ELSE now() END,
    now() - n * interval '1 day'
FROM generate_series(1, $1::integer) n`

const (
	legacyBeforeSQL = `
SELECT outbox_id, correlation_id, entry_kind, slot_id, cash_delta, currency, payload, enqueued_at, status,
    attempt_count, next_retry_at
FROM fencerow.ledger_outbox
ORDER BY outbox_id`
	legacyAfterSQL = `
SELECT o.outbox_id, o.correlation_id, o.entry_kind, o.slot_id, o.cash_delta, o.currency, o.payload,
    o.enqueued_at, l.status, l.attempt_count, l.next_retry_at
FROM fencerow.ledger_outbox o
JOIN fencerow.ledger_legacy l ON l.outbox_id = o.outbox_id
WHERE o.instance_key IS NULL
ORDER BY o.outbox_id`
)

// dump returns the rows of a query as the database keeps them, bit for bit.
func (w *world) dump(query string) []byte {
	w.t.Helper()
	conn, err := w.pool.Acquire(w.t.Context())
	check(w.t, err)
	defer conn.Release()
	var out bytes.Buffer
	_, err = conn.Conn().PgConn().CopyTo(w.t.Context(), &out, "COPY ("+query+") TO STDOUT (FORMAT binary)")
	check(w.t, err)
	return out.Bytes()
}

// newWorldWithLegacy returns a world that was migrated with n rows of the first schema in it, and their dump
// from before the migration.
func newWorldWithLegacy(t *testing.T, n int) (*world, []byte) {
	t.Helper()
	w := newWorldOn(t, pgtest.NewDatabase(t, nil))
	w.mustRun("", "migrate", "up")
	w.mustRun("", "migrate", "down", "--to", "1")
	w.db.Exec(t, insertLegacySQL, n)
	before := w.dump(legacyBeforeSQL)
	w.mustRun("", "migrate", "up")
	return w, before
}

// views is what an instance sees of itself through the commands.
type views struct {
	pending  []string // correlation ids
	statuses map[string]int64
	sums     map[string]string // pending by currency
	blocked  int64
}

func (w *world) views(instance string) views {
	w.t.Helper()
	v := views{sums: map[string]string{}}
	type page struct {
		Entries []struct {
			ID string `json:"correlation_id"`
		}
		Next *string
	}
	args := []string{"pending", "--json", "--limit", "7000"}
	for more := true; more; {
		p := document[page](w.t, w.mustRun(instance, args...))
		for _, e := range p.Entries {
			v.pending = append(v.pending, e.ID)
		}
		if more = p.Next != nil; more {
			args = append(args[:4:4], "--after", *p.Next)
		}
	}
	slices.Sort(v.pending)
	type counts struct{ Statuses map[string]int64 }
	v.statuses = document[counts](w.t, w.mustRun(instance, "counts", "--json")).Statuses
	maps.DeleteFunc(v.statuses, func(_ string, n int64) bool { return n == 0 })
	type deltas struct {
		Currencies []struct {
			Currency     string
			Pending      string
			BlockedCount int64 `json:"blocked_count"`
		}
	}
	for _, c := range document[deltas](w.t, w.mustRun(instance, "cash-delta", "--json")).Currencies {
		v.sums[c.Currency] = c.Pending
		v.blocked += c.BlockedCount
	}
	return v
}

// checkViews fails the test unless the instance sees the entries from..to-1 pending, as many completed as
// said, and nothing else.
func (w *world) checkViews(instance string, from, to, completed int) {
	w.t.Helper()
	var pending []string
	sums := map[string]decimal.Decimal{}
	for n := from; n < to; n++ {
		e := numbered{instance, n}
		pending = append(pending, e.id())
		if e.currency() != "" {
			sums[e.currency()] = sums[e.currency()].Add(e.delta())
		}
	}
	v := w.views(instance)
	if !slices.Equal(v.pending, pending) {
		w.t.Errorf("%s sees %d entries pending, want its own %d", instance, len(v.pending), len(pending))
	}
	statuses := map[string]int64{}
	if len(pending) > 0 {
		statuses["pending"] = int64(len(pending))
	}
	if completed > 0 {
		statuses["completed"] = int64(completed)
	}
	if !maps.Equal(v.statuses, statuses) {
		w.t.Errorf("%s counts %v, want %v", instance, v.statuses, statuses)
	}
	want := map[string]string{}
	for currency, sum := range sums {
		want[currency] = sum.String()
	}
	if !maps.Equal(v.sums, want) {
		w.t.Errorf("%s sums up %v, want %v", instance, v.sums, want)
	}
	equal(w.t, "blocked entries of "+instance, v.blocked, 0)
}

func TestTwoInstancesShareOneDatabase(t *testing.T) {
	t.Parallel()
	const legacy, leftover = 1000, 40
	entries := size(t, 20_000, 20_000)
	first := entries * 3 / 4 // enqueued before the daemons start, the others while they run
	w, before := newWorldWithLegacy(t, legacy)
	// However busy the machine is, no delivery shall time out: it would rightly be sent again.
	w.settings["LEASE"], w.settings["DELIVERY_TIMEOUT"] = "10m", "2m"
	equal(t, "rows from before", one[int](w, `SELECT count(*) FROM fencerow.ledger_legacy`), legacy)

	// A ledger for each, so that an entry that the other's daemon had delivered would be missed and found.
	instances := []string{"desk-a", "desk-b"}
	stubs := map[string]*ledgerstub.Stub{}
	urls := map[string]string{}
	for _, instance := range instances {
		stubs[instance] = ledgerstub.New(ledgerstub.Options{})
		urls[instance] = serve(t, stubs[instance])
		w.enqueueNumbered(instance, 0, first)
	}
	w.checkViews("desk-a", 0, first, 0)
	w.checkViews("desk-b", 0, first, 0)

	started := time.Now()
	var daemons []*daemon
	for i := range 4 {
		instance := instances[i%2]
		daemons = append(daemons, w.start(instance, map[string]string{
			"LEDGER_URL": urls[instance], "WORKER": fmt.Sprintf("worker-%d", i),
		}))
	}
	for _, instance := range instances {
		w.enqueueNumbered(instance, first, entries)
	}
	for _, instance := range instances {
		w.awaitDrained(10*time.Minute, instance)
	}
	took := time.Since(started)
	for _, d := range daemons {
		d.stop()
	}

	sends := 0
	for _, instance := range instances {
		w.checkBooked(stubs[instance], instance, entries)
		report := ledgerstub.Check(stubs[instance].Journal(), ledgerstub.CheckOptions{})
		equal(t, "requests for "+instance, report.Requests, entries)
		equal(t, "entries sent more than once for "+instance, len(report.Repeated), 0)
		sends += report.Requests
	}
	for i, d := range daemons {
		completed := 0
		for _, r := range d.log("outcome recorded") {
			completed += r.Count
		}
		if trouble := d.trouble(); len(trouble) > 0 {
			t.Errorf("worker-%d: %d records of trouble, the first %+v", i, len(trouble), trouble[0])
		}
		if completed == 0 {
			t.Errorf("worker-%d delivered nothing", i)
		}
		t.Logf("worker-%d of %s delivered %d", i, d.instance, completed)
	}

	// The two have different numbers of entries left, so that each could tell the other's.
	for i, instance := range instances {
		w.enqueueNumbered(instance, entries, entries+(i+1)*leftover)
		w.checkViews(instance, entries, entries+(i+1)*leftover, entries)
	}
	if !bytes.Equal(w.dump(legacyAfterSQL), before) {
		t.Errorf("the rows from before changed")
	}
	t.Logf("counted: 2 instances, 4 daemons, %d entries booked, %d sends, %d legacy rows identical, "+
		"drained in %.1fs", 2*entries, sends, legacy, took.Seconds())
}
