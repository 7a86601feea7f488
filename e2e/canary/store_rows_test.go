package canary

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

// databaseScene is a server that fails with each kind of error and fills it with secrets. Every command is
// run against one of them; see commandScene for what they do on a server that works.
func databaseScene(t *testing.T) []row {
	w := newWorld(t)
	t.Cleanup(w.end)
	w.settings["LEDGER_URL"] = "http://127.0.0.1:9/" + string(account)
	var rows []row
	for is, e := range map[fencerow.Code]serverError{
		fencerow.ErrStoreBusy: {state: "55P03"}, fencerow.ErrStoreTimeout: {state: "57014"},
		fencerow.ErrStoreUnavailable: {state: "57P01"},
		fencerow.ErrStoreCredentials: {state: "28P01", atStart: true},
		fencerow.ErrStorePermission:  {state: "42501"}, fencerow.ErrStoreSchema: {state: "42P01"},
		fencerow.ErrStoreReadOnly: {state: "25006"}, fencerow.ErrStoreStatement: {state: "26000"},
		fencerow.ErrStoreFull: {state: "53100"}, fencerow.ErrStoreSetting: {state: "42704", atStart: true},
		fencerow.ErrStoreData: {state: "22003"}, fencerow.ErrStoreConflict: {state: "40001"},
		fencerow.ErrStoreFailed: {state: "XX000"},
	} {
		code := string(is)
		rows = append(rows, row{name: code, codes: []string{code}, drive: func(t testing.TB) *world {
			w.row(t)
			dsn := map[string]string{"DSN": newHostileServer(t, e)}
			w.run(dsn, "counts")
			w.run(dsn, "counts", "--json")
			w.run(dsn, "migrate", "up")
			// A schema that is not there ends a daemon, and so does a setting that is refused; it waits for anything
			// else, and says why it is not ready.
			d := w.start(w.with(dsn))
			if is == fencerow.ErrStoreSchema || is == fencerow.ErrStoreSetting {
				<-d.ended
			} else {
				d.await("store_not_ready")
				w.sweep()
			}
			d.stop()
			return w
		}})
	}
	return append(rows,
		row{name: "every_command", shown: []string{"store_failed"}, drive: func(t testing.TB) *world {
			w.row(t)
			dsn := map[string]string{"DSN": newHostileServer(t, serverError{state: "XX000"})}
			for _, args := range commandLines() {
				w.runWith("fencerow", dsn, strings.NewReader(entryLine("line-1")), nil, args...)
				w.runWith("fencerow", dsn, strings.NewReader(entryLine("line-1")), nil, append(args, "--json")...)
			}
			return w
		}},
	)
}

// raise makes a table refuse a change with secrets in the error.
func (w *world) raise(when, table, state, condition string) (undo func()) {
	w.t.Helper()
	text := strings.ReplaceAll(hostileText(databaseText), "'", "''")
	w.db.Exec(w.t, fmt.Sprintf(`
CREATE FUNCTION fencerow.canary() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%%', '%s' || new::text USING ERRCODE = '%s', DETAIL = '%s', HINT = '%s';
END
$$`, text, state, text, text))
	w.db.Exec(w.t, `CREATE TRIGGER canary BEFORE `+when+` ON fencerow.`+table+
		` FOR EACH ROW WHEN (`+condition+`) EXECUTE FUNCTION fencerow.canary()`)
	return func() { w.db.Exec(w.t, "DROP FUNCTION fencerow.canary() CASCADE") }
}

