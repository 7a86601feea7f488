package schema_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

func TestAnEntryStandsAndFallsWithItsTransaction(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewDatabase(t, newest).Connect(t)
	run(t, conn, "BEGIN; SELECT * FROM "+good().one()+"; ROLLBACK")
	mustGive(t, conn, written, "0 0 0")
	run(t, conn, "BEGIN; SELECT * FROM "+good().one()+"; COMMIT")
	mustGive(t, conn, written, "1 1 1")
}

func TestASavepointOutlivesARefusal(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewDatabase(t, newest).Connect(t)
	run(t, conn, "BEGIN; SELECT * FROM "+good().one())
	for state, entry := range map[string]args{
		conflict: good().with("entry_kind", "'fee'"),
		badInput: good().with("entry_kind", "''"),
	} {
		run(t, conn, "SAVEPOINT s")
		_ = refused(t, conn, state, "SELECT * FROM "+entry.one())
		run(t, conn, "ROLLBACK TO SAVEPOINT s")
	}
	other := good().with("correlation_id", "'c-2'").one()
	run(t, conn, "SAVEPOINT s; SELECT * FROM "+other+"; ROLLBACK TO SAVEPOINT s")
	mustGive(t, conn, "SELECT result FROM "+other, "inserted")
	run(t, conn, "COMMIT")
	mustGive(t, conn, written, "2 2 2")
}

// waiting runs a statement on conn in the background, once another session makes it wait.
func waiting(t *testing.T, db *pgtest.Database, conn *pgx.Conn, statement string) func() (string, error) {
	t.Helper()
	type reply struct {
		text string
		err  error
	}
	replies := make(chan reply, 1)
	go func() {
		var r reply
		r.err = conn.QueryRow(t.Context(), statement, pgx.QueryExecModeSimpleProtocol).Scan(&r.text)
		replies <- r
	}()
	watcher := db.Connect(t)
	for blocked := ""; blocked != "true"; { // another session's state, which nothing announces
		blocked = texts(t, watcher,
			fmt.Sprintf("SELECT (cardinality(pg_blocking_pids(%d)) > 0)::text", conn.PgConn().PID()))[0]
	}
	return func() (string, error) {
		r := <-replies
		return r.text, r.err
	}
}

func TestAConcurrentDuplicateWaitsForTheFirst(t *testing.T) {
	t.Parallel()
	for _, form := range []struct{ name, same, other string }{
		{
			"One", "SELECT outbox_id || ' ' || result FROM " + good().one(),
			"SELECT outbox_id || ' ' || result FROM " + good().with("cash_delta", "99").one(),
		},
		{
			"Try", "SELECT outbox_id || ' ' || result FROM " + good().try(),
			"SELECT outbox_id || ' ' || result FROM " + good().with("cash_delta", "99").try(),
		},
		{
			"Many", "SELECT entry_id || ' ' || entry_result FROM " + many(good()),
			"SELECT entry_id || ' ' || entry_result FROM " + many(good().with("cash_delta", "99")),
		},
	} {
		for _, test := range []struct{ name, end, second, want, state string }{
			{"CommittedIsADuplicate", "COMMIT", form.same, "1 duplicate", ""},
			{"RolledBackLeavesRoom", "ROLLBACK", form.same, "2 inserted", ""},
			{"CommittedWithOtherContentIsAConflict", "COMMIT", form.other, "1 conflict", conflict},
		} {
			t.Run(form.name+test.name, func(t *testing.T) {
				t.Parallel()
				db := pgtest.NewDatabase(t, newest)
				first := db.Connect(t)
				run(t, first, "BEGIN; "+form.same)
				answer := waiting(t, db, db.Connect(t), test.second)
				run(t, first, test.end)
				have, err := answer()
				if test.state != "" && form.name == "One" { // for the others a conflict is a result
					if server, ok := errors.AsType[*pgconn.PgError](err); !ok || server.Code != test.state {
						t.Errorf("%q, %v; want SQLSTATE %s", have, err, test.state)
					}
				} else if err != nil || have != test.want {
					t.Errorf("%q, %v; want %q", have, err, test.want)
				}
				mustGive(t, first, written, "1 1 1")
			})
		}
	}
}

func TestInRepeatableReadAConcurrentDuplicateIsASerializationFailure(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]string{
		"One": good().one(), "Try": good().try(), "Many": many(good()),
	} {
		for _, level := range []string{"REPEATABLE READ", "SERIALIZABLE"} {
			t.Run(name+"In"+level, func(t *testing.T) {
				t.Parallel()
				db := pgtest.NewDatabase(t, newest)
				conn, other := db.Connect(t), db.Connect(t)
				run(t, conn, "BEGIN ISOLATION LEVEL "+level)
				mustGive(t, conn, written, "0 0 0")
				run(t, other, "SELECT * FROM "+good().one())
				_ = refused(t, conn, serialization, "SELECT * FROM "+call)
				run(t, conn, "ROLLBACK")
				run(t, conn, "BEGIN ISOLATION LEVEL "+level)
				run(t, conn, "SELECT * FROM "+call) // once more: the first is seen
				run(t, conn, "COMMIT")
				mustGive(t, conn, written, "1 1 1")
			})
		}
	}
}

func TestTwoProducersOfTheSameKeysDoNotDeadlock(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, newest)
	entry := func(id string) args { return good().with("correlation_id", "'"+id+"'") }
	first, second := db.Connect(t), db.Connect(t)
	run(t, first, "BEGIN; SELECT * FROM "+entry("b").one())
	// The second lists its keys the other way round; taken in that order, it would hold c while it waits for b.
	answer := waiting(t, db, second, "SELECT string_agg(entry_result, ' ' ORDER BY entry_position) FROM "+
		many(entry("c"), entry("b"), entry("a")))
	mustGive(t, first, "SELECT result FROM "+entry("c").one(), "inserted")
	run(t, first, "COMMIT")
	if have, err := answer(); err != nil || have != "duplicate duplicate inserted" {
		t.Errorf("the second producer: %q, %v", have, err)
	}
}

func TestAnEntryDeletedByHandTakesItsPendingRowAlong(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewDatabase(t, newest).Connect(t)
	run(t, conn, "SELECT * FROM "+good().with("skip", "false").one())
	run(t, conn, "SELECT * FROM "+good().with("correlation_id", "'c-2'").with("skip", "false").one())
	run(t, conn, "DELETE FROM fencerow.ledger_outbox WHERE correlation_id = 'c-1'")
	mustGive(t, conn, written, "1 1 0")
}
