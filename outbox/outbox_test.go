package outbox_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/shopspring/decimal"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
	"github.com/fourblocks2020/fencerow/outbox"
)

func TestEntryCommitsAndRollsBackWithTheCallersTransaction(t *testing.T) {
	t.Parallel()
	pool := newPool(t)

	tx := begin(t, pool, "")
	if _, err := outbox.Enqueue(t.Context(), tx, desk, newEntry("rolled-back")); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := count(t, pool); n != 0 {
		t.Fatalf("%d entries after a rollback", n)
	}

	tx = begin(t, pool, "")
	enqueued, err := outbox.Enqueue(t.Context(), tx, desk, newEntry("committed"))
	if err != nil || enqueued.Result != fencerow.EnqueueInserted || enqueued.OutboxID < 1 {
		t.Fatalf("enqueue: %+v, %v", enqueued, err)
	}
	if n := count(t, pool); n != 0 {
		t.Fatalf("%d entries are seen before the commit", n)
	}
	commit(t, tx)

	var owner, payload, delta string
	err = pool.QueryRow(t.Context(),
		"SELECT instance_key, payload::text, cash_delta::text FROM fencerow.ledger_outbox WHERE outbox_id = $1",
		int64(enqueued.OutboxID)).Scan(&owner, &payload, &delta)
	if err != nil {
		t.Fatal(err)
	}
	if owner != string(desk) || payload != string(newEntry("").Payload) || delta != "-12.5" {
		t.Errorf("stored as %s, %s, %s", owner, payload, delta)
	}
}

// A server remembers 64 subtransactions of a transaction; beyond, every other session pays for looking them
// up.
func TestEnqueueTakesNoSubtransaction(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	tx := begin(t, pool, "")
	for _, id := range []string{"a", "b", "a"} {
		if _, err := outbox.Enqueue(t.Context(), tx, desk, newEntry(id)); err != nil {
			t.Fatal(err)
		}
	}
	const rows = `
SELECT count(*) FILTER (WHERE xmin = pg_current_xact_id()::xid), count(*)
FROM (SELECT xmin FROM fencerow.ledger_outbox UNION ALL SELECT xmin FROM fencerow.ledger_pending) AS r`
	var own, all int
	err := tx.QueryRow(t.Context(), rows).Scan(&own, &all)
	if err != nil || own != 4 || all != 4 {
		t.Errorf("%d of %d rows are of the transaction itself: %v", own, all, err)
	}
	commit(t, tx)
}

func TestEqualContentIsADuplicateOfTheFirst(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	tx := begin(t, pool, "")
	first, err := outbox.Enqueue(t.Context(), tx, desk, newEntry("a"))
	if err != nil {
		t.Fatal(err)
	}
	commit(t, tx)

	again := newEntry("a")
	again.CashDelta = decimal.RequireFromString("-12.5000")
	again.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" // not content
	again.OpenSkip = true                                                         // not content
	tx = begin(t, pool, "")
	second, err := outbox.Enqueue(t.Context(), tx, desk, again)
	if err != nil || second.Result != fencerow.EnqueueDuplicate || second.OutboxID != first.OutboxID {
		t.Errorf("enqueued again: %+v, %v; first %+v", second, err, first)
	}
	commit(t, tx)
	if n := count(t, pool); n != 1 {
		t.Errorf("%d entries", n)
	}
}

func TestConflictLeavesTheTransactionUsable(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*fencerow.NewEntry){
		"Payload":  func(e *fencerow.NewEntry) { e.Payload = json.RawMessage(`{"a":2, "b":3}`) },
		"Delta":    func(e *fencerow.NewEntry) { e.CashDelta = decimal.RequireFromString("12.5") },
		"Currency": func(e *fencerow.NewEntry) { e.Currency = "USD" },
		"Kind":     func(e *fencerow.NewEntry) { e.EntryKind = "fee" },
		"Slot":     func(e *fencerow.NewEntry) { e.SlotID = "" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := newPool(t)
			tx := begin(t, pool, "")
			first, err := outbox.Enqueue(t.Context(), tx, desk, newEntry("a"))
			if err != nil {
				t.Fatal(err)
			}
			other := newEntry("a")
			change(&other)
			result, err := outbox.Enqueue(t.Context(), tx, desk, other)
			conflict, ok := errors.AsType[*fencerow.EnqueueConflictError](err)
			if !ok || !errors.Is(err, fencerow.ErrEnqueueConflict) {
				t.Fatalf("a conflict is %v", err)
			}
			id := first.OutboxID
			if conflict.CorrelationID != "a" || conflict.OutboxID != id || result.OutboxID != id {
				t.Errorf("conflict %+v, result %+v, first %+v", conflict, result, first)
			}
			if _, err := outbox.Enqueue(t.Context(), tx, desk, newEntry("b")); err != nil {
				t.Fatalf("after a conflict: %v", err)
			}
			commit(t, tx)
			if n := count(t, pool); n != 2 {
				t.Errorf("%d entries", n)
			}
		})
	}
}

