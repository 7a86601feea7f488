package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/db"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
	"github.com/fourblocks2020/fencerow/internal/storetest"
)

// poolerSettings are those of a pooler that has so many sessions, and keeps so many prepared statements where
// it can.
func poolerSettings(sessions, statements string) map[string]string {
	settings := map[string]string{"default_pool_size": sessions}
	if statements != "" {
		settings["max_prepared_statements"] = statements
	}
	return settings
}

// Behind a pooler in transaction mode each transaction may run in another session, and no session is one's
// own. The role has the documented grants only. describe_exec is made safe; see safeMode.
func TestConformanceThroughAPooler(t *testing.T) {
	t.Parallel()
	type way struct {
		mode       string
		sessions   string // of the pooler to the server
		pool       int32  // of each store
		statements string // that the pooler keeps, where it can
	}
	ways := []way{
		{mode: "cache_describe", sessions: "3", pool: 4}, {mode: "describe_exec", sessions: "3", pool: 4},
		{mode: "exec", sessions: "1", pool: 1}, {mode: "simple_protocol", sessions: "3", pool: 4},
	}
	if pgtest.StartPooler(t, pgtest.NewDatabase(t, nil), nil).KeepsStatements(t) {
		ways = append(ways, way{mode: "cache_statement", sessions: "3", pool: 4, statements: "200"})
	}
	for _, way := range ways {
		t.Run(way.mode, func(t *testing.T) {
			t.Parallel()
			database := pgtest.NewDatabase(t, schema)
			role := database.NewRole(t, nil)
			database.Exec(t, grants(t, role.Name))
			pooler := pgtest.StartPooler(t, database, poolerSettings(way.sessions, way.statements))
			dsn := database.DSN(pgtest.As(role), pgtest.Via(pooler.Address()),
				pgtest.With("default_query_exec_mode", way.mode))
			h := newHarness(t, dsn, database.DSN(), nil).handsOn(t)
			h.conns = way.pool
			storetest.Run(t, h)
		})
	}
}

// pooled is a database behind a pooler that has one session for everybody.
type pooled struct {
	database *pgtest.Database
	role     pgtest.Role
	pooler   *pgtest.Pooler
}

func newPooled(t *testing.T) *pooled {
	t.Helper()
	database := pgtest.NewDatabase(t, schema)
	p := &pooled{database: database, role: database.NewRole(t, nil)}
	database.Exec(t, grants(t, p.role.Name))
	statements := ""
	if pgtest.StartPooler(t, database, nil).KeepsStatements(t) {
		statements = "0"
	}
	p.pooler = pgtest.StartPooler(t, database, poolerSettings("1", statements))
	return p
}

func (p *pooled) dsn(mode string) string {
	return p.database.DSN(pgtest.As(p.role), pgtest.Via(p.pooler.Address()),
		pgtest.With("default_query_exec_mode", mode))
}