// postgresScene is a real server that refuses single statements of a claim, a record and a write-back.
func postgresScene(t *testing.T) []row {
	w := newWorld(t)
	t.Cleanup(w.end)
	address := newHostileLedger(t, map[string]ledgerAnswer{
		"good": {status: 201, body: `{"result":"CREATED","ledger_ref":"` + string(reference) +
			`","snapshot":{"slot_id":"slot-1","currency":"EUR","cash_balance":"1","version":7}}`},
		"refused": {status: 422},
	})
	w.settings["LEDGER_URL"] = address
	drive := func(do func()) func(testing.TB) *world {
		return func(t testing.TB) *world {
			w.row(t)
			do()
			return w
		}
	}
	return []row{
		{name: "claim", shown: []string{"poll failed", "store_failed"}, drive: drive(func() {
			defer w.raise("INSERT", "ledger_claim", "P0001", "true")()
			w.enqueue("good.claim")
			w.run(nil, "process", "good.claim")
			w.run(nil, "backfill", "--json")
			for _, format := range []string{"text", "json"} {
				d := w.start(map[string]string{"LOG_FORMAT": format, "LEDGER_INTERVAL_SEC": "0.05"})
				d.await("poll failed")
				w.run(nil, "process", "--ops-url", d.opsURL(), "good.claim")
				d.stop()
			}
		})},
		{name: "record", shown: []string{"record abandoned"}, drive: drive(func() {
			defer w.raise("INSERT", "ledger_outcome", "P0001", "true")()
			w.enqueue("good.record")
			short := map[string]string{"LEASE": "1s", "DELIVERY_TIMEOUT": "200ms"}
			w.run(short, "process", "--json", "good.record")
		})},
		{name: "write_back", shown: []string{"completed"}, drive: drive(func() {
			defer w.raise("INSERT OR UPDATE", "ledger_slot", "23514", "new.ledger_version > 0")()
			w.enqueue("good.writeback")
			w.run(nil, "process", "good.writeback")
		})},
		{name: "requeue", shown: []string{"store_data_refused"}, drive: drive(func() {
			w.enqueue("refused.requeue")
			w.run(nil, "process", "refused.requeue")
			defer w.raise("INSERT", "ledger_pending", "22000", "true")()
			w.run(nil, "requeue", "refused.requeue", "--from", "permanent_failure")
			w.run(nil, "enqueue", "--correlation-id", "n-1", "--entry-kind", "fill", "--payload",
				`{"a":"`+string(payload)+`"}`)
		})},
		{name: "lease_expired", codes: []string{"lease_expired"}, shown: []string{reasonIs("lease_expired")},
			drive: drive(func() {
				w.enqueue("good.expired")
				_, err := w.pool.Exec(t.Context(), `
WITH gone AS (
    INSERT INTO fencerow.ledger_claim (
        claim_token, claim_epoch, instance_key, claimed_by, claimed_at, lease_expires_at, outbox_ids
    )
    SELECT
        gen_random_uuid(), 1, $1, 'gone', now() - interval '1 min', now() - interval '1 s', ARRAY[outbox_id]
    FROM fencerow.ledger_outbox
    WHERE correlation_id = 'good.expired'
)
SELECT 1`, desk)
				check(w.t, err)
				w.run(map[string]string{"MAX_ATTEMPTS": "1"}, "backfill")
			})},
		{name: "lost_claims", codes: []string{"reclaimed", "finished", "missing"}, drive: drive(w.loseClaims)},
		{name: "wrong_password", shown: []string{"fencerow: "}, drive: drive(func() {
			wrong := w.role
			wrong.Password += string(credential)
			w.run(map[string]string{"DSN": w.db.DSN(pgtest.As(wrong))}, "counts")
			nobody := w.role
			nobody.Name = string(account)
			w.run(map[string]string{"DSN": w.db.DSN(pgtest.As(nobody))}, "counts", "--json")
			w.run(map[string]string{"DSN": w.db.DSN(pgtest.As(nobody))}, "migrate", "status")
		})},
	}
}

// loseClaims has a daemon deliver three entries, and takes their claim and two of them away meanwhile.
func (w *world) loseClaims() {
	gone := make(chan struct{})
	address := newHostileLedger(w.t, map[string]ledgerAnswer{"slow": {status: 201, body: "-", until: gone}})
	answer := sync.OnceFunc(func() { close(gone) })
	defer answer()
	w.enqueue("slow.reclaimed", "slow.finished", "slow.missing")
	d := w.start(map[string]string{
		"LEDGER_URL": address, "LEDGER_INTERVAL_SEC": "0.05", "LOG_FORMAT": "json", "LEASE": "5m",
		"DELIVERY_TIMEOUT": patience.String(),
	})
	d.await("batch claimed")
	// On hold, the daemon cannot claim the one that stays before it records what it was told of it.
	w.db.Exec(w.t, `UPDATE fencerow.ledger_instance SET held_at = now()`)
	defer w.db.Exec(w.t, `UPDATE fencerow.ledger_instance SET held_at = NULL`)
	w.db.Exec(w.t, `
WITH gone AS (
    DELETE FROM fencerow.ledger_pending p
    USING fencerow.ledger_outbox o
    WHERE o.outbox_id = p.outbox_id
        AND o.correlation_id IN ('slow.finished', 'slow.missing')
    RETURNING o.outbox_id, o.correlation_id
), finished AS (
    INSERT INTO fencerow.ledger_outcome (
        outbox_id, life, instance_key, status, outcome, attempt_count, claim_epoch, outcome_at
    )
    SELECT outbox_id, 1, 'desk-1', 'completed', 'completed', 1, 1, now()
    FROM gone
    WHERE correlation_id = 'slow.finished'
), missing AS (
    DELETE FROM fencerow.ledger_outbox
    WHERE correlation_id = 'slow.missing'
)
DELETE FROM fencerow.ledger_claim`)
	answer()
	for _, why := range []string{"reclaimed", "finished", "missing"} {
		d.await(`"reason":"` + why + `"`)
	}
	d.stop()
}
