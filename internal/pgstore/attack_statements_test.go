package pgstore

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

func noticeInto(notices *strings.Builder) func(*pgconn.PgConn, *pgconn.Notice) {
	return func(_ *pgconn.PgConn, n *pgconn.Notice) { notices.WriteString(n.Message) }
}

func joined(row [][]byte) []byte { return bytes.Join(row, nil) }

// statements lists what the attacker sends.
func (d *desks) statements() []string {
	list := []string{
		`CREATE FUNCTION pg_temp.leak(text) RETURNS boolean COST 0.0000001 LANGUAGE plpgsql AS
			$$ BEGIN RAISE NOTICE '%', $1; RETURN true; END $$`,
		// Operators that say what they compare and always agree, for whoever looks them up by search_path.
		`CREATE FUNCTION attic.agree(text, text) RETURNS boolean LANGUAGE plpgsql AS
			$$ BEGIN RAISE NOTICE '%', $1; RETURN true; END $$`,
		`CREATE FUNCTION attic.agree(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true'`,
		`CREATE OPERATOR attic.= (LEFTARG = text, RIGHTARG = text, FUNCTION = attic.agree)`,
		`CREATE OPERATOR attic.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = attic.agree)`,
		`CREATE TEMP TABLE ledger_role AS SELECT current_user AS role_name, 'pearl' AS instance_key`,
	}
	for _, table := range ownedTables {
		list = append(list, onTable("fencerow."+table)...)
	}
	list = append(list, d.inserts()...)
	list = append(list, d.squats()...)
	list = append(list, d.aroundTheWalls()...)
	return list
}

// onTable tries each verb on others' rows of one table.
func onTable(table string) []string {
	const theirs = " WHERE instance_key IS DISTINCT FROM 'a'"
	return []string{
		"SELECT * FROM " + table + theirs,
		"TABLE " + table + " EXCEPT SELECT * FROM " + table + " WHERE instance_key = 'a'",
		"SELECT count(*) FROM " + table + theirs,
		"SELECT count(*) FROM " + table + " TABLESAMPLE system (100)" + theirs,
		"SELECT 1 FROM " + table + theirs + " FOR UPDATE",
		"SELECT 1 FROM " + table + theirs + " FOR KEY SHARE SKIP LOCKED",
		"SET row_security = off; SELECT * FROM " + table + theirs,
		"SELECT count(*) FROM " + table + " x WHERE pg_temp.leak(x::text) AND instance_key IS DISTINCT FROM 'a'",
		"SELECT 1 / (instance_key = 'a')::integer FROM " + table + theirs,
		"CREATE TEMP VIEW v AS SELECT * FROM " + table + "; SELECT * FROM v" + theirs,
		"BEGIN; DECLARE c CURSOR FOR SELECT * FROM " + table + theirs + "; FETCH ALL FROM c",
		"UPDATE " + table + " SET instance_key = 'a'" + theirs + " RETURNING *",
		"UPDATE " + table + " SET instance_key = 'a'" + theirs,
		"UPDATE " + table + " SET instance_key = 'pearl'",
		"DELETE FROM " + table + theirs + " RETURNING *",
		"DELETE FROM " + table + " x USING " + table + " y WHERE x.instance_key = 'pearl'",
		"MERGE INTO " + table + " x USING (SELECT) y ON x.instance_key = 'pearl' WHEN MATCHED THEN DELETE",
		"TRUNCATE " + table,
		"COPY (SELECT * FROM " + table + theirs + ") TO PROGRAM 'true'",
		"ALTER TABLE " + table + " DISABLE ROW LEVEL SECURITY",
		"CREATE POLICY mine ON " + table + " USING (true)",
		"CREATE TRIGGER mine AFTER INSERT ON " + table + " EXECUTE FUNCTION fencerow.forget_deleted_entries()",
		"ALTER TABLE " + table + " OWNER TO current_user",
		"ANALYZE " + table,
	}
}

