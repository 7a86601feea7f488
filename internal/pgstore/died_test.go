package pgstore

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/db"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

// The server goes on with what a process had sent before it died, and may commit a claim that nobody waits
// for. It is a lease like any other: it stands until its end, and no longer.
func TestClaimThatCommitsAfterItsProcessDiedEndsByItself(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, schema)
	w := newWorld(t, newHarness(t, database.DSN(), database.DSN(), nil))
	store, instance := w.Open(), w.Instance()
	doomed, kill := mortalStore(t, database)
	enqueue(t, doomed, instance, 2)
	release(t, doomed, claim(t, doomed, instance, 1)) // prepares what one round trip will then hold
	tx, err := database.Connect(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.New(tx).InstanceLock(t.Context(), instanceLock(instance)); err != nil {
		t.Fatal(err)
	}
	params := batchParams(instance, 2)
	params.Lease = fencerow.MaxLease // a claim waits for its lock for a fraction of it
	failed := make(chan error)
	go func() {
		_, err := doomed.ClaimBatch(context.WithoutCancel(t.Context()), params)
		failed <- err
	}()
	watcher := database.Connect(t)
	waitForLock(t, watcher)
	kill()
	if err := <-failed; err == nil {
		t.Fatal("a process that had died was answered")
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	held := 0
	for deadline := time.Now().Add(10 * time.Second); held == 0 && time.Now().Before(deadline); {
		if err := watcher.QueryRow(t.Context(), `
			SELECT coalesce(sum(cardinality(outbox_ids)), 0) FROM fencerow.ledger_claim`).Scan(&held); err != nil {
			t.Fatal(err)
		}
	}
	if held != 2 {
		t.Fatalf("the dead process holds %d rows, want 2", held)
	}
	if c := claim(t, store, instance, 2); len(c.Entries) != 0 {
		t.Errorf("claimed %d rows before the lease was over", len(c.Entries))
	}
	w.Advance(params.Lease)
	c := claim(t, store, instance, 2)
	for _, e := range c.Entries {
		if !e.Reclaimed || e.Attempt != 2 || !e.Uncertain {
			t.Errorf("entry %+v, want a reclaimed second attempt", e)
		}
	}
	if n := applied(record(t, store, c)); n != 2 {
		t.Errorf("%d rows recorded, want both", n)
	}
}

// mortalStore opens a store whose connections all end when kill is called, as a process that is killed ends
// them. It makes none afterwards, so that it cannot ask the server to cancel what it had sent either.
func mortalStore(t *testing.T, database *pgtest.Database) (store *Store, kill func()) {
	t.Helper()
	config, err := pgxpool.ParseConfig(database.DSN())
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var conns []net.Conn
	dead := false
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		if dead {
			return nil, net.ErrClosed
		}
		conn, err := dial(ctx, network, addr)
		if err == nil {
			conns = append(conns, conn)
		}
		return conn, err
	}
	if store, err = open(config, time.Minute); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store, func() {
		mu.Lock()
		defer mu.Unlock()
		dead = true
		for _, conn := range conns {
			_ = conn.Close() // it may have ended
		}
	}
}
