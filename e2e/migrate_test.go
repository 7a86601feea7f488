package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

const latest = 10 // the newest version of the schema

// migrated is the document of `migrate up` and `migrate down`.
type migrated struct{ From, To int }

// versions is the document of `migrate status`.
type versions struct {
	Current, Latest int
	Newer           bool
	OldestProgram   int `json:"oldest_program"`
	Pending         []struct {
		Number int
		Name   string
	}
}

func (w *world) migrate(args ...string) migrated {
	w.t.Helper()
	return document[migrated](w.t, want(w.t, w.run("", append([]string{"migrate", "--json"}, args...)...), 0))
}

func (w *world) versions() versions {
	w.t.Helper()
	return document[versions](w.t, want(w.t, w.run("", "migrate", "status", "--json"), 0))
}

// declare does what a migration does that old programs may be unable to work with.
func (w *world) declare(version, oldest int) {
	w.t.Helper()
	w.db.Exec(w.t, fmt.Sprintf(`
BEGIN;
LOCK TABLE fencerow.ledger_instance IN EXCLUSIVE MODE;
CREATE OR REPLACE FUNCTION fencerow.oldest_program() RETURNS integer LANGUAGE sql STABLE AS 'SELECT %d';
UPDATE fencerow.schema_version SET version = %d;
COMMIT`, oldest, version))
}

// catalog describes every column, constraint, index, function and trigger of the schema.
func (w *world) catalog() string {
	w.t.Helper()
	return strings.Join(column[string](w, `
SELECT format('%s.%s %s %s %s', table_name, column_name, data_type, is_nullable, column_default)
FROM information_schema.columns
WHERE table_schema = 'fencerow'
UNION ALL
SELECT conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid)
FROM pg_constraint
WHERE connamespace = 'fencerow'::regnamespace
UNION ALL
SELECT indexdef
FROM pg_indexes
WHERE schemaname = 'fencerow'
UNION ALL
SELECT pg_get_functiondef(oid)
FROM pg_proc
WHERE pronamespace = 'fencerow'::regnamespace
UNION ALL
SELECT pg_get_triggerdef(t.oid)
FROM pg_trigger t
JOIN pg_class c ON c.oid = t.tgrelid
WHERE c.relnamespace = 'fencerow'::regnamespace
ORDER BY 1`), "\n")
}

func TestMigrateBringsAnEmptyDatabaseUpAndDownAndUp(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, pgtest.NewDatabase(t, nil))

	// A database without the schema: no program works on it, and each says what to do.
	const advice = "run fencerow migrate up"
	want(t, w.runDaemon(nil), 1, advice)
	want(t, w.run("desk-1", "counts"), 1, "store_schema_mismatch", "fencerow migrate up")
	want(t, w.run("desk-1", "process", "c-1"), 1, "store_schema_mismatch")
	before := w.versions()
	equal(t, "before", fmt.Sprint(before.Current, before.Latest, before.Newer, len(before.Pending)),
		fmt.Sprint(0, latest, false, latest))
	equal(t, "tables that asking has made", one[int](w, `
SELECT count(*)
FROM pg_tables
WHERE schemaname = 'fencerow'`), 0)

	equal(t, "up", w.migrate("up"), migrated{0, latest})
	equal(t, "up again", w.migrate("up"), migrated{latest, latest})
	catalog := w.catalog()
	for version := latest - 1; version >= 0; version-- {
		equal(t, "down", w.migrate("down", "--to", fmt.Sprint(version)), migrated{version + 1, version})
		equal(t, "version", w.versions().Current, version)
		equal(t, "steps to do", len(w.versions().Pending), latest-version)
		// An older schema is none that this program works with.
		want(t, w.runDaemon(nil), 1, advice)
		want(t, w.run("desk-1", "counts"), 1, "store_schema_mismatch")
	}
	equal(t, "up from nothing", w.migrate("up"), migrated{0, latest})
	if w.catalog() != catalog {
		t.Error("after up, down and up the schema is another one")
	}
	want(t, w.run("", "migrate", "down", "--to", fmt.Sprint(latest+1)), 80, "--to")

	// Owned entries are never given up.
	w.enqueueOne("desk-1", "c-1")
	entry := w.state("desk-1", "c-1")
	equal(t, "down over an index", w.migrate("down", "--to", "2"), migrated{latest, 2})
	want(t, w.run("", "migrate", "down", "--to", "1"), 1, "owned_entries_exist", "finish and prune them")
	equal(t, "version", w.versions().Current, 2)
	equal(t, "the entry", w.state("desk-1", "c-1"), entry)
	equal(t, "up", w.migrate("up"), migrated{2, latest})
	want(t, w.run("desk-1", "process", "c-1"), 0)
	want(t, w.run("desk-1", "prune", "--older-than", "0s"), 0)
	equal(t, "down when all are finished and pruned", w.migrate("down", "--to", "0"), migrated{latest, 0})

	verified := want(t, w.run("", "migrate", "verify", "--json"), 0)
	type checks struct {
		Latest int
		Checks []string
	}
	found := document[checks](t, verified)
	equal(t, "latest", found.Latest, latest)
	if len(found.Checks) < 3 {
		t.Errorf("verify made only %v", found.Checks)
	}
	equal(t, "version after verify", w.versions().Current, 0)
	t.Logf("migrate: 0 to %d, again, down one by one, up again to the same schema, refused below 2 with an "+
		"owned entry; verify made %d checks; daemon and commands refused every other version",
		latest, len(found.Checks))
}