// inserts tries to put rows into the other desk.
func (d *desks) inserts() []string {
	return []string{
		`SELECT * FROM fencerow.enqueue('pearl', 'forged', 'fill', '{}')`,
		`SELECT * FROM fencerow.enqueue_many(
			'pearl', '{forged}', '{fill}', '{"{}"}', '{NULL}', '{0}', '{NULL}', '{NULL}', '{false}')`,
		`INSERT INTO fencerow.ledger_outbox (instance_key, correlation_id, entry_kind, payload, enqueued_at)
			VALUES ('pearl', 'forged', 'fill', '{}', now())`,
		`INSERT INTO fencerow.ledger_instance (instance_key) VALUES ('pearl'), ('pearl-2')`,
		`INSERT INTO fencerow.ledger_instance (instance_key) VALUES ('pearl')
			ON CONFLICT (instance_key) DO UPDATE SET held_at = now()`,
		fmt.Sprintf(`INSERT INTO fencerow.ledger_pending (outbox_id, instance_key, next_retry_at)
			VALUES (%d, 'pearl', now())`, d.done),
		fmt.Sprintf(`INSERT INTO fencerow.ledger_claim (
				claim_token, claim_epoch, claimed_at, lease_expires_at, instance_key, claimed_by, outbox_ids
			)
			VALUES (gen_random_uuid(), 1, now(), now() + interval '1 hour', 'pearl', 'w', ARRAY[%d])`, d.leased),
		fmt.Sprintf(`INSERT INTO fencerow.ledger_outcome (
				outbox_id, life, instance_key, status, outcome, attempt_count, claim_epoch, outcome_at
			)
			VALUES (%d, 1, 'pearl', 'completed', 'completed', 1, 1, now())`, d.leased),
		`INSERT INTO fencerow.ledger_slot (instance_key, slot_id, strategy)
			VALUES ('pearl', 'pearl', 'x'), ('pearl', 'y', 'x')
			ON CONFLICT (instance_key, slot_id) DO UPDATE SET strategy = 'x'`,
		fmt.Sprintf(`INSERT INTO fencerow.ledger_skip (instance_key, correlation_id, outbox_id, opened_at)
			VALUES ('pearl', 'forged', %d, now())`, d.done),
		`INSERT INTO fencerow.ledger_legacy (outbox_id, status, attempt_count) VALUES (77, 'x', 0)`,
		`UPDATE fencerow.ledger_legacy SET status = 'x'`,
		`DELETE FROM fencerow.ledger_legacy`,
		`SELECT * FROM fencerow.ledger_legacy`,
	}
}

// squats tries rows of its own under numbers that are, were or will be another's: he would be refused them.
func (d *desks) squats() []string {
	var list []string
	for _, path := range []string{"", "SET search_path = attic, pg_catalog; "} {
		for _, ids := range []string{
			fmt.Sprintf("SELECT %d", d.done), fmt.Sprintf("SELECT %d", d.leased),
			`SELECT n + g
				FROM (SELECT nextval('fencerow.ledger_outbox_outbox_id_seq')) x (n), generate_series(1, 200) g`,
		} {
			list = append(list,
				path+`INSERT INTO fencerow.ledger_pending (outbox_id, instance_key, next_retry_at)
					SELECT i, 'a', now() FROM (`+ids+`) x (i)`,
				path+`INSERT INTO fencerow.ledger_outcome (
						outbox_id, life, instance_key, status, outcome, attempt_count, claim_epoch, outcome_at
					)
					SELECT i, 1, 'a', 'completed', 'completed', 1, 1, now() FROM (`+ids+`) x (i)`,
				path+`INSERT INTO fencerow.ledger_skip (instance_key, correlation_id, outbox_id, opened_at)
					SELECT 'a', 'squat-' || i, i, now() FROM (`+ids+`) x (i)`,
				path+`INSERT INTO fencerow.ledger_outbox (
						outbox_id, instance_key, correlation_id, entry_kind, payload, enqueued_at
					)
					SELECT i, 'a', 'squat-' || i, 'fill', '{}', now() FROM (`+ids+`) x (i)`)
		}
		list = append(list,
			path+fmt.Sprintf("UPDATE fencerow.ledger_pending SET outbox_id = %d WHERE outbox_id = %d", d.done, d.own),
			path+fmt.Sprintf("UPDATE fencerow.ledger_skip SET outbox_id = %d WHERE outbox_id = %d", d.done, d.own),
			path+fmt.Sprintf("UPDATE fencerow.ledger_outcome SET outbox_id = %d", d.leased))
	}
	// Another session may have drawn a number and not used it yet. Nothing may be left under it of an entry that
	// was entered under it and deleted.
	for _, left := range []string{
		`INSERT INTO fencerow.ledger_pending (outbox_id, instance_key, next_retry_at) VALUES (n, 'a', now())`,
		`INSERT INTO fencerow.ledger_outcome (
				outbox_id, life, instance_key, status, outcome, attempt_count, claim_epoch, outcome_at
			)
			VALUES (n, 1, 'a', 'completed', 'completed', 1, 1, now())`,
		`INSERT INTO fencerow.ledger_skip (instance_key, correlation_id, outbox_id, opened_at)
			VALUES ('a', 'another', n, now())`,
	} {
		list = append(list, `DO $$
			DECLARE
				n bigint := nextval('fencerow.ledger_outbox_outbox_id_seq');
			BEGIN
				INSERT INTO fencerow.ledger_outbox (
					outbox_id, instance_key, correlation_id, entry_kind, payload, enqueued_at
				)
				VALUES (n, 'a', 'drawn', 'fill', '{}', now());
				`+left+`;
				DELETE FROM fencerow.ledger_outbox WHERE outbox_id = n;
			END $$`)
	}
	return append(list,
		fmt.Sprintf("UPDATE fencerow.ledger_claim SET outbox_ids = ARRAY[%d]", d.leased),
		`SELECT setval('fencerow.ledger_outbox_outbox_id_seq', 1)`)
}

