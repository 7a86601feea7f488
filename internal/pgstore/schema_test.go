package pgstore

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

// declare makes the database say of its schema that it is at a version, and which is the oldest program that
// works with it.
func declare(t *testing.T, database *pgtest.Database, version, oldest fencerow.SchemaVersion) {
	t.Helper()
	database.Exec(t, fmt.Sprintf(`
BEGIN;
LOCK TABLE fencerow.ledger_instance IN EXCLUSIVE MODE;
CREATE OR REPLACE FUNCTION fencerow.oldest_program() RETURNS integer LANGUAGE sql STABLE AS 'SELECT %d';
UPDATE fencerow.schema_version SET version = %d;
COMMIT`, oldest, version))
}

// One session asks again and again, so that an answer which its plan keeps would show.
func TestProgramWorksWithALaterSchemaThatSaysSo(t *testing.T) {
	t.Parallel()
	const own = MaxSchemaVersion
	database := pgtest.NewDatabase(t, schema)
	store := openOn(t, database)
	for _, test := range []struct {
		version, oldest fencerow.SchemaVersion
		want            error
	}{
		{own, own, nil},
		{own + 1, own, nil},
		{own + 1, own + 1, fencerow.ErrStoreSchema},
		{own + 1, own, nil},
		{own + 9, own - 1, nil},
		{own + 9, own + 9, fencerow.ErrStoreSchema},
		{own, own, nil},
		{MinSchemaVersion - 1, MinSchemaVersion - 1, fencerow.ErrStoreSchema},
	} {
		declare(t, database, test.version, test.oldest)
		found, err := store.Ready(t.Context())
		if found != test.version || !errors.Is(err, test.want) {
			t.Errorf("version %d, oldest program %d: found %d, %v, want %v",
				test.version, test.oldest, found, err, test.want)
		}
	}
	declare(t, database, own+1, own)
	database.Exec(t, "ALTER FUNCTION fencerow.oldest_program() RENAME TO who_knows")
	if found, err := store.Ready(t.Context()); found != own+1 || !errors.Is(err, fencerow.ErrStoreSchema) {
		t.Errorf("a later schema that does not say it: found %d, %v", found, err)
	}
}

// Its session has claimed before. What it holds it records: its deliveries are not sent again.
func TestProgramThatTheSchemaHasOutgrownClaimsNothing(t *testing.T) {
	t.Parallel()
	const own = MaxSchemaVersion
	database := pgtest.NewDatabase(t, schema)
	store := openOn(t, database)
	enqueue(t, store, "i", 3)
	held := claim(t, store, "i", 1)
	declare(t, database, own+1, own+1)
	refused := func() {
		t.Helper()
		if _, err := store.ClaimBatch(t.Context(), batchParams("i", 1)); !errors.Is(err, fencerow.ErrStoreSchema) {
			t.Errorf("a batch: %v", err)
		}
		p := batchParams("i", 1)
		if _, err := store.ClaimOne(t.Context(), fencerow.ClaimOneParams{
			Instance: "i", Worker: p.Worker, Token: p.Token, CorrelationID: "c-2", Lease: p.Lease,
		}); !errors.Is(err, fencerow.ErrStoreSchema) {
			t.Errorf("a single entry: %v", err)
		}
	}
	refused()
	if v := record(t, store, held); !v[0].Applied {
		t.Errorf("the outcome of what it holds: %+v", v)
	}
	refused()
	if claims, err := store.Claims(t.Context(), "i"); err != nil || len(claims) > 0 {
		t.Errorf("claims: %+v, %v", claims, err)
	}
	// A daemon that has nothing to do is told too.
	idle := openOn(t, database)
	if _, err := idle.ClaimBatch(t.Context(), batchParams("idle", 1)); !errors.Is(err, fencerow.ErrStoreSchema) {
		t.Errorf("an idle poll: %v", err)
	}
	declare(t, database, own+1, own)
	if c := claim(t, store, "i", 3); len(c.Entries) != 2 {
		t.Errorf("%d rows claimed once the schema allows it, want 2", len(c.Entries))
	}
}