func TestADatabaseOfANewerVersionIsRefusedAndLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.start("desk-1", nil)
	w.enqueueOne("desk-1", "c-1")
	w.awaitDrained(patience, "desk-1") // so it has begun on the version that it knows
	w.declare(latest+1, latest+1)
	catalog := w.catalog()
	newer := w.versions()
	equal(t, "status", fmt.Sprint(newer.Current, newer.Newer, len(newer.Pending)), fmt.Sprint(latest+1, true, 0))
	want(t, w.run("", "migrate", "up"), 1, "schema_newer", "use the fencerow that migrated this database")
	want(t, w.run("", "migrate", "down", "--to", "0"), 1, "schema_newer")
	tooNew := fmt.Sprintf("version %d, is not one that this program works with", latest+1)
	want(t, w.runDaemon(nil), 1, tooNew)
	want(t, w.run("desk-1", "counts"), 1, "store_schema_mismatch", "fencerow migrate status")
	if w.catalog() != catalog {
		t.Error("the schema was changed")
	}
	// A daemon that runs already says that it is not ready, and goes on until it is told to stop.
	until(t, patience, "the end of readiness", func() bool {
		status, reason := readiness(t, d)
		return status == http.StatusServiceUnavailable && reason == "store_schema_mismatch"
	})
	d.stop()
}

// readiness asks a daemon whether it is ready.
func readiness(t *testing.T, d *daemon) (status int, reason string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.opsURL()+"/readyz", nil)
	check(t, err)
	response, err := http.DefaultClient.Do(request)
	check(t, err)
	defer response.Body.Close()
	var doc struct{ Reason string }
	check(t, json.NewDecoder(response.Body).Decode(&doc))
	return response.StatusCode, doc.Reason
}

func TestTwentyProcessesMigrateOneDatabaseAtOnce(t *testing.T) {
	t.Parallel()
	const processes = 20
	w := newWorldOn(t, pgtest.NewDatabase(t, nil))
	var wait sync.WaitGroup
	results := make([]result, processes)
	for i := range results {
		wait.Go(func() { results[i] = w.run("", "migrate", "up", "--json") })
	}
	wait.Wait()
	moved := 0
	for _, r := range results {
		switch change := document[migrated](t, want(t, r, 0)); change {
		case migrated{0, latest}:
			moved++
		case migrated{latest, latest}:
		default:
			t.Errorf("a process went %+v", change)
		}
	}
	equal(t, "processes that migrated", moved, 1)
	if w.catalog() != newWorld(t).catalog() {
		t.Error("the schema is not what one process makes")
	}
	equal(t, "invalid indexes", one[int](w, `SELECT count(*) FROM pg_index WHERE NOT indisvalid`), 0)
	w.enqueueOne("desk-1", "c-1")
	want(t, w.run("desk-1", "process", "c-1"), 0)
	t.Logf("%d processes migrated at once: %d went from 0 to %d, the others found it done",
		processes, moved, latest)
}

