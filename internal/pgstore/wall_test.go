package pgstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fourblocks2020/fencerow"
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
			h := newHarness(t, database.DSN(pgtest.As(role)), database.DSN(), nil).handsOn(t)
			h.walled = role.Name
			storetest.Run(t, h)
		})
	}
}

// A producer's grants are enough behind the walls too, for its own instance; the other ways in are closed.
func TestProducerBehindWallsEnqueuesForItsOwnInstanceOnly(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, walled)
	role := database.NewRole(t, nil)
	page, err := os.ReadFile("../../docs/interfaces.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "GRANT ") {
			database.Exec(t, strings.Replace(line, "TO producer", `TO "`+role.Name+`"`, 1))
		}
	}
	const (
		one  = "SELECT * FROM fencerow.enqueue('%s', 'one', 'fill', '{}', skip => true)"
		many = `SELECT * FROM fencerow.enqueue_many('%s', '{two,one,two}', '{fill,fill,fill}', '{"{}","{}","{}"}',
			'{s,NULL,s}', '{1,0,1}', '{EUR,NULL,EUR}', '{NULL,NULL,NULL}', '{true,true,true}')`
		fresh = `SELECT * FROM fencerow.enqueue_many('%s', '{x,y,z}',
			'{fill,fill,fill}', '{"{}","{}","{}"}', '{s,NULL,s}', '{1,0,1}', '{EUR,NULL,EUR}', '{NULL,NULL,NULL}',
			'{true,true,true}')`
		tried  = "SELECT * FROM fencerow.try_enqueue('%s', 'tried', 'fill', '{}', skip => true)"
		direct = `INSERT INTO fencerow.ledger_outbox (
				instance_key, correlation_id, entry_kind, payload, enqueued_at
			)
			VALUES ('%s', 'direct', 'fill', '{}', now())`
		pending = `INSERT INTO fencerow.ledger_pending (outbox_id, instance_key, next_retry_at)
			VALUES (1, '%s', now())`
	)
	conn := database.Connect(t, pgtest.As(role))
	try := func(statement, instance string) bool {
		_, err := conn.Exec(t.Context(), fmt.Sprintf(statement, instance))
		var refused *pgconn.PgError
		if err != nil && (!errors.As(err, &refused) || refused.Code != "42501") {
			t.Errorf("%s for %s: %v", statement, instance, err)
		}
		return err == nil
	}
	for _, statement := range []string{one, tried, many, fresh, direct, pending} {
		if try(statement, "own") {
			t.Errorf("a role without an instance: %s", statement)
		}
	}
	mapRole(t, database, role, "own")
	for _, statement := range []string{one, tried, many, fresh, direct, pending} {
		if try(statement, "other") {
			t.Errorf("done for another instance: %s", statement)
		}
	}
	for _, statement := range []string{one, one, many, many, fresh, tried, tried} {
		if !try(statement, "own") {
			t.Errorf("refused for its own instance: %s", statement)
		}
	}
	if c := claim(t, openOn(t, database), "own", 10); len(c.Entries) != 6 {
		t.Errorf("%d entries came in, want one, two, x, y, z and tried", len(c.Entries))
	}
}

// What a refusal says is the same behind the walls, also where the owner of the tables is no superuser.
func TestRefusalsAreTheSameBehindWallsOfAPlainOwner(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, nil)
	owner, daemon := database.NewRole(t, nil), database.NewRole(t, nil)
	database.Exec(t, `CREATE SCHEMA fencerow AUTHORIZATION "`+owner.Name+`"`)
	if _, err := migrate.Up(t.Context(), database.DSN(pgtest.As(owner))); err != nil {
		t.Fatal(err)
	}
	if _, err := migrate.SetWalls(t.Context(), database.DSN(pgtest.As(owner)), true); err != nil {
		t.Fatal(err)
	}
	database.Exec(t, grants(t, daemon.Name))
	mapRole(t, database, daemon, "own")
	enqueue(t, openOn(t, database, pgtest.As(owner)), "other", 1) // c-0; the owner is not bound
	store := openOn(t, database, pgtest.As(daemon))
	for correlationID, want := range map[fencerow.CorrelationID]fencerow.RefusedWhy{
		"c-0": fencerow.RefusedForeign, "c-1": fencerow.RefusedUnknown,
	} {
		_, err := store.ClaimOne(t.Context(), fencerow.ClaimOneParams{
			Instance: "own", Worker: "w", Token: fencerow.NewClaimToken(), CorrelationID: correlationID,
			Lease: time.Minute,
		})
		if refused, ok := errors.AsType[*fencerow.ClaimRefusedError](err); !ok || refused.Why != want {
			t.Errorf("%s: %v, want %s", correlationID, err, want)
		}
	}
	if n, err := store.LegacyCount(t.Context()); n != 0 || err != nil {
		t.Errorf("%d unowned entries, %v", n, err)
	}
	_, err := store.Show(t.Context(), fencerow.EntryParams{Instance: "other", CorrelationID: "c-0"})
	if !errors.Is(err, fencerow.ErrStorePermission) {
		t.Errorf("under an instance that is not the role's: %v", err)
	}
}

// A daemon whose instance is taken from its role is told so at the next poll, and not that nothing is due: by
// the code with which one that starts is refused.
func TestPollBehindWallsWithoutAnInstanceIsRefused(t *testing.T) {
	t.Parallel()
	database, role := behindWalls(t, nil, "own")
	store := openOn(t, database, pgtest.As(role))
	poll := func() error {
		_, err := store.ClaimBatch(t.Context(), fencerow.ClaimBatchParams{
			Instance: "own", Worker: "w", Token: fencerow.NewClaimToken(), Limit: 10, Lease: time.Minute,
		})
		return err
	}
	for range 2 { // the first poll registers the instance
		if err := poll(); err != nil {
			t.Fatal(err)
		}
	}
	database.Exec(t, "DELETE FROM fencerow.ledger_role WHERE role_name = $1", role.Name)
	enqueue(t, openOn(t, database), "own", 1)
	for range 2 {
		if err := poll(); !errors.Is(err, fencerow.ErrStorePermission) {
			t.Errorf("%v", err)
		}
	}
	if err := store.Register(t.Context(), "own"); !errors.Is(err, fencerow.ErrStorePermission) {
		t.Errorf("at a start: %v", err)
	}
	mapRole(t, database, role, "own")
	if c := claim(t, store, "own", 10); len(c.Entries) != 1 {
		t.Errorf("%d entries once it is given back", len(c.Entries))
	}
}