// aroundTheWalls tries to become somebody else, or to be told by what sees more.
func (d *desks) aroundTheWalls() []string {
	list := []string{
		`INSERT INTO fencerow.ledger_role VALUES (current_user, 'pearl')`,
		`UPDATE fencerow.ledger_role SET instance_key = 'pearl'`,
		`UPDATE fencerow.ledger_role SET role_name = current_user WHERE role_name <> current_user`,
		`DELETE FROM fencerow.ledger_role WHERE role_name <> current_user`,
		`SELECT * FROM fencerow.ledger_role WHERE role_name <> current_user`,
		`SELECT pg_temp.leak(r::text) FROM fencerow.ledger_role r WHERE pg_temp.leak(r::text) AND false`,
		`ALTER ROLE CURRENT_USER BYPASSRLS`,
		`SELECT * FROM pg_stats
			WHERE schemaname = 'fencerow' AND concat(most_common_vals, histogram_bounds) LIKE '%pearl%'`,
		`SELECT * FROM pg_statistic WHERE stavalues1::text LIKE '%pearl%'`,
		`SET search_path = attic, pg_catalog; SELECT (fencerow.foreign_owned('none', 'a')
			AND NOT fencerow.foreign_owned('none', 'a'))`,
		`CREATE OR REPLACE FUNCTION fencerow.owns_entry(outbox_id bigint, instance_key text) RETURNS boolean
			LANGUAGE sql AS 'SELECT true'`,
		fmt.Sprintf(`SELECT fencerow.owns_entry(%d, 'pearl')`, d.leased),
		// About each single instance the one bit would say whose an entry is.
		`SELECT 'told' WHERE fencerow.foreign_owned('own-0', 'pearl') IS NOT NULL`,
		`SELECT 'told' WHERE fencerow.foreign_owned('pearl-0', 'pearl') IS NOT NULL`,
	}
	for _, role := range []string{d.victim.Name, "postgres", "pg_read_all_data"} {
		quoted := `"` + role + `"`
		list = append(list,
			`SET ROLE `+quoted+`; SELECT * FROM fencerow.ledger_slot WHERE instance_key = 'pearl'`,
			`SET SESSION AUTHORIZATION `+quoted+`; SELECT * FROM fencerow.ledger_slot WHERE instance_key = 'pearl'`,
			`GRANT `+quoted+` TO CURRENT_USER`,
			`SELECT 'told' WHERE fencerow.foreign_owned('pearl-0', 'pearl', '`+role+`') IS NOT NULL`)
	}
	return append(list, `SELECT 'told' WHERE fencerow.foreign_owned(
		'pearl-0', 'pearl', (SELECT rolname FROM pg_roles WHERE rolsuper AND rolcanlogin LIMIT 1)) IS NOT NULL`)
}

