package pgstore

import (
	"strings"
	"testing"

	"github.com/fourblocks2020/fencerow/internal/db"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

// A page of blocked entries costs what the page has, beside any number of finished, pending and other
// instances' rows.
func TestBlockedListReadsByIndexOnly(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, schema)
	database.Exec(t, `
		WITH entry AS (
			INSERT INTO fencerow.ledger_outbox (instance_key, correlation_id, entry_kind, payload, enqueued_at)
			SELECT CASE n % 2 WHEN 0 THEN 'i' ELSE 'other' END, 'c-' || n, 'fill', '{}', now()
			FROM generate_series(1, 50000) n
			RETURNING outbox_id, instance_key
		), unfinished AS (
			INSERT INTO fencerow.ledger_pending (outbox_id, instance_key, next_retry_at)
			SELECT outbox_id, instance_key, now() FROM entry WHERE outbox_id % 4 >= 2
		)
		INSERT INTO fencerow.ledger_outcome (
			outbox_id, life, instance_key, status, outcome, reason, attempt_count, claim_epoch, outcome_at
		)
		SELECT outbox_id, 1, instance_key, kind, kind, 'ledger_error', 1, 1, now()
		FROM entry, LATERAL (
			SELECT CASE outbox_id % 64 / 2 WHEN 0 THEN 'dead_lettered' ELSE 'completed' END
		) k (kind)`)
	database.Exec(t, "VACUUM ANALYZE")
	ways := waysToTables(t, database.Connect(t), db.OutcomeBlocked)
	read := map[string]bool{}
	for _, way := range ways {
		if !strings.HasPrefix(way, "Index ") {
			t.Errorf("a table is read whole: %s", way)
		}
		read[strings.Fields(way[strings.Index(way, "ledger_"):])[1]] = true
	}
	for _, index := range []string{
		"ledger_outcome_blocked", "ledger_pending_pkey", "ledger_outcome_pkey", "ledger_outbox_pkey",
	} {
		if !read[index] {
			t.Errorf("%s is not used: %s", index, strings.Join(ways, "\n"))
		}
	}
}