// hostileRows are what the schema before ownership allowed, and today's does not.
const hostileRows = `
INSERT INTO fencerow.ledger_outbox
    (correlation_id, entry_kind, slot_id, cash_delta, currency, payload, status, attempt_count, next_retry_at)
SELECT
    'old-' || n, 'fill', 'slot-1', n, 'EUR', json_build_object('n', n), 'pending', n % 5,
    now() - interval '1 day'
FROM generate_series(1, 200) n
UNION ALL
SELECT * FROM (VALUES
    ('', '', '', 'NaN'::numeric, '', 'null'::json, '', -1, NULL::timestamptz),
    ('two words', 'Fill', E'tab\t', 1e40, 'euro', '[1]', 'who knows', 2147483647, 'infinity'),
    ('twice', 'fill', NULL, 0, NULL, '{}', 'completed', 1, NULL),
    ('twice', 'fill', NULL, 0, NULL, '{}', 'pending', 0, now()),
    (repeat('long', 2000), 'fill', NULL, 'Infinity', NULL, '"text"', 'pending', 0, '-infinity'),
    (E'\x1b[31m\nline', 'é', ' ', -1e-30, '€', E'{"a":\t"\\u0000"}', 'failed', 0, now())
) v`

// legacyDigest is a digest of what the columns of the schema before ownership hold for the unowned rows.
func (w *world) legacyDigest(after bool) string {
	w.t.Helper()
	from := "fencerow.ledger_outbox o"
	if after {
		from += " JOIN fencerow.ledger_legacy l USING (outbox_id) WHERE o.instance_key IS NULL"
	}
	return one[string](w, `
SELECT count(*) || ' ' || md5(string_agg(r::text, chr(10) ORDER BY r.outbox_id))
FROM (
    SELECT outbox_id, correlation_id, entry_kind, slot_id, cash_delta, currency, payload::text, status,
        attempt_count, next_retry_at, enqueued_at
    FROM `+from+`
) r`)
}

func TestRowsFromBeforeOwnershipSurviveTheMigrationAndEveryVerbUnchanged(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, pgtest.NewDatabase(t, nil))
	w.migrate("up")
	w.migrate("down", "--to", "1")
	w.db.Exec(t, hostileRows)
	before := w.legacyDigest(false)
	equal(t, "up", w.migrate("up"), migrated{1, latest})
	equal(t, "after the migration", w.legacyDigest(true), before)
	equal(t, "rows that got an owner", one[int](w, `
SELECT count(*)
FROM fencerow.ledger_outbox
WHERE instance_key IS NOT NULL`), 0)

	// A daemon and every command go past them.
	w.enqueueLines("desk-1", fills("own", 20))
	w.fail("own-7", 1, answers(400))
	d := w.start("desk-1", nil)
	w.awaitDrained(patience, "desk-1")
	d.stop()
	w.mustRun("desk-1", "requeue", "own-7", "--from", "permanent_failure")
	for _, args := range [][]string{
		{"backfill"}, {"hold"}, {"resume"}, {"slot", "slot-1", "--strategy", "x"}, {"pending"}, {"blocked"},
		{"cash-delta"}, {"claims"}, {"legacy", "export", "old-1"}, {"prune", "--older-than", "0s"},
	} {
		w.mustRun("desk-1", args...)
	}
	for _, args := range [][]string{
		{"process", "old-1", "--force-due"}, {"show", "old-1"}, {"requeue", "old-1", "--from", "dead_lettered"},
	} {
		want(t, w.run("desk-1", args...), 3)
	}
	type counts struct{ Statuses map[string]int }
	left := document[counts](t, w.mustRun("desk-1", "counts", "--json")).Statuses
	equal(t, "own entries left", left["completed"]+left["pending"], 0)
	equal(t, "after every verb", w.legacyDigest(true), before)
	for statement, says := range map[string]string{
		"UPDATE fencerow.ledger_outbox SET instance_key = 'desk-1' WHERE correlation_id = 'old-1'": "immutable",
		"UPDATE fencerow.ledger_legacy SET status = 'pending'":                                     "immutable",
		"INSERT INTO fencerow.ledger_outbox (correlation_id, entry_kind, payload, enqueued_at) " +
			"VALUES ('new', 'fill', '{}', now())": "ledger_outbox_instance_key_present",
	} {
		if _, err := w.pool.Exec(t.Context(), statement); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", statement, err, says)
		}
	}

	// Down, once nothing is owned, gives back what was there.
	equal(t, "down", w.migrate("down", "--to", "1"), migrated{latest, 1})
	equal(t, "after down", w.legacyDigest(false), before)
	equal(t, "up again", w.migrate("up"), migrated{1, latest})
	equal(t, "after up again", w.legacyDigest(true), before)
	t.Logf("unowned rows (count and digest) %s: the same before and after up, a daemon, 13 commands, "+
		"down and up", before)
}