// useStore sends what the daemon sends, in the other's name and with his token.
func (d *desks) useStore(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	store := openOn(t, d.database, pgtest.As(d.attacker))
	forged := func(what string, done bool) {
		if done {
			d.breaches = append(d.breaches, what+" in another's name was done")
		}
	}
	for _, instance := range []fencerow.InstanceKey{victim, attacker} {
		c, err := store.ClaimBatch(ctx, batchParams(instance, 100))
		if err == nil {
			for i := range c.Entries {
				forged("a claim", strings.Contains(string(c.Entries[i].Payload), "pearl"))
			}
		}
		_, err = store.ClaimOne(ctx, fencerow.ClaimOneParams{
			Instance: instance, Worker: "w", Token: fencerow.NewClaimToken(), CorrelationID: "pearl-3",
			Lease: time.Minute, ForceDue: true,
		})
		forged("a targeted claim", err == nil)
		verdicts, err := store.RecordOutcomes(ctx, fencerow.RecordParams{
			Instance: instance, Token: d.token, Outcomes: []fencerow.Outcome{
				{OutboxID: d.leased, Kind: fencerow.OutcomeCompleted},
			},
		})
		forged("a record", err == nil && applied(verdicts) > 0)
		// What it did is seen in the claim.
		_, _ = store.Release(ctx, fencerow.ReleaseParams{Instance: instance, Token: d.token, All: true})
		forged("a requeue", store.Requeue(ctx, fencerow.RequeueParams{
			Instance: instance, CorrelationID: "pearl-1", From: fencerow.StatusDeadLettered,
		}) == nil)
		_, err = store.Show(ctx, fencerow.EntryParams{Instance: instance, CorrelationID: "pearl-3"})
		forged("a look", err == nil)
		exported, _ := store.LegacyExport(ctx, "pearl-old")
		forged("an export", len(exported) > 0)
	}
	held, err := store.Hold(ctx, victim)
	forged("a hold", err == nil && held)
	_, err = store.EnqueueMany(ctx, fencerow.EnqueueParams{Instance: victim, Entries: entriesOf("forged", 0, 1)})
	forged("an enqueue", err == nil)
	pruned, err := store.Prune(ctx, fencerow.PruneParams{Instance: victim, Limit: 10})
	forged("a prune", err == nil && pruned.Deleted > 0)
}

// victimGoesOn enqueues, records, requeues and claims as if nothing had been.
func (d *desks) victimGoesOn(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	store := openOn(t, d.database, pgtest.As(d.victim))
	hindered := func(what string, err error, done, want int) {
		if err != nil || done != want {
			d.breaches = append(d.breaches, fmt.Sprintf("the other's %s: %d of %d, %v", what, done, want, err))
		}
	}
	enqueued, err := store.EnqueueMany(ctx, fencerow.EnqueueParams{
		Instance: victim, Entries: entriesOf("pearl", 5, 10),
	})
	hindered("enqueue", err, len(enqueued), 10)
	verdicts, err := store.RecordOutcomes(ctx, fencerow.RecordParams{
		Instance: victim, Token: d.token, Outcomes: []fencerow.Outcome{
			{OutboxID: d.leased, Kind: fencerow.OutcomeCompleted},
		},
	})
	hindered("record", err, applied(verdicts), 1)
	hindered("requeue", store.Requeue(ctx, fencerow.RequeueParams{
		Instance: victim, CorrelationID: "pearl-1", From: fencerow.StatusDeadLettered,
	}), 0, 0)
	c, err := store.ClaimBatch(ctx, batchParams(victim, 100))
	if err != nil {
		hindered("claim", err, 0, 0)
		return
	}
	verdicts, err = store.RecordOutcomes(ctx, fencerow.RecordParams{
		Instance: victim, Token: c.Token, Outcomes: completed(c),
	})
	hindered("records", err, applied(verdicts), 13)
}
