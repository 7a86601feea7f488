package migrate

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
	"github.com/fourblocks2020/fencerow/sql"
)

// newHostile returns a database migrated from version 1 with hostile rows, and what these rows were before.
func newHostile(t *testing.T) (*runner, *pgtest.Database, []string) {
	t.Helper()
	r, db := newRunnerOn(t)
	mustTo(t, r, 1)
	db.Exec(t, hostileSQL)
	before := mustLines(t, r, contentBeforeSQL)
	mustUp(t, r, Change{1, latest(t)})
	return r, db, before
}

func mustHold(t *testing.T, r *runner, query string, want []string) {
	t.Helper()
	have := mustLines(t, r, query)
	if slices.Equal(have, want) {
		return
	}
	for i := range min(len(have), len(want)) {
		if have[i] != want[i] {
			t.Fatalf("row %d of the rows without owners changed\nwant: %.300s\nhave: %.300s", i, want[i], have[i])
		}
	}
	t.Fatalf("%d rows without owners, want %d", len(have), len(want))
}

func TestHostileRowsSurviveUpDownAndUp(t *testing.T) {
	t.Parallel()
	r, _, before := newHostile(t)
	if len(before) < 25 {
		t.Fatalf("only %d hostile rows", len(before))
	}
	mustMatch(t, r, sql.Golden)
	mustHold(t, r, contentAfterSQL, before)
	mustTo(t, r, 1)
	mustHold(t, r, contentBeforeSQL, before)
	mustUp(t, r, Change{1, latest(t)})
	mustMatch(t, r, sql.Golden)
	mustHold(t, r, contentAfterSQL, before)
}

func TestHostileRowsBelongToNobody(t *testing.T) {
	t.Parallel()
	_, db, before := newHostile(t)
	var owned, pending, legacy int
	if err := db.Connect(t).QueryRow(t.Context(), `
SELECT
    (SELECT count(*) FROM fencerow.ledger_outbox WHERE instance_key IS NOT NULL),
    (SELECT count(*) FROM fencerow.ledger_pending),
    (SELECT count(*) FROM fencerow.ledger_legacy)`).Scan(&owned, &pending, &legacy); err != nil {
		t.Fatal(err)
	}
	if owned != 0 || pending != 0 || legacy != len(before) {
		t.Errorf("owned %d, pending %d, legacy %d; want 0, 0, %d", owned, pending, legacy, len(before))
	}
}

func TestUnownedRowsAreFrozen(t *testing.T) {
	t.Parallel()
	r, db, before := newHostile(t)
	db.Exec(t, `SELECT fencerow.enqueue('a', 'c-1', 'fill', '{}')`)
	conn := db.Connect(t)
	const (
		immutable = "FR002"
		check     = "23514"
	)
	for _, test := range []struct{ statement, state string }{
		{"UPDATE fencerow.ledger_outbox SET instance_key = 'a' WHERE outbox_id = 1", immutable},
		{"UPDATE fencerow.ledger_outbox SET payload = '{}' WHERE outbox_id = 1", immutable},
		{"UPDATE fencerow.ledger_outbox SET outbox_id = outbox_id WHERE outbox_id = 16", immutable},
		{"UPDATE fencerow.ledger_outbox SET instance_key = NULL WHERE instance_key = 'a'", immutable},
		{"UPDATE fencerow.ledger_outbox SET instance_key = 'b' WHERE instance_key = 'a'", immutable},
		{"UPDATE fencerow.ledger_legacy SET status = 'completed' WHERE outbox_id = 1", immutable},
		{
			"INSERT INTO fencerow.ledger_outbox (correlation_id, entry_kind, payload) VALUES ('new', 'fill', '{}')",
			check,
		},
		// With its triggers off, as a restore or a replication worker has them, the constraint alone freezes it.
		{
			"SET session_replication_role = replica;" +
				"UPDATE fencerow.ledger_outbox SET payload = '{}' WHERE outbox_id = 1",
			check,
		},
	} {
		_, err := conn.Exec(t.Context(), test.statement)
		server, ok := errors.AsType[*pgconn.PgError](err)
		if !ok || server.Code != test.state {
			t.Errorf("%s: %v; want SQLSTATE %s", test.statement, err, test.state)
		}
	}
	mustHold(t, r, contentAfterSQL, before)
}

