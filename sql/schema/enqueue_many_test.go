package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

// results gives what became of each entry, in their order.
func results(call string) string {
	return "SELECT concat_ws(' ', entry_position, entry_id, entry_result) FROM " + call +
		" ORDER BY entry_position"
}

func TestManySaysOfEachEntryWhatBecameOfIt(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewDatabase(t, newest).Connect(t)
	entry := func(id string) args { return good().with("correlation_id", "'"+id+"'") }
	run(t, conn, "SELECT * FROM "+entry("old").one())
	call := many(
		entry("z"),                               // inserted, though its key is the last
		entry("old"),                             // enqueued before
		entry("a").with("skip", "false"),         // inserted without skip
		entry("old").with("entry_kind", "'fee'"), // enqueued before with other content
		entry("a").with("traceparent", "NULL"),   // the third again
		entry("a").with("cash_delta", "13"),      // the third with other content
	)
	// Numbers are given by position, for duplicates too.
	mustGive(t, conn, results(call),
		"1 2 inserted", "2 1 duplicate", "3 4 inserted", "4 1 conflict", "5 4 duplicate", "6 4 conflict")
	mustGive(t, conn, written, "3 3 2")
	mustGive(t, conn, results(call),
		"1 2 duplicate", "2 1 duplicate", "3 4 duplicate", "4 1 conflict", "5 4 duplicate", "6 4 conflict")
	mustGive(t, conn, written, "3 3 2")
}

// sized is a call with n entries, but for the arrays whose literals are given.
func sized(n int, arrays args) string {
	call := []string{"'desk-1'"}
	for _, column := range []struct{ name, element, kind string }{
		{"correlation_ids", "'c-' || i", "text"}, {"entry_kinds", "'fill'", "text"}, {"payloads", "'{}'", "text"},
		{"slot_ids", "NULL", "text"}, {"cash_deltas", "0", "numeric"}, {"currencies", "NULL", "text"},
		{"traceparents", "NULL", "text"}, {"skips", "false", "boolean"},
	} {
		literal, given := arrays[column.name]
		if !given {
			literal = fmt.Sprintf("(SELECT array_agg((%s)::%s ORDER BY i) FROM generate_series(1, %d) AS i)",
				column.element, column.kind, n)
		}
		call = append(call, literal+"::"+column.kind+"[]")
	}
	return "fencerow.enqueue_many(" + strings.Join(call, ", ") + ")"
}

func TestManyRefusesArraysThatDoNotMatch(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewDatabase(t, newest).Connect(t)
	for _, name := range []string{
		"correlation_ids", "entry_kinds", "payloads", "slot_ids", "cash_deltas", "currencies", "traceparents",
		"skips",
	} {
		for kind, literal := range map[string]string{
			"None": "NULL", "Empty": "'{}'", "Short": "'{NULL}'", "Long": "'{NULL, NULL, NULL}'",
		} {
			t.Run(name+kind, func(t *testing.T) {
				server := refused(t, conn, badInput, "SELECT * FROM "+sized(2, args{name: literal}))
				if !strings.Contains(server.Message, "equal length") {
					t.Errorf("the server said %q", server.Message)
				}
			})
		}
	}
	mustGive(t, conn, written, "0 0 0")
}

func TestManyIsBounded(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewDatabase(t, newest).Connect(t)
	server := refused(t, conn, badInput, "SELECT * FROM "+sized(10_001, nil))
	if !strings.Contains(server.Message, "10000") {
		t.Errorf("the server said %q", server.Message)
	}
	mustGive(t, conn, written, "0 0 0")
	const summary = `
SELECT concat_ws(' ', count(*), min(entry_result), max(entry_result), max(entry_position))
FROM `
	mustGive(t, conn, summary+sized(10_000, nil), "10000 inserted inserted 10000")
	mustGive(t, conn, summary+sized(10_000, nil), "10000 duplicate duplicate 10000")
	mustGive(t, conn, written, "10000 10000 0")
}

func TestManyOfNoneWritesNothing(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewDatabase(t, newest).Connect(t)
	mustGive(t, conn, "SELECT entry_result FROM "+sized(0, nil))
	mustGive(t, conn, written, "0 0 0")
}
