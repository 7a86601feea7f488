package pgstore

import (
	"context"
	"testing"

	"github.com/fourblocks2020/fencerow/internal/migrate"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
	"github.com/fourblocks2020/fencerow/internal/storetest"
)

// walled is a database with the whole history applied and the walls between the instances up.
var walled = pgtest.NewTemplate(func(ctx context.Context, dsn string) error {
	if err := buildSchema(ctx, dsn); err != nil {
		return err
	}
	_, err := migrate.SetWalls(ctx, dsn, true)
	return err
})

// behindWalls returns a walled database, and a role of it that has the daemon's grants and these instances.
func behindWalls(
	t testing.TB, settings map[string]string, instances ...string,
) (*pgtest.Database, pgtest.Role) {
	t.Helper()
	database := pgtest.NewDatabase(t, walled)
	role := database.NewRole(t, settings)
	database.Exec(t, grants(t, role.Name))
	for _, instance := range instances {
		mapRole(t, database, role, instance)
	}
	return database, role
}

func mapRole(t testing.TB, database *pgtest.Database, role pgtest.Role, instance string) {
	t.Helper()
	database.Exec(t, "INSERT INTO fencerow.ledger_role VALUES ($1, $2)", role.Name, instance)
}

// A role behind the walls answers every call as one without them does.
func TestConformanceBehindWalls(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]map[string]string{
		"read committed":  nil,
		"repeatable read": {"default_transaction_isolation": "repeatable read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database, role := behindWalls(t, settings)
			h := newHarness(t, database.DSN(pgtest.As(role)), database.DSN(), nil)
			h.walled = role.Name
			storetest.Run(t, h)
		})
	}
}
