package schema_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

// row is a row of a table as SQL literals.
type row = args

func insert(table string, r row) string {
	names := slices.Sorted(maps.Keys(r))
	literals := make([]string, len(names))
	for i, name := range names {
		literals[i] = r[name]
	}
	return "INSERT INTO fencerow." + table + " (" + strings.Join(names, ", ") + ") " +
		"VALUES (" + strings.Join(literals, ", ") + ")"
}

// whole is a row that each table takes.
var whole = map[string]row{
	"ledger_outbox": {
		"instance_key": "'a'", "correlation_id": "'c-1'", "entry_kind": "'fill'", "slot_id": "'s'",
		"cash_delta": "1.5", "currency": "'USD'", "payload": "'{}'", "traceparent": "'" + trace + "'",
	},
	"ledger_pending": {
		"outbox_id": "1", "next_retry_at": "now()", "instance_key": "'a'", "outcome": "'retryable_failure'",
		"reason": "'x'",
	},
	"ledger_instance": {"instance_key": "'a'"},
	"ledger_claim": {
		"claim_token": "gen_random_uuid()", "claim_epoch": "1", "claimed_at": "now()",
		"lease_expires_at": "now() + interval '1 s'", "instance_key": "'a'", "claimed_by": "'w'",
		"outbox_ids": "'{1}'",
	},
	"ledger_outcome": {
		"outbox_id": "1", "claim_epoch": "1", "outcome_at": "now()", "life": "1", "attempt_count": "1",
		"instance_key": "'a'", "status": "'dead_lettered'", "outcome": "'dead_lettered'", "reason": "'http_500'",
		"ledger_ref": "'r'",
	},
	"ledger_slot": {
		"instance_key": "'a'", "slot_id": "'s'", "strategy": "'mean reversion'", "currency": "'USD'",
		"cash_balance": "1", "ledger_version": "0", "updated_at": "now()",
	},
}