func TestAMigrationThatIsInterruptedLeavesNothingHalfDone(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, pgtest.NewDatabase(t, nil))
	w.migrate("up")
	w.migrate("down", "--to", "1")
	catalog := w.catalog()
	reader, err := w.pool.Begin(t.Context())
	check(t, err)
	// It holds the table against the migration.
	_, err = reader.Exec(t.Context(), "SELECT FROM fencerow.ledger_outbox")
	check(t, err)
	waiting := func() bool {
		return one[int](w, `
SELECT count(*)
FROM pg_stat_activity
WHERE datname = current_database()
    AND application_name = 'fencerow migrate'
    AND wait_event_type = 'Lock'`) > 0
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		s := w.spawn("", nil, "migrate", "up")
		until(t, patience, "a migration that waits", waiting)
		s.signal(sig)
		if sig == syscall.SIGTERM {
			want(t, s.wait(), 1, "migration_failed", "it was interrupted: run it again to finish")
		} else {
			equal(t, "status of the killed", s.wait().status, -1)
		}
		until(t, patience, "the end of its session", func() bool { return !waiting() })
		equal(t, "version", w.versions().Current, 1)
	}
	// Nobody interrupts it, but the table is not to be had.
	want(t, w.run("", "migrate", "up"), 1,
		"store_busy, migration 002", "a transaction holds what the step needs")
	equal(t, "version", w.versions().Current, 1)
	check(t, reader.Rollback(t.Context()))
	if w.catalog() != catalog {
		t.Error("something of the interrupted migration stands")
	}
	equal(t, "up", w.migrate("up"), migrated{1, latest})
}

func TestARoleThatOwnsOnlyTheSchemaMigratesAndDelivers(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, pgtest.NewDatabase(t, nil))
	role := w.db.NewRole(t, nil)
	w.settings["DSN"] = w.db.DSN(pgtest.As(role))
	want(t, w.run("", "migrate", "up"), 1, "store_permission_denied", "the role must own schema fencerow")
	w.db.Exec(t, "CREATE SCHEMA fencerow AUTHORIZATION "+pgx.Identifier{role.Name}.Sanitize())
	equal(t, "up", w.migrate("up"), migrated{0, latest})
	w.enqueueLines("desk-1", fills("own", 20))
	d := w.start("desk-1", nil)
	w.awaitDrained(patience, "desk-1")
	d.stop()
	equal(t, "booked", int(w.stub.Counters().Booked), 20)
	w.mustRun("desk-1", "prune", "--older-than", "0s")
	equal(t, "down", w.migrate("down", "--to", "0"), migrated{latest, 0})
}

func TestADatabaseOfAnotherEncodingIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, pgtest.NewDatabase(t, nil))
	name := w.db.Name + "_ascii"
	w.db.Exec(t, "CREATE DATABASE "+name+" TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'")
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.WithoutCancel(t.Context()), w.db.DSN())
		check(t, err)
		defer conn.Close(context.WithoutCancel(t.Context()))
		_, err = conn.Exec(context.WithoutCancel(t.Context()), "DROP DATABASE "+name+" WITH (FORCE)")
		check(t, err)
	})
	dsn, err := url.Parse(w.db.DSN())
	check(t, err)
	dsn.Path = "/" + name
	w.settings["DSN"] = dsn.String()
	want(t, w.run("", "migrate", "up"), 1, "encoding_not_utf8", "ENCODING 'UTF8'")
	equal(t, "version", w.versions().Current, 0)
}