func TestManyAnswersEachEntryInOrder(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	tx := begin(t, pool, "")
	first, err := outbox.Enqueue(t.Context(), tx, desk, newEntry("m"))
	if err != nil {
		t.Fatal(err)
	}
	conflict := newEntry("a")
	conflict.EntryKind = "fee"
	results, err := outbox.EnqueueMany(t.Context(), tx, desk, []fencerow.NewEntry{
		newEntry("z"), newEntry("m"), newEntry("a"), conflict, newEntry("z"),
	})
	if err != nil || len(results) != 5 {
		t.Fatalf("%v, %v", results, err)
	}
	want := []fencerow.EnqueueResult{
		fencerow.EnqueueInserted, fencerow.EnqueueDuplicate, fencerow.EnqueueInserted, fencerow.EnqueueConflict,
		fencerow.EnqueueDuplicate,
	}
	for i, r := range results {
		if r.Result != want[i] {
			t.Errorf("entry %d is %s, want %s", i, r.Result, want[i])
		}
	}
	if results[1].OutboxID != first.OutboxID || results[3].OutboxID != results[2].OutboxID ||
		results[4].OutboxID != results[0].OutboxID {
		t.Errorf("ids %v", results)
	}
	commit(t, tx)
	if n := count(t, pool); n != 3 {
		t.Errorf("%d entries", n)
	}
}

func TestSavepointTakesItsEntriesBack(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	tx := begin(t, pool, "")
	enqueue := func(tx pgx.Tx, id string) {
		t.Helper()
		enqueued, err := outbox.Enqueue(t.Context(), tx, desk, newEntry(id))
		if err != nil || enqueued.Result != fencerow.EnqueueInserted {
			t.Fatalf("%s: %+v, %v", id, enqueued, err)
		}
	}
	enqueue(tx, "outer")
	savepoint, err := tx.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	enqueue(savepoint, "inner")
	if err := savepoint.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	enqueue(tx, "inner") // no duplicate: what the savepoint enqueued is gone
	commit(t, tx)
	if n := count(t, pool); n != 2 {
		t.Errorf("%d entries", n)
	}
}

func TestFailureInsideASavepointSparesTheTransaction(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	if _, err := pool.Exec(t.Context(), "ALTER TABLE fencerow.ledger_pending RENAME TO elsewhere"); err != nil {
		t.Fatal(err)
	}
	tx := begin(t, pool, "")
	if _, err := tx.Exec(t.Context(), "INSERT INTO fill VALUES ('kept', 1)"); err != nil {
		t.Fatal(err)
	}
	err := pgx.BeginFunc(t.Context(), tx, func(savepoint pgx.Tx) error {
		_, err := outbox.Enqueue(t.Context(), savepoint, desk, newEntry("a"))
		return err
	})
	if !errors.Is(err, fencerow.ErrStoreSchema) || strings.Contains(err.Error(), "ledger_pending") {
		t.Errorf("without its table: %v", err)
	}
	commit(t, tx)
	var fills int
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM fill").Scan(&fills); err != nil || fills != 1 {
		t.Errorf("%d fills, %v", fills, err)
	}
}

