package migrate

import (
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/fourblocks2020/fencerow/internal/pgtest"
	"github.com/fourblocks2020/fencerow/sql"
	"github.com/fourblocks2020/fencerow/sql/schema"
)

func TestHistoryLeadsToCommittedDump(t *testing.T) {
	t.Parallel()
	r, _ := newRunnerOn(t)
	mustUp(t, r, Change{0, latest(t)})
	if *update {
		write(t, "../../sql/schema.golden.sql", mustDump(t, r))
		return
	}
	mustMatch(t, r, sql.Golden)
}

func TestHashesAreThoseOfTheFiles(t *testing.T) {
	t.Parallel()
	hashes, err := formatHashes(schema.Files)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		write(t, "../../sql/schema/history.sha256", hashes)
		return
	}
	if hashes != schema.Hashes {
		t.Errorf("a migration was edited, or added without its hash\nwant:\n%s\nhave:\n%s", schema.Hashes, hashes)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestUpOnNewestChangesNothing(t *testing.T) {
	t.Parallel()
	r, db := newRunnerOn(t)
	mustUp(t, r, Change{0, latest(t)})
	db.Exec(t, `SELECT * FROM fencerow.enqueue('a', 'c-1', 'fill', '{"n": 1}', skip => true)`)
	mustUp(t, r, Change{latest(t), latest(t)})
	mustMatch(t, r, sql.Golden)
	left := one[int](t, db.Connect(t), `
SELECT count(*)
FROM fencerow.ledger_outbox
JOIN fencerow.ledger_pending USING (outbox_id)
JOIN fencerow.ledger_skip USING (outbox_id)`)
	if left != 1 {
		t.Errorf("%d entries left; want the one there was", left)
	}
}

func TestEachVersionIsTheSameFromBelowAndFromAbove(t *testing.T) {
	t.Parallel()
	r, _ := newRunnerOn(t)
	var dumps []string
	for version := range latest(t) + 1 {
		mustTo(t, r, version)
		dumps = append(dumps, mustDump(t, r))
	}
	for version := latest(t) - 1; version >= 0; version-- {
		mustTo(t, r, version)
		mustMatch(t, r, dumps[version])
		mustUp(t, r, Change{version, latest(t)})
		mustMatch(t, r, dumps[latest(t)])
		mustTo(t, r, version)
	}
	for version, dump := range dumps[:latest(t)] {
		if dump == dumps[version+1] {
			t.Errorf("the dump does not tell version %d from the next one", version)
		}
	}
}

// What a migration states is for people and for the status; programs ask the schema.
func TestSchemaSaysTheOldestProgramThatItsMigrationStates(t *testing.T) {
	t.Parallel()
	r, db := newRunnerOn(t)
	conn := db.Connect(t)
	steps, err := listSteps(r.files)
	if err != nil {
		t.Fatal(err)
	}
	says := func(step Step) {
		t.Helper()
		body, err := fs.ReadFile(r.files, step.Name+".sql")
		if err != nil {
			t.Fatal(err)
		}
		stated, said := statedOldest(string(body)), one[int](t, conn, "SELECT fencerow.oldest_program()")
		if said != stated {
			t.Errorf("the schema at version %d says %d, its migration states %d", step.Number, said, stated)
		}
	}
	for _, step := range steps[oldestCame-1:] {
		mustTo(t, r, step.Number)
		says(step)
	}
	for _, step := range slices.Backward(steps[oldestCame-1:]) {
		mustTo(t, r, step.Number)
		says(step)
	}
	// Whatever else a role may not do, and whatever its owner's functions are open for otherwise.
	role := db.NewRole(t, nil)
	db.Exec(t, "GRANT USAGE ON SCHEMA fencerow TO "+role.Name)
	mustTo(t, r, oldestCame-1)
	db.Exec(t, "ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC")
	mustTo(t, r, oldestCame)
	theirs := db.Connect(t, pgtest.As(role))
	if got := one[int](t, theirs, "SELECT fencerow.oldest_program()"); got != oldestCame {
		t.Errorf("a role with no rights is told %d", got)
	}
}

// Whatever the owner's default privileges are.
func TestWhoMayEnqueueMayTryTo(t *testing.T) {
	t.Parallel()
	const (
		signature = "(text, text, text, json, text, numeric, text, text, boolean)"
		allowed   = "SELECT has_function_privilege($1, 'fencerow.try_enqueue" + signature + "', 'EXECUTE')"
	)
	for _, restricted := range []bool{false, true} {
		t.Run(fmt.Sprintf("Restricted%t", restricted), func(t *testing.T) {
			t.Parallel()
			r, db := newRunnerOn(t)
			producer, other := db.NewRole(t, nil), db.NewRole(t, nil)
			mustTo(t, r, 9)
			if restricted {
				db.Exec(t, "ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC")
				db.Exec(t, "REVOKE EXECUTE ON FUNCTION fencerow.enqueue"+signature+" FROM PUBLIC")
				db.Exec(t, "GRANT EXECUTE ON FUNCTION fencerow.enqueue"+signature+` TO "`+producer.Name+`"`)
			}
			mustTo(t, r, 10)
			conn := db.Connect(t)
			if !one[bool](t, conn, allowed, producer.Name) {
				t.Error("a producer may not")
			}
			if got := one[bool](t, conn, allowed, other.Name); got == restricted {
				t.Errorf("another role may: %t", got)
			}
		})
	}
}

func TestDumpSeesEveryKindOfChange(t *testing.T) {
	t.Parallel()
	r, db := newRunnerOn(t)
	mustUp(t, r, Change{0, latest(t)})
	for _, change := range []string{
		"ALTER TABLE fencerow.ledger_slot ADD COLUMN extra text",
		"ALTER TABLE fencerow.ledger_slot ALTER COLUMN extra SET DEFAULT 'x'",
		"ALTER TABLE fencerow.ledger_slot ALTER COLUMN extra SET NOT NULL",
		`ALTER TABLE fencerow.ledger_slot ALTER COLUMN extra TYPE text COLLATE "C"`,
		"ALTER TABLE fencerow.ledger_slot ALTER COLUMN extra SET STORAGE plain",
		"ALTER TABLE fencerow.ledger_slot ADD CONSTRAINT extra CHECK (extra <> '') NOT VALID",
		"ALTER TABLE fencerow.ledger_slot VALIDATE CONSTRAINT extra",
		"ALTER TABLE fencerow.ledger_slot SET (fillfactor = 30)",
		"ALTER TABLE fencerow.ledger_slot SET UNLOGGED",
		"ALTER TABLE fencerow.ledger_slot ENABLE ROW LEVEL SECURITY",
		"ALTER TABLE fencerow.ledger_slot FORCE ROW LEVEL SECURITY",
		"CREATE POLICY extra ON fencerow.ledger_slot FOR SELECT USING (true)",
		"ALTER POLICY extra ON fencerow.ledger_slot USING (false)",
		"ALTER POLICY extra ON fencerow.ledger_slot TO pg_monitor",
		"CREATE POLICY narrow ON fencerow.ledger_slot AS RESTRICTIVE WITH CHECK (true)",
		"ALTER POLICY narrow ON fencerow.ledger_slot WITH CHECK (false)",
		"DROP POLICY ledger_slot_wall ON fencerow.ledger_slot",
		"ALTER TABLE fencerow.ledger_outbox DISABLE TRIGGER ledger_outbox_immutable",
		"DROP TRIGGER ledger_legacy_immutable ON fencerow.ledger_legacy",
		"CREATE INDEX extra ON fencerow.ledger_slot (extra)",
		"CREATE FUNCTION fencerow.extra() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
		"CREATE OR REPLACE FUNCTION fencerow.extra() RETURNS integer LANGUAGE sql AS 'SELECT 2'",
		"ALTER FUNCTION fencerow.extra() SECURITY DEFINER",
		"ALTER FUNCTION fencerow.extra() SET search_path = ''",
		"CREATE VIEW fencerow.other AS SELECT 1",
		"CREATE SEQUENCE fencerow.another",
		"CREATE TYPE fencerow.kind AS ENUM ('a')",
	} {
		before := mustDump(t, r)
		db.Exec(t, change)
		if mustDump(t, r) == before {
			t.Errorf("the dump does not show %s", change)
		}
	}
}

func TestDumpDoesNotDependOnSettingsOrOwner(t *testing.T) {
	t.Parallel()
	r, db := newRunnerOn(t)
	mustUp(t, r, Change{0, latest(t)})
	role := db.NewRole(t, nil)
	db.Exec(t, "CREATE SCHEMA other; CREATE TABLE other.ledger_outbox (outbox_id text)")
	db.Exec(t, "GRANT USAGE ON SCHEMA fencerow TO "+role.Name)
	db.Exec(t, "ALTER TABLE fencerow.ledger_slot OWNER TO "+role.Name)
	db.Exec(t, "GRANT SELECT ON ALL TABLES IN SCHEMA fencerow TO PUBLIC")
	db.Exec(t, "ALTER DATABASE "+db.Name+" SET search_path = other, fencerow")
	db.Exec(t, "ALTER DATABASE "+db.Name+" SET quote_all_identifiers = on")
	mustMatch(t, r, sql.Golden)
}

func TestStatusNamesWhatIsPendingAndChangesNothing(t *testing.T) {
	t.Parallel()
	r, db := newRunnerOn(t)
	conn := db.Connect(t)
	steps := []Step{
		{1, "001_create_outbox"}, {2, "002_own_claim_and_fence"}, {3, "003_index_unowned_entries"},
		{4, "004_check_by_domain"}, {5, "005_wall_instances"}, {6, "006_name_oldest_program"},
		{7, "007_store_claims_uncompressed"}, {8, "008_forget_outcomes_of_deleted"},
		{9, "009_find_ids_by_key"}, {10, "010_enqueue_in_one_pass"},
	}
	for version := range len(steps) + 1 {
		pending := steps[version:]
		status, err := ReadStatus(t.Context(), db.DSN())
		want := Status{Current: version, Latest: latest(t), Pending: pending, Oldest: 6}
		if err != nil || !reflect.DeepEqual(status, want) || status.Newer() {
			t.Fatalf("status: %+v, %v; want %+v", status, err, want)
		}
		if version == 0 && one[bool](t, conn, "SELECT to_regnamespace('fencerow') IS NOT NULL") {
			t.Error("reading the status made the schema")
		}
		mustTo(t, r, min(version+1, latest(t)))
	}
}
