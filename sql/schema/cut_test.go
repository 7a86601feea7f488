package schema_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fourblocks2020/fencerow/internal/badinput"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

const (
	enqueueOne  = `SELECT result FROM fencerow.enqueue('desk-1', 'c-1', 'fill', $1::text::json)`
	enqueueMany = `SELECT max(entry_result) FROM fencerow.enqueue_many(
		'desk-1', ARRAY['c-0', 'c-1'], ARRAY['fill', 'fill'], ARRAY['{}', $1::text], ARRAY[NULL, NULL]::text[],
		ARRAY[0, 0]::numeric[], ARRAY[NULL, NULL]::text[], ARRAY[NULL, NULL]::text[], ARRAY[false, false])`
)

// wholePayload has a value of each type, an escape, letters beyond ASCII, and white space.
const wholePayload = `{"id": "fill-8841\u0000\"", "n": [1, -0.5e+10, true, false, null], "été": {"b": {}}}`

// stateOf is the SQLSTATE with which a payload is refused, or empty.
func stateOf(t *testing.T, conn *pgx.Conn, statement, payload string) string {
	t.Helper()
	var result string
	err := conn.QueryRow(t.Context(), statement, pgx.QueryExecModeExec, payload).Scan(&result)
	if server, ok := errors.AsType[*pgconn.PgError](err); ok {
		return server.Code
	}
	if err != nil {
		t.Fatal(err)
	}
	return ""
}

func TestAPayloadCutAtAnyByteIsRefusedWithNothingWritten(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewDatabase(t, newest).Connect(t)
	cuts := 0
	for _, statement := range []string{enqueueOne, enqueueMany} {
		for payload := range badinput.Cuts(wholePayload) {
			cuts++
			state := stateOf(t, conn, statement, payload)
			if state != badText && state != badInput && (utf8.ValidString(payload) || state != badEncoding) {
				t.Errorf("%q: SQLSTATE %q", payload, state)
			}
		}
		mustGive(t, conn, written, "0 0 0")
	}
	for _, statement := range []string{enqueueOne, enqueueMany} {
		if state := stateOf(t, conn, statement, wholePayload); state != "" {
			t.Errorf("the whole payload is refused: SQLSTATE %s", state)
		}
	}
	t.Logf("%d cut payloads refused by the functions, and nothing written", cuts)
}

// badEncoding is the SQLSTATE of what is no UTF-8.
const badEncoding = "22021"

// A payload with one byte changed is an object and is kept as it stands, or is refused with nothing written.
func TestAPayloadWithAnyByteChangedIsKeptAsItStandsOrRefused(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewDatabase(t, newest).Connect(t)
	const flips = 400
	taken := 0
	for i, statement := range []string{enqueueOne, enqueueMany} {
		for payload := range badinput.Flips(wholePayload, uint64(i), flips) {
			run(t, conn, "BEGIN")
			state := stateOf(t, conn, statement, payload)
			isObject := utf8.ValidString(payload) && json.Valid([]byte(payload)) && strings.HasPrefix(payload, "{")
			switch {
			case state == "" && isObject:
				taken++
				var kept string
				err := conn.QueryRow(t.Context(),
					`SELECT payload::text FROM fencerow.ledger_outbox WHERE correlation_id = 'c-1'`).Scan(&kept)
				if err != nil || kept != payload {
					t.Errorf("%q is kept as %q, %v", payload, kept, err)
				}
			case state == "" || isObject || !strings.HasPrefix(state, "22"):
				t.Errorf("%q: SQLSTATE %q", payload, state)
			}
			run(t, conn, "ROLLBACK")
		}
	}
	mustGive(t, conn, written, "0 0 0")
	t.Logf("%d payloads with one byte changed, %d of them are objects and were kept", 2*flips, taken)
}
