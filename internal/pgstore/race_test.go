package pgstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/db"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

// waitForLock returns once some session of the database waits for a lock.
func waitForLock(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	waitForLocks(t, conn, 1)
}

// waitForLocks returns once so many sessions wait for locks.
func waitForLocks(t *testing.T, conn *pgx.Conn, sessions int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		var waiting bool
		err := conn.QueryRow(ctx, `
			SELECT count(*) >= $1
			FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`, sessions).Scan(&waiting)
		if err != nil {
			t.Fatal(err)
		}
		if waiting {
			return
		}
	}
}

func underRole(t *testing.T, database *pgtest.Database, defaults map[string]string) *Store {
	t.Helper()
	role := database.NewRole(t, defaults)
	database.Exec(t, grants(t, role.Name))
	return openOn(t, database, pgtest.As(role))
}

// A claimer that waited for the instance's lock sees what the one before it committed, whatever the role's
// default isolation is.
func TestClaimerThatWaitedSeesWhatWasClaimed(t *testing.T) {
	t.Parallel()
	for name, defaults := range map[string]map[string]string{
		"read committed":  nil,
		"repeatable read": {"default_transaction_isolation": "repeatable read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := pgtest.NewDatabase(t, schema)
			store := underRole(t, database, defaults)
			enqueue(t, store, "i", 3)
			release(t, store, claim(t, store, "i", 1)) // registers, prepares and leaves no hint that nothing is due
			first := database.Connect(t)
			tx, err := first.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := db.New(tx).InstanceLock(t.Context(), instanceLock("i")); err != nil {
				t.Fatal(err)
			}
			second := make(chan *fencerow.Claim)
			go func() { second <- claim(t, store, "i", 10) }()
			waitForLock(t, database.Connect(t))
			made, err := db.New(tx).ClaimBatch(t.Context(), db.ClaimBatchParams{
				InstanceKey: "i", ClaimToken: uuid(fencerow.NewClaimToken()), ClaimedBy: "first", RowLimit: 2,
				Lease: time.Minute, FromStart: true,
			})
			if err != nil || made.RowCount != 2 {
				t.Fatalf("claimed %d rows, %v", made.RowCount, err)
			}
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if c := <-second; len(c.Entries) != 1 {
				t.Errorf("the second claimer got %d rows, want the one that is left", len(c.Entries))
			}
		})
	}
}

// While an outcome is being committed under an expired claim, nobody takes its rows: not those it ends, and
// not the others either.
func TestRowsOfAnExpiredClaimAreHeldWhileItsOutcomeCommits(t *testing.T) {
	t.Parallel()
	during, after := claimsAroundAnOpenOutcome(t, nil)
	if len(during) != 1 || during[0].CorrelationID != "c-2" {
		t.Errorf("claimed %d rows while the outcome was open, want the one that no claim held", len(during))
	}
	if len(after) != 1 || after[0].CorrelationID != "c-1" || !after[0].Reclaimed {
		t.Errorf("claimed %+v afterwards, want the other row of the expired claim", after)
	}
}

// The case above is worth what it finds.
func TestHoldingOnlyRowsOfLiveClaimsIsFound(t *testing.T) {
	t.Parallel()
	rewrite, changed := mutation{
		queries: []string{"ClaimBatch"},
		pattern: `(?s)(FROM standing s)(\s+\) h)`,
		with:    `${1} WHERE s.lease_expires_at > (SELECT at FROM moment)${2}`,
	}.apply()
	during, _ := claimsAroundAnOpenOutcome(t, func(s *Store) { s.texts.rewrite = rewrite })
	if changed.Load() == 0 {
		t.Fatal("the mutation matches no statement")
	}
	if len(during) == 1 {
		t.Error("rows of an expired claim were free while its outcome committed, and nothing was found")
	}
}

