package pgstore

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/shopspring/decimal"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

// Two desks share a database. What the second one has holds the word pearl wherever a text may stand.
const (
	attacker fencerow.InstanceKey = "a"
	victim   fencerow.InstanceKey = "pearl"
)

// A role with every right on the tables but the owner's, hand-written SQL and somebody else's claim token
// sees nothing of another instance and changes nothing of it; and the other goes on as if nothing had been.
func TestAttackerBehindWallsGetsNothing(t *testing.T) {
	t.Parallel()
	for _, breach := range attack(t, "") {
		t.Error(breach)
	}
}

// The attack is worth what it finds: each wall, or each part of one, taken away must let something through.
func TestAttackFindsEachWallThatIsMissing(t *testing.T) {
	t.Parallel()
	holes := map[string]string{
		"a pending row under another's number": `ALTER POLICY ledger_pending_wall ON fencerow.ledger_pending
			WITH CHECK (instance_key = 'a')`,
		"a skip under another's number": `ALTER POLICY ledger_skip_wall ON fencerow.ledger_skip
			WITH CHECK (instance_key = 'a')`,
		"an outcome under another's number": `ALTER POLICY ledger_outcome_wall ON fencerow.ledger_outcome
			WITH CHECK (instance_key = 'a')`,
		"an entry under a number to come": `ALTER POLICY ledger_outbox_wall ON fencerow.ledger_outbox
			WITH CHECK (instance_key = 'a')`,
		"an outcome left by an entry": `DO $$ BEGIN EXECUTE replace(
			pg_get_functiondef('fencerow.forget_deleted_entries'::regproc),
			'DELETE FROM fencerow.ledger_outcome o USING',
			'PERFORM FROM fencerow.ledger_outcome o,'); END $$`,
		"a skip left by an entry": `DO $$ BEGIN EXECUTE replace(
			pg_get_functiondef('fencerow.forget_deleted_entries'::regproc), 'k.resolved_at IS NULL', 'false'); END $$`,
		"a look that trusts the search_path":    `ALTER FUNCTION fencerow.owns_entry RESET search_path`,
		"an answer that trusts the search_path": `ALTER FUNCTION fencerow.foreign_owned RESET search_path`,
		"an answer to anybody": `DO $$ BEGIN EXECUTE replace(
			pg_get_functiondef('fencerow.foreign_owned'::regproc), 'AND NOT (', 'AND false AND NOT ('); END $$`,
		"an answer to whoever names a role": `DO $$ BEGIN EXECUTE replace(
			pg_get_functiondef('fencerow.foreign_owned'::regproc),
			'pg_has_role(session_user, $3, ''MEMBER'')', 'true'); END $$`,
	}
	for _, table := range []string{
		"outbox", "pending", "claim", "instance", "outcome", "slot", "skip", "legacy", "role",
	} {
		holes["no wall before "+table] = "ALTER TABLE fencerow.ledger_" + table + " DISABLE ROW LEVEL SECURITY"
	}
	for name, hole := range holes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			breaches := attack(t, hole)
			if len(breaches) == 0 {
				t.Fatal("nothing was found")
			}
			t.Log(breaches[0])
		})
	}
}

// desks is a database with both desks' rows.
type desks struct {
	database          *pgtest.Database
	owner             *Store
	attacker, victim  pgtest.Role
	token             fencerow.ClaimToken // of the victim's claim that stands
	leased, done, own fencerow.OutboxID
	breaches          []string
}

func attack(t *testing.T, hole string) []string {
	t.Helper()
	d := newDesks(t)
	if hole != "" {
		d.database.Exec(t, hole)
	}
	before := d.others(t)
	d.sendStatements(t)
	d.useStore(t)
	if after := d.others(t); after != before {
		d.breaches = append(d.breaches, "another's rows changed:\n"+before+"\n"+after)
	}
	d.findSquatters(t)
	d.victimGoesOn(t)
	return d.breaches
}

// findSquatters looks for rows of the attacker's under the number of an entry that is not his.
func (d *desks) findSquatters(t *testing.T) {
	t.Helper()
	conn := d.database.Connect(t)
	for _, table := range []string{"ledger_pending", "ledger_outcome", "ledger_skip"} {
		var squatters int
		err := conn.QueryRow(t.Context(), "SELECT count(*) FROM fencerow."+table+` x
			WHERE instance_key = 'a' AND NOT EXISTS (
				SELECT FROM fencerow.ledger_outbox o WHERE o.outbox_id = x.outbox_id AND o.instance_key = 'a'
			)`).Scan(&squatters)
		if err != nil {
			t.Fatal(err)
		}
		if squatters > 0 {
			d.breaches = append(d.breaches, fmt.Sprint(squatters, " rows of ", table, " stand under others' numbers"))
		}
	}
}