func (p *pooled) open(t *testing.T, mode string, timeout time.Duration) *Store {
	t.Helper()
	store, err := Open(Config{DSN: fencerow.NewSecret(p.dsn(mode)), MaxConns: 1, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

// The driver's own default cannot work there. It can only fail, and its code says what to do.
func TestPreparedStatementsThatAPoolerLosesAreCalledSo(t *testing.T) {
	t.Parallel()
	p := newPooled(t)
	if _, err := p.open(t, "cache_statement", 0).Ready(t.Context()); err != nil {
		t.Fatalf("the first client, whose session is fresh: %v", err)
	}
	second := p.open(t, "cache_statement", 0)
	if _, err := second.Ready(t.Context()); !errors.Is(err, fencerow.ErrStoreStatement) {
		t.Errorf("a statement that the session has already: got %v, want store_statement_lost", err)
	}
	// The other way round: a session that has not what this client prepared.
	third := p.open(t, "cache_statement", 0)
	if err := third.Register(t.Context(), "i"); err != nil {
		t.Fatal(err)
	}
	p.database.TerminateBackends(t)
	if _, err := p.open(t, "exec", 0).Ready(t.Context()); err != nil {
		t.Logf("the first call after the session was ended: %v", err)
	}
	if err := third.Register(t.Context(), "i"); !errors.Is(err, fencerow.ErrStoreStatement) {
		t.Errorf("a statement that the session has not: got %v, want store_statement_lost", err)
	}
}

// leftSQL lists what is left in a session for whoever has it next. What a pooler itself sets for each client
// is not. The query's own portal has no name.
const leftSQL = `
SELECT pg_backend_pid(), array(
    SELECT name || ' = ' || setting
    FROM pg_settings
    WHERE source = 'session'
        AND name <> ALL ('{application_name,client_encoding,DateStyle,standard_conforming_strings,TimeZone}')
    UNION ALL SELECT 'prepared statement ' || name FROM pg_prepared_statements
    UNION ALL SELECT 'cursor ' || name FROM pg_cursors WHERE name <> ''
    UNION ALL SELECT 'channel ' || c FROM pg_listening_channels() AS c
    UNION ALL SELECT 'lock ' || mode FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'
    UNION ALL SELECT 'table ' || relname FROM pg_class WHERE relnamespace = pg_my_temp_schema()
)`

// left returns the session's number and what is left in it.
func (p *pooled) left(t *testing.T) (session int32, left []string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), p.dsn("exec"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }() // its answer tells
	if err := conn.QueryRow(t.Context(), leftSQL).Scan(&session, &left); err != nil {
		t.Fatal(err)
	}
	return session, left
}

// Whoever has the session next finds it as it was: nothing but SET LOCAL is used, no advisory lock, no
// temporary table, no prepared statement. Two stores with other bounds take turns.
func TestStoresThatShareASessionLeaveNothingInIt(t *testing.T) {
	t.Parallel()
	p := newPooled(t)
	impatient, patient := p.open(t, "exec", time.Second), p.open(t, "cache_describe", time.Minute)
	session, left := p.left(t)
	if len(left) > 0 {
		t.Fatalf("before anything was done the session had %v", left)
	}
	for _, verb := range everyVerb() {
		for i, store := range []*Store{impatient, patient, impatient} {
			instance := fencerow.InstanceKey(fmt.Sprint(verb.name, "-", i))
			if err := verb.run(t, store, instance); err != nil {
				t.Errorf("%s: %v", verb.name, err)
			}
			now, left := p.left(t)
			if now != session {
				t.Fatalf("%s, turn %d: looked at session %d, not %d", verb.name, i, now, session)
			}
			if len(left) > 0 {
				t.Errorf("%s, turn %d, left %v", verb.name, i, left)
			}
		}
	}
}

// The look above is worth something: a store whose bounds outlive the transaction is found.
func TestBoundsThatOutliveTheirTransactionAreFound(t *testing.T) {
	t.Parallel()
	p := newPooled(t)
	store := p.open(t, "exec", 0)
	store.texts.rewrite = func(sql string) string {
		if !strings.Contains(sql, "'statement_timeout'") {
			return sql
		}
		return strings.ReplaceAll(sql, ", true)", ", false)")
	}
	claim(t, store, "i", 1)
	enqueue(t, store, "i", 1)
	_, left := p.left(t)
	slices.Sort(left)
	if !slices.ContainsFunc(left, func(s string) bool { return strings.HasPrefix(s, "statement_timeout = ") }) {
		t.Errorf("what is left in the session: %v", left)
	}
}

// A call that fails amid its transaction, or is given up, leaves nothing either.
func TestFailedCallLeavesNothingInASharedSession(t *testing.T) {
	t.Parallel()
	p := newPooled(t)
	store := p.open(t, "exec", time.Second)
	enqueue(t, store, "i", 1)
	release(t, store, claim(t, store, "i", 1))
	tx, err := p.database.Connect(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.New(tx).InstanceLock(t.Context(), instanceLock("i")); err != nil {
		t.Fatal(err)
	}
	if _, err := store.ClaimBatch(t.Context(), batchParams("i", 1)); !errors.Is(err, fencerow.ErrStoreBusy) {
		t.Errorf("got %v, want store_busy", err)
	}
	if _, left := p.left(t); len(left) > 0 {
		t.Errorf("a call that did not get its lock left %v", left)
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		_, err := p.open(t, "exec", 5*time.Second).ClaimBatch(ctx, batchParams("i", 1))
		failed <- err
	}()
	waitForLock(t, p.database.Connect(t))
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want a cancelled call", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, left := p.left(t); len(left) > 0 {
		t.Errorf("a call that was given up left %v", left)
	}
	noTransactionIsOpen(t, p.database)
	if n := len(claim(t, store, "i", 1).Entries); n > 1 {
		t.Errorf("claimed %d rows", n)
	}
}

// verb is one method of a store, on an instance of its own.
type verb struct {
	name string
	run  func(*testing.T, *Store, fencerow.InstanceKey) error
}

// everyVerb lists the methods.
func everyVerb() []verb {
	return []verb{
		{"Register", func(t *testing.T, s *Store, i fencerow.InstanceKey) error {
			return s.Register(t.Context(), i)
		}},
		{"Life", func(t *testing.T, s *Store, i fencerow.InstanceKey) error {
			enqueue(t, s, i, 3)
			if n := applied(record(t, s, claim(t, s, i, 2))); n > 2 {
				t.Errorf("recorded %d rows", n)
			}
			release(t, s, claim(t, s, i, 1))
			return nil
		}},
		{"ClaimOne", func(t *testing.T, s *Store, i fencerow.InstanceKey) error {
			enqueue(t, s, i, 1)
			c, err := s.ClaimOne(t.Context(), fencerow.ClaimOneParams{
				Instance: i, Worker: "w", Token: fencerow.NewClaimToken(), CorrelationID: "c-0", Lease: time.Minute,
				ForceDue: true,
			})
			if err != nil {
				return err
			}
			_, err = s.Release(t.Context(), fencerow.ReleaseParams{
				Instance: i, Token: c.Token, Rows: []fencerow.ReleaseRow{{OutboxID: c.Entries[0].OutboxID}},
			})
			return err
		}},
		{"Requeue", func(t *testing.T, s *Store, i fencerow.InstanceKey) error {
			err := s.Requeue(t.Context(), fencerow.RequeueParams{
				Instance: i, CorrelationID: "none", From: fencerow.StatusDeadLettered,
			})
			return unless(err, fencerow.ErrNotFound)
		}},
		{"Prune", func(t *testing.T, s *Store, i fencerow.InstanceKey) error {
			_, err := s.Prune(t.Context(), fencerow.PruneParams{Instance: i, OlderThan: time.Hour, Limit: 10})
			return err
		}},
		{"Hold", func(t *testing.T, s *Store, i fencerow.InstanceKey) error {
			_, hold := s.Hold(t.Context(), i)
			_, resume := s.Resume(t.Context(), i)
			return errors.Join(hold, resume)
		}},
		{"NameSlot", func(t *testing.T, s *Store, i fencerow.InstanceKey) error {
			return s.NameSlot(t.Context(), fencerow.NameSlotParams{Instance: i, Slot: "s", Strategy: "mean"})
		}},
		{"ListPending", func(t *testing.T, s *Store, i fencerow.InstanceKey) error {
			_, err := s.ListPending(t.Context(), fencerow.ListPendingParams{Instance: i, Limit: 10})
			return err
		}},
		{"ListBlocked", func(t *testing.T, s *Store, i fencerow.InstanceKey) error {
			_, err := s.ListBlocked(t.Context(), fencerow.ListBlockedParams{Instance: i, Limit: 10})
			return err
		}},
		{"PendingCashDelta", func(t *testing.T, s *Store, i fencerow.InstanceKey) error {
			_, err := s.PendingCashDelta(t.Context(), fencerow.CashDeltaParams{Instance: i})
			return err
		}},
		{"Show", func(t *testing.T, s *Store, i fencerow.InstanceKey) error {
			_, err := s.Show(t.Context(), fencerow.EntryParams{Instance: i, CorrelationID: "none"})
			return unless(err, fencerow.ErrNotFound)
		}},
		{"Views", func(t *testing.T, s *Store, i fencerow.InstanceKey) error {
			_, counts := s.Counts(t.Context(), i)
			_, claims := s.Claims(t.Context(), i)
			_, slots := s.Slots(t.Context(), i)
			_, legacy := s.LegacyCount(t.Context())
			_, export := s.LegacyExport(t.Context(), "none")
			_, ready := s.Ready(t.Context())
			_, doctor := s.Diagnose(t.Context())
			return errors.Join(counts, claims, slots, legacy, export, ready, doctor)
		}},
	}
}

func unless(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}