// claimsAroundAnOpenOutcome claims c-0 and c-1 of three rows, lets the claim expire, leaves an outcome of c-0
// open under it, and returns what another claim gets meanwhile and, once the outcome is committed,
// afterwards.
func claimsAroundAnOpenOutcome(t *testing.T, mutate func(*Store)) (during, after []fencerow.ClaimedEntry) {
	t.Helper()
	database := pgtest.NewDatabase(t, schema)
	w := newHarness(t, database.DSN(), database.DSN(), mutate).World(t)
	store, instance := w.Open(), w.Instance()
	enqueue(t, store, instance, 3)
	old := claim(t, store, instance, 2)
	w.Advance(2 * time.Minute)
	tx, err := database.Connect(t).BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		t.Fatal(err)
	}
	q := db.New(tx)
	if _, err := q.ClaimLock(t.Context(), db.ClaimLockParams{
		ClaimToken: uuid(old.Token), InstanceKey: string(instance),
	}); err != nil {
		t.Fatal(err)
	}
	row, err := q.ClaimRecord(t.Context(), recordParams(instance, old.Token, completed(old)[:1]))
	if err != nil || row.AppliedCount != 1 {
		t.Fatalf("recorded %d, %v", row.AppliedCount, err)
	}
	during = claim(t, store, instance, 10).Entries
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	return during, claim(t, store, instance, 10).Entries
}

// A transaction that began before a claim and commits after it hides nothing: rows are claimed by their
// state, not behind a cursor.
func TestLowerIDThatCommitsLaterIsClaimed(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, schema)
	store := openOn(t, database)
	tx, err := database.Connect(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	late := fencerow.NewEntry{CorrelationID: "late", EntryKind: "fill", Payload: []byte(`{}`)}
	if _, err := EnqueueTx(
		t.Context(),
		tx,
		fencerow.EnqueueParams{Instance: "i", Entries: []fencerow.NewEntry{late}},
	); err != nil {
		t.Fatal(err)
	}
	enqueue(t, store, "i", 100)
	for range 5 { // full claims, which set the floor
		record(t, store, claim(t, store, "i", 10))
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	seen := map[fencerow.CorrelationID]bool{}
	for range 10 {
		c := claim(t, store, "i", 10)
		if len(c.Entries) == 0 {
			break
		}
		for _, e := range c.Entries {
			seen[e.CorrelationID] = true
		}
		record(t, store, c)
	}
	if len(seen) != 51 || !seen["late"] {
		t.Errorf("claimed %d of 51 entries, the late one: %t", len(seen), seen["late"])
	}
}

// An operator's lock, or anybody's, makes a claim busy in time; nothing is left open and the next one works.
func TestLockNotHadInTimeIsBusy(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, schema)
	store, err := Open(Config{DSN: fencerow.NewSecret(database.DSN()), Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	patient := openOn(t, database)
	enqueue(t, patient, "i", 1)
	release(t, patient, claim(t, patient, "i", 1))
	tx, err := database.Connect(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.New(tx).InstanceLock(t.Context(), instanceLock("i")); err != nil {
		t.Fatal(err)
	}
	if _, err := store.ClaimBatch(t.Context(), batchParams("i", 1)); !errors.Is(err, fencerow.ErrStoreBusy) {
		t.Errorf("got %v, want store_busy", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := claim(t, patient, "i", 1); len(c.Entries) != 1 {
		t.Error("the next claim found nothing")
	}
	noTransactionIsOpen(t, database)
}

// A client that opens an outcome's transaction and stops is cut off by the server within its bounds, and the
// others go on.
func TestOutcomeTransactionLeftOpenEndsByItself(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, schema)
	store := openOn(t, database)
	enqueue(t, store, "i", 1)
	c := claim(t, store, "i", 1)
	conn := database.Connect(t)
	if _, err := conn.Exec(t.Context(), begin); err != nil {
		t.Fatal(err)
	}
	q := db.New(conn)
	if _, err := q.TransactionBounds(t.Context(), db.TransactionBoundsParams{
		StatementTimeout: "200ms", LockTimeout: "200ms", IdleTimeout: "200ms",
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := q.ClaimLock(
		t.Context(),
		db.ClaimLockParams{ClaimToken: uuid(c.Token), InstanceKey: "i"},
	); err != nil {
		t.Fatal(err)
	}
	// The record waits for the lock for as long as the stopped client may keep it, then goes on.
	if n := applied(record(t, store, c)); n != 1 {
		t.Errorf("%d rows recorded", n)
	}
}

// noTransactionIsOpen fails when a session stays in a transaction. A server that goes on with what a client
// had sent before it left is for a moment between two statements of it, so that one look is not enough.
func noTransactionIsOpen(t *testing.T, database *pgtest.Database) {
	t.Helper()
	conn := database.Connect(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	open := 1
	for open > 0 {
		err := conn.QueryRow(ctx, `
			SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()
				AND state LIKE 'idle in transaction%'`).Scan(&open)
		if err != nil {
			t.Fatalf("transactions are open: %v", err)
		}
	}
}