func newDesks(t *testing.T) *desks {
	t.Helper()
	database, a := behindWalls(t, nil, string(attacker))
	d := &desks{database: database, owner: openOn(t, database), attacker: a, victim: database.NewRole(t, nil)}
	database.Exec(t, grants(t, d.victim.Name))
	mapRole(t, database, d.victim, string(victim))
	for _, statement := range []string{
		"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA fencerow TO %q",
		"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA fencerow TO %q",
		"CREATE SCHEMA attic AUTHORIZATION %q",
	} {
		database.Exec(t, fmt.Sprintf(statement, a.Name))
	}
	database.Exec(t, `
		ALTER TABLE fencerow.ledger_outbox DROP CONSTRAINT ledger_outbox_instance_key_present;
		WITH old AS (
			INSERT INTO fencerow.ledger_outbox (correlation_id, entry_kind, payload)
			VALUES ('pearl-old', 'fill', '{"old": "pearl"}')
			RETURNING outbox_id
		)
		INSERT INTO fencerow.ledger_legacy (outbox_id, status, attempt_count) SELECT outbox_id, 'pearl', 0 FROM old;
		ALTER TABLE fencerow.ledger_outbox
			ADD CONSTRAINT ledger_outbox_instance_key_present CHECK (instance_key IS NOT NULL) NOT VALID;`)
	own := d.fill(t, attacker, "own")
	d.own = own.Entries[2].OutboxID
	theirs := d.fill(t, victim, "pearl")
	d.token, d.done, d.leased = theirs.Token, theirs.Entries[0].OutboxID, theirs.Entries[2].OutboxID
	database.Exec(t, "ANALYZE")
	return d
}

// fill gives a desk a finished entry with a snapshot, a parked one, one under a claim, and two that wait.
func (d *desks) fill(t *testing.T, instance fencerow.InstanceKey, word string) *fencerow.Claim {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := d.owner.EnqueueMany(ctx, fencerow.EnqueueParams{
		Instance: instance, Entries: entriesOf(word, 0, 5),
	})
	must(err)
	c, err := d.owner.ClaimBatch(ctx, fencerow.ClaimBatchParams{
		Instance: instance, Worker: fencerow.WorkerID(word), Token: fencerow.NewClaimToken(), Limit: 3,
		Lease: time.Hour,
	})
	must(err)
	verdicts, err := d.owner.RecordOutcomes(ctx, fencerow.RecordParams{
		Instance: instance, Token: c.Token, Outcomes: []fencerow.Outcome{
			{
				OutboxID: c.Entries[0].OutboxID, Kind: fencerow.OutcomeCompleted, LedgerRef: word,
				Snapshot: &fencerow.Snapshot{
					SlotID: fencerow.SlotID(word), Currency: "EUR", CashBalance: decimal.New(1, 0), Version: 1,
				},
			},
			{OutboxID: c.Entries[1].OutboxID, Kind: fencerow.OutcomeDeadLettered, Reason: fencerow.ReasonLedgerError},
		},
	})
	must(err)
	if applied(verdicts) != 2 {
		t.Fatalf("verdicts %+v", verdicts)
	}
	must(d.owner.NameSlot(ctx, fencerow.NameSlotParams{
		Instance: instance, Slot: fencerow.SlotID(word), Strategy: word,
	}))
	return c
}

// entriesOf makes entries word-first to word-(first+n-1).
func entriesOf(word string, first, n int) []fencerow.NewEntry {
	entries := make([]fencerow.NewEntry, n)
	for i := range entries {
		entries[i] = fencerow.NewEntry{
			CorrelationID: fencerow.CorrelationID(fmt.Sprint(word, "-", first+i)), EntryKind: "fill",
			SlotID: fencerow.SlotID(word), Payload: []byte(`{"word": "` + word + `"}`), OpenSkip: true,
		}
	}
	return entries
}

// others is everything that is not the attacker's, as the owner sees it.
func (d *desks) others(t *testing.T) string {
	t.Helper()
	conn := d.database.Connect(t)
	var all strings.Builder
	sources := map[string]string{"ledger_legacy": "true", "ledger_role": "true"}
	for _, table := range ownedTables {
		sources[table] = "instance_key IS DISTINCT FROM 'a'"
	}
	for _, table := range slices.Sorted(maps.Keys(sources)) {
		var rows string
		err := conn.QueryRow(t.Context(), `SELECT coalesce(string_agg(t::text, ' ' ORDER BY t::text), '')
			FROM fencerow.`+table+" t WHERE "+sources[table]).Scan(&rows)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%s: %s\n", table, rows)
	}
	return all.String()
}

var ownedTables = []string{
	"ledger_outbox", "ledger_pending", "ledger_claim", "ledger_instance", "ledger_outcome", "ledger_slot",
	"ledger_skip",
}

// sendStatements sends everything that the attacker can think of. A statement may fail; one that answers must
// answer with nothing, 0 or f, and must not let the word be seen.
func (d *desks) sendStatements(t *testing.T) {
	t.Helper()
	config, err := pgx.ParseConfig(d.database.DSN(pgtest.As(d.attacker)))
	if err != nil {
		t.Fatal(err)
	}
	var notices strings.Builder
	config.OnNotice = noticeInto(&notices)
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, statement := range d.statements() {
		notices.Reset()
		results, _ := conn.PgConn().Exec(t.Context(), statement).ReadAll() // most of them fail
		for _, r := range results {
			for _, row := range r.Rows {
				if answer := string(joined(row)); answer != "" && answer != "0" && answer != "f" {
					d.breaches = append(d.breaches, statement+"\n  answers "+answer)
				}
			}
		}
		if strings.Contains(notices.String(), "pearl") {
			d.breaches = append(d.breaches, statement+"\n  tells "+notices.String())
		}
		if _, err := conn.Exec(t.Context(), "ROLLBACK; RESET ALL; RESET ROLE"); err != nil {
			t.Fatal(err)
		}
	}
	for _, table := range append([]string{"ledger_legacy"}, ownedTables...) {
		var copied strings.Builder
		_, _ = conn.PgConn().CopyTo(t.Context(), &copied, "COPY fencerow."+table+" TO STDOUT") // may be refused
		if strings.Contains(copied.String(), "pearl") {
			d.breaches = append(d.breaches, "COPY of "+table+" gives "+copied.String())
		}
	}
}
