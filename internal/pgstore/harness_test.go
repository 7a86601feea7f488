package pgstore

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/migrate"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
	"github.com/fourblocks2020/fencerow/internal/storetest"
)

// schema is a database with the whole history applied.
var schema = pgtest.NewTemplate(buildSchema)

func buildSchema(ctx context.Context, dsn string) error {
	_, err := migrate.Up(ctx, dsn)
	return err
}

// harness makes worlds on one database. A mutation is applied to each store that a world opens.
type harness struct {
	dsn    string
	conns  int32 // of each store at most
	admin  *pgxpool.Pool
	mutate func(*Store)
	walled string // the role whom each instance is given to where the walls are up, else empty
	worlds atomic.Int64

	// sessions is nil where each store opens sessions of its own.
	sessions *sessions
}

// sessions are the connections of stores that have ended, for those that come. As behind a pooler, a store
// then meets what others left in a session, and statements that were planned for other rows. It is also much
// quicker: most of what a case costs the server is to make a session ready for the store's statements.
type sessions struct {
	mu   sync.Mutex
	idle []*pgxpool.Pool
}

// handOn gives the store the sessions of one that has ended, and takes them back with the world's end.
func (s *sessions) handOn(t storetest.TB, store *Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := len(s.idle) - 1; last >= 0 {
		store.pool.Close() // nothing is connected yet
		store.pool, s.idle = s.idle[last], s.idle[:last]
	}
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.idle = append(s.idle, store.pool)
	})
}

func (s *sessions) close() {
	for _, pool := range s.idle {
		pool.Close()
	}
}

var _ storetest.Harness = (*harness)(nil)

func newHarness(t *testing.T, dsn, adminDSN string, mutate func(*Store)) *harness {
	t.Helper()
	config, err := pgxpool.ParseConfig(adminDSN)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 4
	admin, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	return &harness{dsn: dsn, conns: 4, admin: admin, mutate: mutate}
}

// handsOn has the stores of a harness use one another's sessions.
func (h *harness) handsOn(t *testing.T) *harness {
	t.Helper()
	h.sessions = &sessions{}
	t.Cleanup(h.sessions.close)
	return h
}

// World implements [storetest.Harness].
func (h *harness) World(t storetest.TB) storetest.World { return newWorld(t, h) }

func newWorld(t storetest.TB, h *harness) *world {
	return &world{harness: h, t: t, number: h.worlds.Add(1)}
}

type world struct {
	*harness
	t      storetest.TB
	number int64

	mu        sync.Mutex
	instances []string
}

// Open returns a store with a small pool of its own.
func (w *world) Open() fencerow.Store {
	store, err := Open(Config{DSN: fencerow.NewSecret(w.dsn), MaxConns: w.conns})
	if err != nil {
		w.t.Fatalf("open the store: %v", err)
	}
	if w.sessions != nil {
		w.sessions.handOn(w.t, store)
	} else {
		w.t.Cleanup(store.Close)
	}
	if w.mutate != nil {
		w.mutate(store)
	}
	return store
}

func (w *world) Instance() fencerow.InstanceKey {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := fmt.Sprintf("world-%d/instance-%d", w.number, len(w.instances)+1)
	w.instances = append(w.instances, key)
	if w.walled != "" {
		// The suite also makes the longest key that begins with this one.
		longest := key + strings.Repeat("k", fencerow.MaxInstanceKey-len(key))
		w.exec("INSERT INTO fencerow.ledger_role (role_name, instance_key) VALUES ($1, $2), ($1, $3)",
			w.walled, key, longest)
	}
	return fencerow.InstanceKey(key)
}

// Advance moves everything that this world's instances have into the past. Entries are immutable, so the
// triggers are off for it.
func (w *world) Advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	b.WriteString("BEGIN; SET LOCAL session_replication_role = replica;")
	for table, columns := range map[string][]string{
		"ledger_outbox":   {"enqueued_at"},
		"ledger_pending":  {"next_retry_at"},
		"ledger_claim":    {"claimed_at", "lease_expires_at"},
		"ledger_outcome":  {"outcome_at"},
		"ledger_instance": {"registered_at", "held_at"},
		"ledger_slot":     {"updated_at"},
		"ledger_skip":     {"opened_at", "resolved_at"},
	} {
		sets := make([]string, len(columns))
		for i, c := range columns {
			sets[i] = fmt.Sprintf("%s = %s - interval '%d microseconds'", c, c, d.Microseconds())
		}
		fmt.Fprintf(&b, "UPDATE fencerow.%s SET %s WHERE instance_key IN ('%s');",
			table, strings.Join(sets, ", "), strings.Join(w.instances, "', '"))
	}
	b.WriteString("COMMIT;")
	w.exec(b.String())
}

func (w *world) DeleteEntry(instance fencerow.InstanceKey, id fencerow.OutboxID) {
	w.exec("DELETE FROM fencerow.ledger_outbox WHERE instance_key = $1 AND outbox_id = $2", instance, id)
}

func (w *world) SetLastEpoch(instance fencerow.InstanceKey, id fencerow.OutboxID, epoch fencerow.ClaimEpoch) {
	w.exec(
		"UPDATE fencerow.ledger_pending SET last_epoch = $3 WHERE instance_key = $1 AND outbox_id = $2",
		instance,
		id,
		epoch,
	)
}

func (w *world) SetAttempts(instance fencerow.InstanceKey, id fencerow.OutboxID, n int) {
	w.exec(
		"UPDATE fencerow.ledger_pending SET attempt_count = $3 WHERE instance_key = $1 AND outbox_id = $2",
		instance,
		id,
		n,
	)
}

func (w *world) exec(sql string, args ...any) {
	if _, err := w.admin.Exec(context.Background(), sql, args...); err != nil {
		w.t.Fatalf("prepare the world: %v", err)
	}
}
