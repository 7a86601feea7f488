package pgstore

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
	"github.com/fourblocks2020/fencerow/internal/storetest"
)

// Here each store has sessions of its own, as each process has; in the runs below one has another's too.
func TestConformance(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, schema)
	storetest.Run(t, newHarness(t, database.DSN(), database.DSN(), nil))
}

// No claim may hold only thanks to the floor, or only without it. The run above uses it, as every store does.
func TestConformanceWithoutTheFloor(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, schema)
	storetest.Run(t, newHarness(t, database.DSN(), database.DSN(), func(s *Store) { s.floorAge = 0 }).handsOn(t))
}

// Every statement of the store must mean the same whatever the way pgx sends it, as it must for users behind
// a connection pooler. The entries' numbers are ones that 32 bits do not hold.
func TestConformanceInEveryQueryMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"cache_describe", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			database := pgtest.NewDatabase(t, schema)
			database.Exec(t, "SELECT setval('fencerow.ledger_outbox_outbox_id_seq', 5000000000)")
			dsn := database.DSN(pgtest.With("default_query_exec_mode", mode))
			storetest.Run(t, newHarness(t, dsn, database.DSN(), nil).handsOn(t))
		})
	}
}

// traps are operators that are found before those of the catalog where another made them in a schema of the
// role's search path, since their arguments are of the very types of the columns.
func traps(schema string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "CREATE SCHEMA %s; GRANT USAGE ON SCHEMA %[1]s TO PUBLIC;", schema)
	for _, domain := range []string{
		"instance_key", "correlation_id", "entry_kind", "slot_id", "currency", "reason",
	} {
		for _, right := range []string{"text", "fencerow." + domain} {
			fmt.Fprintf(&b, `
				CREATE FUNCTION %s.spring(fencerow.%s, %s) RETURNS boolean LANGUAGE plpgsql AS
					$$ BEGIN RAISE EXCEPTION 'trapped'; END $$;
				CREATE OPERATOR %[1]s.= (LEFTARG = fencerow.%[2]s, RIGHTARG = %[3]s, FUNCTION = %[1]s.spring);`,
				schema, domain, right)
		}
	}
	return b.String()
}

// Operators that another role made in a schema of the role's search path are not called.
func TestConformanceWithTrapsOnTheSearchPath(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, schema)
	database.Exec(t, traps("trapped"))
	dsn := database.DSN(pgtest.With("search_path", "trapped, public"))
	storetest.Run(t, newHarness(t, dsn, database.DSN(), nil).handsOn(t))
}

func TestTrapSpringsInAStoreThatFollowsTheSearchPath(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, schema)
	database.Exec(t, traps("trapped"))
	store, err := Open(Config{
		DSN: fencerow.NewSecret(database.DSN(pgtest.With("search_path", "trapped, public"))), MaxConns: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	store.texts.rewrite = func(sql string) string {
		return strings.Replace(sql, `'search_path', 'pg_catalog'`, `'search_path', 'trapped, public'`, 1)
	}
	enqueue(t, store, "i", 1)
	if c, err := store.ClaimBatch(t.Context(), batchParams("i", 1)); err == nil {
		t.Errorf("%d entries were claimed, and no trap sprang", len(c.Entries))
	}
}

// A role whose default isolation is stricter, or whose time zone is another, changes nothing. It has the
// grants that the documentation gives to a daemon and no more.
func TestConformanceUnderOtherDefaults(t *testing.T) {
	t.Parallel()
	for name, defaults := range map[string]map[string]string{
		"repeatable read": {"default_transaction_isolation": "repeatable read"},
		"serializable":    {"default_transaction_isolation": "serializable"},
		"time zone":       {"TimeZone": "Asia/Kathmandu"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := pgtest.NewDatabase(t, schema)
			role := database.NewRole(t, defaults)
			database.Exec(t, grants(t, role.Name))
			storetest.Run(t, newHarness(t, database.DSN(pgtest.As(role)), database.DSN(), nil).handsOn(t))
		})
	}
}
