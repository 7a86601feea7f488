package schema_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"

	"github.com/fourblocks2020/fencerow/internal/migrate"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var newest = pgtest.NewTemplate(func(ctx context.Context, dsn string) error {
	_, err := migrate.Up(ctx, dsn)
	return err
})

// SQLSTATEs that a producer meets.
const (
	badInput      = "22023"
	badText       = "22P02"
	conflict      = "FR001"
	checkFailed   = "23514"
	serialization = "40001"
)

// run sends plain SQL in the simple protocol, as psql does.
func run(t *testing.T, conn *pgx.Conn, statements string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statements, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatalf("%.300s: %v", statements, err)
	}
}

// refused runs statements that must fail with the SQLSTATE, and returns what the server said.
func refused(t *testing.T, conn *pgx.Conn, state, statements string) *pgconn.PgError {
	t.Helper()
	_, err := conn.Exec(t.Context(), statements, pgx.QueryExecModeSimpleProtocol)
	server, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || server.Code != state {
		t.Fatalf("%.300s: %v; want SQLSTATE %s", statements, err, state)
	}
	return server
}

// texts returns the first column of what query gives.
func texts(t *testing.T, conn *pgx.Conn, query string) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), query, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatalf("%.300s: %v", query, err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%.300s: %v", query, err)
	}
	return lines
}

// mustGive compares the rows of a query, one text each, with want.
func mustGive(t *testing.T, conn *pgx.Conn, query string, want ...string) {
	t.Helper()
	if have := texts(t, conn, query); strings.Join(have, "\n") != strings.Join(want, "\n") {
		t.Fatalf("%.300s gave %q; want %q", query, have, want)
	}
}

// written counts the rows of every table that enqueue writes.
const written = `
SELECT concat_ws(
    ' ',
    (SELECT count(*) FROM fencerow.ledger_outbox),
    (SELECT count(*) FROM fencerow.ledger_pending),
    (SELECT count(*) FROM fencerow.ledger_skip)
)`

// Literals of the limits.
const (
	trace         = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	most38        = "(repeat('9', 20) || '.' || repeat('9', 18))::numeric"
	digits39      = "(repeat('9', 21) || '.' || repeat('9', 18))::numeric"
	payloadAtMost = `('{"a": "' || repeat('x', 262144 - 9) || '"}')::json`
	payloadAbove  = `('{"a": "' || repeat('x', 262144 - 8) || '"}')::json`
)

// args are the arguments of an enqueue as SQL literals; what is missing is the default.
type args map[string]string

// good is an entry that uses everything.
func good() args {
	return args{
		"instance_key":   "'desk-1'",
		"correlation_id": "'c-1'",
		"entry_kind":     "'fill'",
		"payload":        `'{"quantity": 3}'`,
		"slot_id":        "'slot-1'",
		"cash_delta":     "12.5",
		"currency":       "'USD'",
		"traceparent":    "'" + trace + "'",
		"skip":           "true",
	}
}

// with returns a copy of a with one argument replaced.
func (a args) with(name, literal string) args {
	changed := args{name: literal}
	for n, l := range a {
		if n != name {
			changed[n] = l
		}
	}
	return changed
}

// one is a call that enqueues the entry alone.
func (a args) one() string { return "fencerow.enqueue(" + a.named() + ")" }

// try is such a call, with a conflict for a result.
func (a args) try() string { return "fencerow.try_enqueue(" + a.named() + ")" }

func (a args) named() string {
	named := make([]string, 0, len(a))
	for name, literal := range a {
		named = append(named, name+" => "+literal)
	}
	return strings.Join(named, ", ")
}

// many is a call that enqueues entries, all of the first one's instance, in one statement.
func many(entries ...args) string {
	call := []string{entries[0]["instance_key"]}
	for _, column := range []struct{ name, kind string }{
		{"correlation_id", "text"}, {"entry_kind", "text"}, {"payload", "text"}, {"slot_id", "text"},
		{"cash_delta", "numeric"}, {"currency", "text"}, {"traceparent", "text"}, {"skip", "boolean"},
	} {
		elements := make([]string, len(entries))
		for i, entry := range entries {
			elements[i] = entry[column.name]
		}
		call = append(call, "ARRAY["+strings.Join(elements, ", ")+"]::"+column.kind+"[]")
	}
	return "fencerow.enqueue_many(" + strings.Join(call, ", ") + ")"
}