// broken is, for each named CHECK, what breaks it in a row that is whole otherwise.
var broken = []struct {
	table, check, column string
	literals             []string
}{
	{"ledger_outbox", "ledger_outbox_instance_key_present", "instance_key", []string{"NULL"}},
	{"ledger_outbox", "instance_key_syntax", "instance_key", []string{
		"''", "' '", "repeat('k', 129)", `E'k\n'`, "'ké'",
	}},
	{"ledger_outbox", "correlation_id_syntax", "correlation_id", []string{
		"''", "'a b'", "repeat('c', 201)", `E'\x7f'`,
	}},
	{"ledger_outbox", "entry_kind_syntax", "entry_kind", []string{
		"''", "'Fill'", "'9f'", "'_f'", "repeat('f', 64)", `E'fill\n'`,
	}},
	{"ledger_outbox", "slot_id_syntax", "slot_id", []string{"''", "' '", "repeat('s', 129)"}},
	{"ledger_outbox", "cash_delta_bounds", "cash_delta", []string{
		"'NaN'", "'Infinity'", "'-Infinity'", "1e38", "-1e38", "1e-19", digits39, "-" + digits39,
	}},
	{"ledger_outbox", "currency_syntax", "currency", []string{
		"''", "'US'", "'usd'", "repeat('X', 13)", `E'USD\n'`, "'US D'",
	}},
	{"ledger_outbox", "ledger_outbox_currency_with_delta", "currency", []string{"NULL"}},
	{"ledger_outbox", "payload_object", "payload", []string{
		"'1'", "'null'", "'[]'", `'"{}"'`, payloadAbove,
	}},
	{"ledger_outbox", "traceparent_syntax", "traceparent", []string{
		"''", "'00'", "'01" + trace[2:] + "'", "'" + trace + "0'", `E'` + trace + `\n'`,
	}},
	{"ledger_outbox", "time_finite", "enqueued_at", []string{"'infinity'", "'-infinity'"}},
	{"ledger_pending", "time_finite", "next_retry_at", []string{
		"'infinity'", "'-infinity'",
	}},
	{"ledger_pending", "counter_bounds", "attempt_count", []string{"-1"}},
	{"ledger_pending", "counter_bounds", "expiry_count", []string{"-1"}},
	{"ledger_pending", "life_bounds", "life", []string{"0"}},
	{"ledger_pending", "epoch_bounds", "last_epoch", []string{"-1"}},
	{"ledger_pending", "pending_outcome", "outcome", []string{"'completed'", "''"}},
	{"ledger_pending", "reason_syntax", "reason", []string{
		"''", "'X'", "repeat('x', 65)", "'no such host: db'",
	}},
	{"ledger_instance", "ledger_instance_key_syntax", "instance_key", []string{"''", "' '", "repeat('k', 129)"}},
	{"ledger_claim", "ledger_claim_outbox_ids", "outbox_ids", []string{
		"'{}'", "'{NULL}'", "'{1, NULL}'", "'{{1}, {2}}'",
		"(SELECT array_agg(i) FROM generate_series(1, 1001) AS i)",
	}},
	{"ledger_claim", "ledger_claim_epoch", "claim_epoch", []string{"0", "-1"}},
	{"ledger_claim", "ledger_claim_lease", "lease_expires_at", []string{"now()", "'-infinity'"}},
	{"ledger_claim", "ledger_claim_claimed_by", "claimed_by", []string{"''", "'a b'", "repeat('w', 129)"}},
	{"ledger_outcome", "ledger_outcome_status", "status", []string{
		"'completed'", "'pending'", "'conflict_blocked'",
	}},
	{"ledger_outcome", "ledger_outcome_status", "outcome", []string{"'completed'", "'retryable_failure'"}},
	{"ledger_outcome", "ledger_outcome_reason", "reason", []string{
		"NULL", "''", "'Free text'", "repeat('x', 65)",
	}},
	{"ledger_outcome", "ledger_outcome_ledger_ref", "ledger_ref", []string{"''", "'a b'", "repeat('r', 65)"}},
	{"ledger_slot", "ledger_slot_id_syntax", "slot_id", []string{"''", "' '", "repeat('s', 129)"}},
	{"ledger_slot", "ledger_slot_strategy_syntax", "strategy", []string{"''", `E'a\nb'`, "repeat('s', 129)"}},
	{"ledger_slot", "ledger_slot_currency_syntax", "currency", []string{"''", "'usd'"}},
	{"ledger_slot", "ledger_slot_snapshot_whole", "currency", []string{"NULL"}},
	{"ledger_slot", "ledger_slot_snapshot_whole", "cash_balance", []string{"NULL"}},
	{"ledger_slot", "ledger_slot_snapshot_whole", "ledger_version", []string{"NULL", "-1"}},
	{"ledger_slot", "ledger_slot_snapshot_whole", "updated_at", []string{"NULL"}},
}

func TestEachNamedCheckHoldsWithoutTheFunctions(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewDatabase(t, newest).Connect(t)
	for table, r := range whole {
		run(t, conn, "BEGIN; "+insert(table, r)+"; ROLLBACK")
	}
	for _, test := range broken {
		t.Run(test.check, func(t *testing.T) {
			for _, literal := range test.literals {
				server := refused(t, conn, checkFailed, insert(test.table, whole[test.table].with(test.column, literal)))
				if server.ConstraintName != test.check {
					t.Errorf("%s = %s broke %s", test.column, literal, server.ConstraintName)
				}
			}
		})
	}
	for table := range whole {
		mustGive(t, conn, "SELECT count(*)::text FROM fencerow."+table, "0")
	}
}

func TestEveryCheckOfTheSchemaIsTried(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewDatabase(t, newest).Connect(t)
	tried := map[string]bool{}
	for _, test := range broken {
		tried[test.check] = true
	}
	mustGive(t, conn, `
SELECT conname::text
FROM pg_constraint
WHERE connamespace = 'fencerow'::regnamespace AND contype = 'c'
ORDER BY conname`, slices.Sorted(maps.Keys(tried))...)
}