func TestEveryQueryModeStoresTheSame(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			cfg, err := pgxpool.ParseConfig(pgtest.NewDatabase(t, schema).DSN())
			if err != nil {
				t.Fatal(err)
			}
			cfg.ConnConfig.DefaultQueryExecMode = mode
			pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			hostile := newEntry(`o'dd"{,}\`)
			hostile.Payload = json.RawMessage(`{"a":"\u0000 ' \" {} \\ é 🙂", "n":1e400,"a": null}`)
			hostile.SlotID, hostile.Currency, hostile.CashDelta = "", "", decimal.Decimal{}
			tx := begin(t, pool, "")
			for range 2 {
				results, err := outbox.EnqueueMany(t.Context(), tx, desk, []fencerow.NewEntry{hostile, newEntry("plain")})
				if err != nil || len(results) != 2 || results[0].Result == fencerow.EnqueueConflict {
					t.Fatalf("%+v, %v", results, err)
				}
			}
			commit(t, tx)
			var payload string
			var slot, currency *string
			err = pool.QueryRow(t.Context(),
				"SELECT payload::text, slot_id, currency FROM fencerow.ledger_outbox WHERE correlation_id = $1",
				string(hostile.CorrelationID)).Scan(&payload, &slot, &currency)
			if err != nil || payload != string(hostile.Payload) || slot != nil || currency != nil {
				t.Errorf("stored %s, %v, %v, %v", payload, slot, currency, err)
			}
		})
	}
}

// untouchable is a transaction whose every use panics.
type untouchable struct{ pgx.Tx }

func TestBadInputIsRefusedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	with := func(change func(*fencerow.NewEntry)) fencerow.NewEntry {
		e := newEntry("a")
		change(&e)
		return e
	}
	tooFine := func(e *fencerow.NewEntry) { e.CashDelta = decimal.New(1, -19) }
	payload := func(s string) fencerow.NewEntry {
		return with(func(e *fencerow.NewEntry) { e.Payload = json.RawMessage(s) })
	}
	for name, c := range map[string]struct {
		instance fencerow.InstanceKey
		entry    fencerow.NewEntry
		field    string
	}{
		"NoInstance":    {"", newEntry("a"), "instance_key"},
		"SpaceInKey":    {"desk 1", newEntry("a"), "instance_key"},
		"NoCorrelation": {desk, newEntry(""), "correlation_id"},
		"Newline":       {desk, newEntry("a\nb"), "correlation_id"},
		"UpperCaseKind": {desk, with(func(e *fencerow.NewEntry) { e.EntryKind = "Fill" }), "entry_kind"},
		"NoCurrency":    {desk, with(func(e *fencerow.NewEntry) { e.Currency = "" }), "currency"},
		"TooFine":       {desk, with(tooFine), "cash_delta"},
		"Trace":         {desk, with(func(e *fencerow.NewEntry) { e.TraceParent = "00-0-0-0" }), "traceparent"},
		"NoPayload":     {desk, payload(""), "payload"},
		"Array":         {desk, payload("[]"), "payload"},
		"NUL":           {desk, payload("{\"a\":\"\x00\"}"), "payload"},
		"InvalidUTF8":   {desk, payload("{\"a\":\"\xff\"}"), "payload"},
		"TooLarge":      {desk, payload(`{"a":"` + strings.Repeat("x", fencerow.MaxPayload) + `"}`), "payload"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := outbox.Enqueue(t.Context(), untouchable{}, c.instance, c.entry)
			if input, ok := errors.AsType[*fencerow.InputError](err); !ok || input.Field != c.field {
				t.Errorf("refused with %v, want the field %s", err, c.field)
			}
			many := []fencerow.NewEntry{newEntry("good"), c.entry}
			_, err = outbox.EnqueueMany(t.Context(), untouchable{}, c.instance, many)
			if !errors.Is(err, fencerow.ErrInvalidInput) {
				t.Errorf("of two: %v", err)
			}
		})
	}
	t.Run("TooMany", func(t *testing.T) {
		t.Parallel()
		many := make([]fencerow.NewEntry, fencerow.MaxEnqueue+1)
		_, err := outbox.EnqueueMany(t.Context(), untouchable{}, desk, many)
		if !errors.Is(err, fencerow.ErrInvalidInput) {
			t.Errorf("%v", err)
		}
	})
	t.Run("NoneIsNoError", func(t *testing.T) {
		t.Parallel()
		results, err := outbox.EnqueueMany(t.Context(), untouchable{}, desk, nil)
		if err != nil || len(results) != 0 {
			t.Errorf("%v, %v", results, err)
		}
	})
}

// The grants that docs/interfaces.md gives a producer are enough, and too few for anything else.
func TestProducersGrantsAreEnough(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/interfaces.md")
	if err != nil {
		t.Fatal(err)
	}
	db := pgtest.NewDatabase(t, schema)
	role := db.NewRole(t, nil)
	grants := 0
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "GRANT ") {
			grants++
			db.Exec(t, strings.Replace(strings.TrimSuffix(line, "\n"), "TO producer", `TO "`+role.Name+`"`, 1))
		}
	}
	if grants == 0 {
		t.Fatal("no grants are described")
	}
	conn := db.Connect(t, pgtest.As(role))
	err = pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		skip := newEntry("a")
		skip.OpenSkip = true
		for range 2 {
			if _, err := outbox.Enqueue(t.Context(), tx, desk, skip); err != nil {
				return err
			}
		}
		_, err := tx.Exec(t.Context(), "SELECT fencerow.enqueue('desk-1', 'b', 'fill', '{}', skip => true)")
		return err
	})
	if err != nil {
		t.Errorf("with the grants: %v", err)
	}
	for _, statement := range []string{
		"DELETE FROM fencerow.ledger_outbox", "DELETE FROM fencerow.ledger_pending",
		"SELECT FROM fencerow.ledger_claim", "SELECT FROM fencerow.ledger_outcome",
		"UPDATE fencerow.ledger_pending SET next_retry_at = now()",
	} {
		if _, err := conn.Exec(t.Context(), statement); err == nil {
			t.Errorf("the role may %s", statement)
		}
	}
}