func TestEnqueueDoesNotRunIntoNumbersGivenByHand(t *testing.T) {
	t.Parallel()
	_, db, _ := newHostile(t)
	const query = `SELECT outbox_id FROM fencerow.enqueue('a', 'repeated', 'fill', '{}')`
	if number := one[int64](t, db.Connect(t), query); number != 4294967297 {
		t.Errorf("enqueue: number %d; want the one after the highest that a sequence can pass", number)
	}
}

func TestDownIsRefusedWhileOwnedRowsExist(t *testing.T) {
	t.Parallel()
	r, db, before := newHostile(t)
	db.Exec(t, `SELECT fencerow.enqueue('a', 'c-1', 'fill', '{}')`)
	_, err := DownTo(t.Context(), db.DSN(), 0)
	mustFail(t, err, fencerow.ErrOwnedEntries, 2, "FR003")
	mustBeAt(t, db.DSN(), latest(t)) // nothing was undone
	mustMatch(t, r, sql.Golden)
	mustHold(t, r, contentAfterSQL, before)
	db.Exec(t, "DELETE FROM fencerow.ledger_outbox WHERE instance_key = 'a'")
	mustTo(t, r, 0)
}

func TestDownToNothingIsRefusedWhileAnyEntryExists(t *testing.T) {
	t.Parallel()
	for _, from := range []int{1, latest(t)} {
		t.Run(fmt.Sprintf("FromVersion%d", from), func(t *testing.T) {
			t.Parallel()
			r, db, _ := newHostile(t)
			mustTo(t, r, from)
			count := func() int {
				return one[int](t, db.Connect(t), "SELECT count(*)::integer FROM fencerow.ledger_outbox")
			}
			before := count()
			_, err := DownTo(t.Context(), db.DSN(), 0)
			mustFail(t, err, fencerow.ErrEntries, 1, "")
			mustBeAt(t, db.DSN(), from) // nothing was undone
			if after := count(); after != before || before == 0 {
				t.Errorf("%d entries before, %d after", before, after)
			}
			db.Exec(t, "DELETE FROM fencerow.ledger_outbox")
			if change, err := DownTo(t.Context(), db.DSN(), 0); err != nil || change != (Change{from, 0}) {
				t.Errorf("down with an empty outbox: %+v, %v", change, err)
			}
		})
	}
}

func TestDownWaitsForAnEnqueueThatIsBeingMade(t *testing.T) {
	t.Parallel()
	r, db := newRunnerOn(t)
	mustTo(t, r, 2)
	producer := begin(t, db, `SELECT fencerow.enqueue('a', 'c-1', 'fill', '{}')`)
	failed := make(chan error, 1)
	go func() {
		_, err := r.downTo(t.Context(), 1)
		failed <- err
	}()
	awaitBlocked(t, db.Connect(t))
	run(t, producer, "COMMIT")
	if err := <-failed; !errors.Is(err, fencerow.ErrOwnedEntries) {
		t.Errorf("down beside an enqueue: %v; want it refused", err)
	}
}

func TestUpWaitsForAnOldProducer(t *testing.T) {
	t.Parallel()
	r, db := newRunnerOn(t)
	mustTo(t, r, 1)
	producer := begin(t, db, `
INSERT INTO fencerow.ledger_outbox (correlation_id, entry_kind, payload, status)
VALUES ('late', 'fill', '{}', 'completed')`)
	failed := make(chan error, 1)
	go func() {
		_, err := r.up(t.Context())
		failed <- err
	}()
	awaitBlocked(t, db.Connect(t))
	run(t, producer, "COMMIT")
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	if status := one[string](t, producer, "SELECT status FROM fencerow.ledger_legacy"); status != "completed" {
		t.Errorf("the late row's status: %q; want it kept", status)
	}
}