// A migration that raises the number waits for claims that are being made, and those that wait for it see
// what it says.
func TestClaimThatWaitedForAMigrationIsRefusedIfItOutgrewTheProgram(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, schema)
	store := openOn(t, database)
	enqueue(t, store, "i", 2)
	release(t, store, claim(t, store, "i", 1)) // so that the session has its statements
	conn := database.Connect(t)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context()) //nolint:errcheck // it is committed below
	if _, err := tx.Exec(t.Context(), fmt.Sprintf(`
LOCK TABLE fencerow.ledger_instance IN EXCLUSIVE MODE;
CREATE OR REPLACE FUNCTION fencerow.oldest_program() RETURNS integer LANGUAGE sql STABLE AS 'SELECT %d'`,
		MaxSchemaVersion+1)); err != nil {
		t.Fatal(err)
	}
	claimed := make(chan error, 1)
	go func() {
		_, err := store.ClaimBatch(t.Context(), batchParams("i", 1))
		claimed <- err
	}()
	waitForLock(t, database.Connect(t))
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-claimed; !errors.Is(err, fencerow.ErrStoreSchema) {
		t.Errorf("the claim that waited: %v", err)
	}
}

// The server refuses a prepared statement whose columns have changed their types; the session then prepares
// anew, and what was committed before that in the same round trip is not done twice.
func TestStatementsPreparedBeforeAMigrationSurviveIt(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, schema)
	store, err := Open(Config{DSN: fencerow.NewSecret(database.DSN()), MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	enqueue(t, store, "i", 20)
	work := func(n int) {
		t.Helper()
		c := claim(t, store, "i", n)
		if len(c.Entries) != n {
			t.Fatalf("%d rows claimed, want %d", len(c.Entries), n)
		}
		claims, err := store.Claims(t.Context(), "i")
		if err != nil || len(claims) != 1 || claims[0].Epoch != c.Epoch || claims[0].Rows != n {
			t.Fatalf("claims: %+v, %v; want one, of %d rows", claims, err, n)
		}
		for _, v := range record(t, store, c) {
			if !v.Applied {
				t.Fatalf("outcome: %+v", v)
			}
		}
		page := fencerow.ListPendingParams{Instance: "i", Limit: 1}
		if _, err := store.ListPending(t.Context(), page); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	work(1)
	session := store.pool.Stat().NewConnsCount()
	for _, change := range []string{
		"CREATE DOMAIN fencerow.tally AS integer",
		// What a claim reads after its COMMIT; what claims and outcomes read in their transactions; and what is
		// read alone.
		"ALTER TABLE fencerow.ledger_pending ALTER attempt_count TYPE fencerow.tally",
		"ALTER TABLE fencerow.ledger_claim ALTER claim_epoch TYPE fencerow.epoch",
		"ALTER TABLE fencerow.ledger_claim ALTER claimed_by TYPE varchar",
		"ALTER TABLE fencerow.schema_version ALTER version TYPE fencerow.tally",
		`ALTER TABLE fencerow.ledger_pending ADD COLUMN note text;
		ALTER TABLE fencerow.ledger_outcome ADD COLUMN note text DEFAULT 'x'`,
	} {
		database.Exec(t, change)
		work(2)
	}
	if now := store.pool.Stat().NewConnsCount(); now != session {
		t.Error("the session was given up")
	}
}

// A claim that was made but could not be read is in doubt: "busy" would say that it was not made, and nobody
// would give it back.
func TestClaimWhoseEntriesAreLockedAwayIsReadLaterOrInDoubt(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, schema)
	store := openOn(t, database)
	enqueue(t, store, "i", 2)
	release(t, store, claim(t, store, "i", 1)) // so that nothing waits while its statements are prepared
	conn := database.Connect(t)
	lock := func() pgx.Tx {
		t.Helper()
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "LOCK TABLE fencerow.ledger_outbox"); err != nil {
			t.Fatal(err)
		}
		return tx
	}
	unlock := func(tx pgx.Tx) {
		t.Helper()
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	tx, reads := lock(), 0
	store.texts.rewrite = func(sql string) string {
		if strings.HasPrefix(sql, "-- name: ClaimEntries ") {
			if reads++; reads == 2 {
				unlock(tx)
			}
		}
		return sql
	}
	if c := claim(t, store, "i", 1); len(c.Entries) != 1 || reads != 2 {
		t.Errorf("%d rows read in %d reads, want 1 in 2", len(c.Entries), reads)
	}

	patience := store.timeout
	store.timeout /= 4 // it waits six times over
	tx = lock()
	p := batchParams("i", 1)
	if _, err := store.ClaimBatch(t.Context(), p); !errors.Is(err, fencerow.ErrStoreTimeout) {
		t.Errorf("a claim that cannot be read: %v", err)
	}
	unlock(tx)
	store.timeout = patience
	given, err := store.Release(t.Context(), fencerow.ReleaseParams{Instance: "i", Token: p.Token, All: true})
	if err != nil || len(given) != 1 || !given[0].Applied {
		t.Errorf("giving it back: %+v, %v", given, err)
	}
}
