package migrate

import (
	"reflect"
	"slices"
	"testing"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
	"github.com/fourblocks2020/fencerow/sql"
)

// mustSetWalls compares everything but the roles that exist on the server beside the test's.
func mustSetWalls(t *testing.T, r *runner, up bool, want Walls) Walls {
	t.Helper()
	walls, err := r.setWalls(t.Context(), up)
	compared := walls
	compared.UnknownRoles, compared.UnmappedRoles = nil, nil
	if err != nil || !reflect.DeepEqual(compared, want) {
		t.Fatalf("walls: %+v, %v; want %+v", walls, err, want)
	}
	return walls
}

func TestWallsGoUpAndDownAndMayBeRepeated(t *testing.T) {
	t.Parallel()
	r, db := newRunnerOn(t)
	mustUp(t, r, Change{0, latest(t)})
	db.Exec(t, "INSERT INTO fencerow.ledger_role VALUES ('one', 'a'), ('one', 'b'), ('two', 'b')")
	// Each table but the mapping itself, whose row security is always on, and the version.
	tables := one[int](t, db.Connect(t), `
SELECT count(*)
FROM pg_class
WHERE relnamespace = 'fencerow'::regnamespace
    AND relkind = 'r'
    AND relname NOT IN ('ledger_role', 'schema_version')`)
	mustSetWalls(t, r, true, Walls{Up: true, Changed: tables, Roles: 2})
	mustSetWalls(t, r, true, Walls{Up: true, Roles: 2})
	db.Exec(t, "ALTER TABLE fencerow.ledger_slot DISABLE ROW LEVEL SECURITY")
	mustSetWalls(t, r, true, Walls{Up: true, Changed: 1, Roles: 2})
	mustSetWalls(t, r, false, Walls{Changed: tables, Roles: 2})
	mustMatch(t, r, sql.Golden)
}

func TestWallsUpCreateTheirLostPoliciesAgain(t *testing.T) {
	t.Parallel()
	r, db := newRunnerOn(t)
	mustUp(t, r, Change{0, latest(t)})
	mustSetWalls(t, r, true, Walls{Up: true, Changed: 8})
	before := mustDump(t, r)
	lost := []string{"ledger_outbox_wall", "ledger_role_wall"}
	db.Exec(t, "DROP POLICY ledger_outbox_wall ON fencerow.ledger_outbox")
	db.Exec(t, "DROP POLICY ledger_role_wall ON fencerow.ledger_role")
	mustSetWalls(t, r, true, Walls{Up: true, Policies: lost})
	mustMatch(t, r, before)
	db.Exec(t, "DROP POLICY ledger_outbox_wall ON fencerow.ledger_outbox")
	mustSetWalls(t, r, false, Walls{Changed: 8}) // nothing needs it while they are down
	mustSetWalls(t, r, true, Walls{Up: true, Changed: 8, Policies: lost[:1]})
	mustMatch(t, r, before)
}

func TestWallsUpTellWhoIsMisspeltOrForgotten(t *testing.T) {
	t.Parallel()
	r, db := newRunnerOn(t)
	mustUp(t, r, Change{0, latest(t)})
	mapped, forgotten, stranger := db.NewRole(t, nil), db.NewRole(t, nil), db.NewRole(t, nil)
	for _, role := range []pgtest.Role{mapped, forgotten} {
		db.Exec(t, `GRANT INSERT ON fencerow.ledger_outbox TO "`+role.Name+`"`)
	}
	db.Exec(t, "INSERT INTO fencerow.ledger_role VALUES ($1, 'a'), ('no such role', 'a')", mapped.Name)
	walls := mustSetWalls(t, r, true, Walls{Up: true, Changed: 8, Roles: 2})
	if !slices.Equal(walls.UnknownRoles, []string{"no such role"}) {
		t.Errorf("unknown: %q", walls.UnknownRoles)
	}
	for role, want := range map[string]bool{mapped.Name: false, forgotten.Name: true, stranger.Name: false} {
		if slices.Contains(walls.UnmappedRoles, role) != want {
			t.Errorf("unmapped: %q; %s among them should be %t", walls.UnmappedRoles, role, want)
		}
	}
}

func TestWallsThatAreUpGoDownWithTheirMigration(t *testing.T) {
	t.Parallel()
	r, _ := newRunnerOn(t)
	mustTo(t, r, wallsCame-1)
	before := mustDump(t, r)
	mustTo(t, r, wallsCame)
	if _, err := r.setWalls(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	mustTo(t, r, wallsCame-1)
	mustMatch(t, r, before)
}

func TestWallsBeforeTheirMigrationAreRefused(t *testing.T) {
	t.Parallel()
	r, db := newRunnerOn(t)
	mustTo(t, r, wallsCame-1)
	_, err := SetWalls(t.Context(), db.DSN(), true)
	mustFail(t, err, fencerow.ErrStoreSchema, 0, "")
}

func TestWallsAreForTheOwnerToSet(t *testing.T) {
	t.Parallel()
	r, db := newRunnerOn(t)
	mustUp(t, r, Change{0, latest(t)})
	role := db.NewRole(t, nil)
	db.Exec(t, `GRANT USAGE ON SCHEMA fencerow TO "`+role.Name+`"`)
	db.Exec(t, `GRANT ALL ON ALL TABLES IN SCHEMA fencerow TO "`+role.Name+`"`)
	for _, up := range []bool{true, false} {
		if up == false {
			mustSetWalls(t, r, true, Walls{Up: true, Changed: 8})
		}
		_, err := SetWalls(t.Context(), db.DSN(pgtest.As(role)), up)
		mustFail(t, err, fencerow.ErrStorePermission, 0, "42501")
	}
}

// Whoever could ask for the one bit by reading the table goes on, and nobody else begins to.
func TestWallsKeepTheGrantsThatAreNeeded(t *testing.T) {
	t.Parallel()
	r, db := newRunnerOn(t)
	mustTo(t, r, wallsCame-1)
	reader, stranger := db.NewRole(t, nil), db.NewRole(t, nil)
	for _, role := range []pgtest.Role{reader, stranger} {
		db.Exec(t, `GRANT USAGE ON SCHEMA fencerow TO "`+role.Name+`"`)
	}
	db.Exec(t, `GRANT SELECT ON fencerow.ledger_outbox TO "`+reader.Name+`"`)
	mustTo(t, r, latest(t))
	conn := db.Connect(t)
	for _, function := range []string{
		"fencerow.foreign_owned(text, text, name)", "fencerow.legacy_count()",
	} {
		for role, want := range map[string]bool{reader.Name: true, stranger.Name: false} {
			may := one[bool](t, conn, "SELECT has_function_privilege($1::text, $2::text, 'EXECUTE')", role, function)
			if may != want {
				t.Errorf("%s may call %s: %t, want %t", role, function, may, want)
			}
		}
	}
}
