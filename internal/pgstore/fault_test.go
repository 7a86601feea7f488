package pgstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/db"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

// A DSN is a secret from its first byte to its last, also one that does not parse.
func TestDSNIsInNoError(t *testing.T) {
	t.Parallel()
	const secret = "pa%zzss-sentinel"
	for _, dsn := range []string{
		"postgres://user-sentinel:" + secret + "@127.0.0.1:1/database-sentinel",
		"postgres://user-sentinel:pass-sentinel@127.0.0.1:notaport/database-sentinel",
		"host=127.0.0.1 password='unterminated-sentinel",
		"postgres://user-sentinel:pass-sentinel@127.0.0.1:1/database-sentinel?connect_timeout=1",
	} {
		store, err := Open(Config{DSN: fencerow.NewSecret(dsn), Timeout: 300 * time.Millisecond})
		if err == nil {
			_, err = store.Ready(t.Context())
			store.Close()
		}
		if err == nil {
			t.Fatal("a DSN that leads nowhere gave no error")
		}
		for _, verb := range []string{"%v", "%+v", "%#v", "%q"} {
			text := fmt.Sprintf(verb, err)
			if strings.Contains(text, "sentinel") || strings.Contains(text, "127.0.0.1") {
				t.Errorf("the error shows the DSN: %s", text)
			}
		}
	}
}

// The server restarts or kills our backends: each call that meets it fails with a code, and the store comes
// back by itself.
func TestStoreComesBackAfterItsBackendsAreKilled(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, schema)
	store := openOn(t, database)
	enqueue(t, store, "i", 2)
	c := claim(t, store, "i", 2)
	if database.TerminateBackends(t) == 0 {
		t.Fatal("there was no backend to kill")
	}
	verdicts, err := store.RecordOutcomes(t.Context(), fencerow.RecordParams{
		Instance: "i", Token: c.Token, Outcomes: completed(c),
	})
	if err != nil {
		if !errors.Is(err, fencerow.ErrStoreUnavailable) {
			t.Errorf("got %v, want store_unavailable", err)
		}
		verdicts = record(t, store, c)
	}
	if applied(verdicts) != 2 {
		t.Errorf("verdicts %+v", verdicts)
	}
}

// What a server does when its disk is full, its memory short or itself a standby, comes out as the code that
// tells an operator so.
func TestEachFailureOfTheServerHasItsCode(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]fencerow.Code{
		"55P03": fencerow.ErrStoreBusy, "57014": fencerow.ErrStoreTimeout, "57P01": fencerow.ErrStoreUnavailable,
		"25P03": fencerow.ErrStoreUnavailable, "08006": fencerow.ErrStoreUnavailable,
		"53100": fencerow.ErrStoreFull,
		"53300": fencerow.ErrStoreFull, "54001": fencerow.ErrStoreFull, "42501": fencerow.ErrStorePermission,
		"42P01": fencerow.ErrStoreSchema, "3F000": fencerow.ErrStoreSchema, "28P01": fencerow.ErrStoreCredentials,
		"22P02": fencerow.ErrStoreData, "23514": fencerow.ErrStoreData, "25006": fencerow.ErrStoreReadOnly,
		"26000": fencerow.ErrStoreStatement, "42P05": fencerow.ErrStoreStatement,
		"40001": fencerow.ErrStoreConflict, "40P01": fencerow.ErrStoreConflict, "XX000": fencerow.ErrStoreFailed,
		"": fencerow.ErrStoreFailed,
	} {
		if got := codeOfState(state); got != want {
			t.Errorf("SQLSTATE %q is %s, want %s", state, got, want)
		}
	}
}

func TestReadOnlyServerIsCalledSo(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, schema)
	store := openOn(t, database, pgtest.With("default_transaction_read_only", "on"))
	_, err := store.EnqueueMany(t.Context(), fencerow.EnqueueParams{Instance: "i", Entries: []fencerow.NewEntry{
		{CorrelationID: "c", EntryKind: "fill", Payload: []byte(`{}`)},
	}})
	if !errors.Is(err, fencerow.ErrStoreReadOnly) {
		t.Errorf("got %v, want store_read_only", err)
	}
}

// A connection to a server that has turned read-only, as in a failover, stays so for its whole life: the call
// that meets it has the store leave it, and the next one connects anew.
func TestReadOnlyConnectionIsLeft(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, schema)
	role := database.NewRole(t, map[string]string{"default_transaction_read_only": "on"})
	database.Exec(t, grants(t, role.Name))
	store := openOn(t, database, pgtest.As(role))
	if err := store.Register(t.Context(), "i"); !errors.Is(err, fencerow.ErrStoreReadOnly) {
		t.Errorf("got %v, want store_read_only", err)
	}
	database.Exec(t, "ALTER ROLE "+role.Name+" RESET default_transaction_read_only")
	if err := store.Register(t.Context(), "i"); err != nil {
		t.Errorf("on a server that takes writes: %v", err)
	}
}

func TestPoolOfOneIsEnoughAndAnExhaustedOneIsBusy(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, schema)
	store, err := Open(Config{DSN: fencerow.NewSecret(database.DSN()), MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	enqueue(t, store, "i", 1)
	if n := applied(record(t, store, claim(t, store, "i", 1))); n != 1 {
		t.Errorf("%d rows recorded", n)
	}
	taken, err := store.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Release()
	if _, err := store.ClaimBatch(t.Context(), batchParams("i", 1)); !errors.Is(err, fencerow.ErrStoreBusy) {
		t.Errorf("got %v, want store_busy", err)
	}
}

// A cancelled call leaves nothing open, on whichever statement it was caught.
func TestCancelledCallLeaksNoTransaction(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, schema)
	store := openOn(t, database)
	enqueue(t, store, "i", 1)
	release(t, store, claim(t, store, "i", 1))
	tx, err := database.Connect(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.New(tx).InstanceLock(t.Context(), instanceLock("i")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error)
	go func() {
		_, err := store.ClaimBatch(ctx, batchParams("i", 1))
		failed <- err
	}()
	waitForLock(t, database.Connect(t))
	cancel()
	if err := <-failed; !errors.Is(err, fencerow.ErrStoreTimeout) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want a cancelled call", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The server may have gone on with what it had been sent; then it is a claim like any other, and its token
	// gives it back.
	noTransactionIsOpen(t, database)
}

// lossyStore opens a store whose connections lose the next answer when cut is set.
func lossyStore(t *testing.T, database *pgtest.Database, cut *atomic.Bool) *Store {
	t.Helper()
	config, err := pgxpool.ParseConfig(database.DSN())
	if err != nil {
		t.Fatal(err)
	}
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &lossyConn{Conn: conn, cut: cut}, nil
	}
	store, err := open(config, DefaultTimeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

// The answer to an outcome is lost after it was committed: repeating it changes nothing, and the verdict
// shows the caller's own epoch and outcome, so that it can tell its record from somebody else's.
func TestLostAnswerOfARecordIsRecognised(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, schema)
	var cut atomic.Bool
	store := lossyStore(t, database, &cut)
	enqueue(t, store, "i", 2)
	warm := claim(t, store, "i", 1)
	record(t, store, warm) // prepares the statements, so that the next one is a single round trip
	c := claim(t, store, "i", 1)
	cut.Store(true)
	_, err := store.RecordOutcomes(
		t.Context(),
		fencerow.RecordParams{Instance: "i", Token: c.Token, Outcomes: completed(c)},
	)
	if !errors.Is(err, fencerow.ErrStoreUnavailable) {
		t.Fatalf("got %v, want store_unavailable", err)
	}
	recordedBySomebody(t, database, c)
	v := record(t, store, c)[0]
	if v.Applied || v.Lost != fencerow.LostFinished || v.Epoch != c.Epoch ||
		v.Outcome != fencerow.OutcomeCompleted {
		t.Errorf("verdict %+v, want finished under our own epoch", v)
	}
}

// recordedBySomebody waits until the server has committed what it was sent.
func recordedBySomebody(t *testing.T, database *pgtest.Database, c *fencerow.Claim) {
	t.Helper()
	conn := database.Connect(t)
	for deadline := time.Now().Add(10 * time.Second); ; {
		var n int
		err := conn.QueryRow(t.Context(), `SELECT count(*) FROM fencerow.ledger_outcome WHERE outbox_id = $1`,
			c.Entries[0].OutboxID).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		if n == 1 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the outcome was not committed")
		}
	}
}

// The answer to a claim is lost after it was committed: the token gives it back, no attempt used up.
func TestLostAnswerOfAClaimIsGivenBackByItsToken(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, schema)
	var cut atomic.Bool
	store := lossyStore(t, database, &cut)
	enqueue(t, store, "i", 3)
	record(t, store, claim(t, store, "i", 1))
	params := batchParams("i", 2)
	cut.Store(true)
	if _, err := store.ClaimBatch(t.Context(), params); !errors.Is(err, fencerow.ErrStoreUnavailable) {
		t.Fatalf("got %v, want store_unavailable", err)
	}
	var verdicts []fencerow.Verdict
	for deadline := time.Now().Add(10 * time.Second); len(verdicts) == 0 && time.Now().Before(deadline); {
		var err error
		verdicts, err = store.Release(
			t.Context(),
			fencerow.ReleaseParams{Instance: "i", Token: params.Token, All: true},
		)
		if err != nil {
			t.Fatal(err)
		}
	}
	if applied(verdicts) != 2 {
		t.Fatalf("given back %+v, want both rows", verdicts)
	}
	for _, e := range claim(t, store, "i", 2).Entries {
		if e.Attempt != 1 || e.Uncertain || e.Reclaimed {
			t.Errorf("entry %+v, want its first attempt", e)
		}
	}
}

// A worker that stops reading in the middle of a claim of the widest entries keeps nobody else from claiming.
func TestStoppedReaderHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, schema)
	store := openOn(t, database)
	entries := make([]fencerow.NewEntry, 64)
	for i := range entries {
		entries[i] = fencerow.NewEntry{
			CorrelationID: fencerow.CorrelationID(fmt.Sprint("wide-", i)), EntryKind: "fill",
			Payload: []byte(`{"pad":"` + strings.Repeat("x", fencerow.MaxPayload-10) + `"}`),
		}
	}
	if _, err := store.EnqueueMany(
		t.Context(),
		fencerow.EnqueueParams{Instance: "i", Entries: entries},
	); err != nil {
		t.Fatal(err)
	}
	var stopped atomic.Bool
	reader := stoppingStore(t, database, &stopped)
	if err := reader.Register(t.Context(), "i"); err != nil {
		t.Fatal(err)
	}
	stopped.Store(true)
	go func() {
		_, err := reader.ClaimBatch(context.Background(), batchParams("i", 32))
		if err == nil {
			t.Error("the stopped reader got its answer")
		}
	}()
	conn := database.Connect(t)
	for deadline := time.Now().Add(10 * time.Second); ; {
		var blocked bool
		err := conn.QueryRow(t.Context(), `SELECT EXISTS (
			SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'ClientWrite'
		)`).Scan(&blocked)
		if err != nil {
			t.Fatal(err)
		}
		if blocked {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the server never waited for its client")
		}
	}
	if c := claim(t, store, "i", 32); len(c.Entries) != 32 {
		t.Errorf("claimed %d rows beside the stopped reader, want the other 32", len(c.Entries))
	}
}

// stoppingStore opens a store whose connections stop reading for good once stopped is set and a large answer
// begins.
func stoppingStore(t *testing.T, database *pgtest.Database, stopped *atomic.Bool) *Store {
	t.Helper()
	config, err := pgxpool.ParseConfig(database.DSN())
	if err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			tcp.SetReadBuffer(16 << 10) //nolint:errcheck // only makes the answer fill it sooner
		}
		return &stoppingConn{Conn: conn, stopped: stopped, release: release}, nil
	}
	store, err := open(config, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { close(release); store.Close() })
	return store
}

type stoppingConn struct {
	net.Conn
	stopped *atomic.Bool
	release chan struct{}
	large   int
}

func (c *stoppingConn) Read(b []byte) (int, error) {
	if c.stopped.Load() && c.large > 32<<10 {
		<-c.release
		return 0, net.ErrClosed
	}
	n, err := c.Conn.Read(b)
	if c.stopped.Load() {
		c.large += n
	}
	return n, err
}

// A pending row whose entry is gone, truncated or not restored, is forgotten instead of being claimed first
// for ever; what lies behind it is delivered.
func TestRowWithoutItsEntryHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, schema)
	store := openOn(t, database)
	database.Exec(t, `
		INSERT INTO fencerow.ledger_pending (outbox_id, instance_key, next_retry_at, expiry_count)
		VALUES (900001, 'i', now() - interval '1 hour', 2), (900002, 'i', now() - interval '1 hour', 0)`)
	enqueue(t, store, "i", 2)
	seen := 0
	for range 5 {
		c := claim(t, store, "i", 10)
		if seen += len(c.Entries); len(c.Entries) > 0 {
			record(t, store, c)
		}
	}
	if seen != 2 {
		t.Errorf("claimed %d entries, want 2", seen)
	}
	counts, err := store.Counts(t.Context(), "i")
	if err != nil || counts.ByStatus[fencerow.StatusPending] != 0 {
		t.Errorf("counts %+v, %v, want nothing pending", counts, err)
	}
}

// A slot's row that somebody keeps locked costs its snapshot, not the outcome.
func TestLockedSlotCostsTheSnapshotOnly(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, schema)
	store, err := Open(Config{DSN: fencerow.NewSecret(database.DSN()), Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	entry := fencerow.NewEntry{
		CorrelationID: "c", EntryKind: "fill", SlotID: "slot-1", Payload: []byte(`{}`), OpenSkip: true,
	}
	patient := openOn(t, database)
	if _, err := patient.EnqueueMany(t.Context(), fencerow.EnqueueParams{
		Instance: "i", Entries: []fencerow.NewEntry{entry},
	}); err != nil {
		t.Fatal(err)
	}
	if err := patient.NameSlot(
		t.Context(),
		fencerow.NameSlotParams{Instance: "i", Slot: "slot-1", Strategy: "s"},
	); err != nil {
		t.Fatal(err)
	}
	tx, err := database.Connect(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM fencerow.ledger_slot FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	c := claim(t, patient, "i", 1)
	verdicts, err := store.RecordOutcomes(t.Context(), fencerow.RecordParams{
		Instance: "i", Token: c.Token, Outcomes: []fencerow.Outcome{{
			OutboxID: c.Entries[0].OutboxID, Kind: fencerow.OutcomeCompleted,
			Snapshot: &fencerow.Snapshot{SlotID: "slot-1", Currency: "EUR", Version: 1},
		}},
	})
	if err != nil || !verdicts[0].Applied || !verdicts[0].SnapshotRejected {
		t.Errorf("verdicts %+v, %v, want the outcome without its snapshot", verdicts, err)
	}
}

// A time that no driver can read is refused by the database itself.
func TestInfiniteTimesAreRefused(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, schema)
	enqueue(t, openOn(t, database), "i", 1)
	for _, statement := range []string{
		"UPDATE fencerow.ledger_pending SET next_retry_at = '-infinity'",
		"UPDATE fencerow.ledger_pending SET next_retry_at = 'infinity'",
		`INSERT INTO fencerow.ledger_outbox (instance_key, correlation_id, entry_kind, payload, enqueued_at)
			VALUES ('i', 'x', 'fill', '{}', 'infinity')`,
	} {
		if _, err := database.Connect(t).Exec(t.Context(), statement); err == nil {
			t.Errorf("accepted: %s", statement)
		}
	}
}

// A server that accepts connections and says nothing is unavailable; only a pool whose connections are all in
// use is busy.
func TestServerThatSaysNothingIsNotCalledBusy(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	address := listener.Addr().(*net.TCPAddr) //nolint:errcheck // a TCP listener's
	store, err := Open(Config{
		DSN: fencerow.NewSecret(fmt.Sprintf(
			"host=127.0.0.1,127.0.0.1 port=%d,%d user=u password=p dbname=d sslmode=disable",
			address.Port, address.Port)),
		Timeout: 200 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	_, err = store.Ready(t.Context())
	if errors.Is(err, fencerow.ErrStoreBusy) || err == nil {
		t.Errorf("got %v, want a server that cannot be reached", err)
	}
}

// Entries too wide to be read in time are claimed in smaller batches until they can be.
func TestBatchThatCannotBeReadInTimeIsHalved(t *testing.T) {
	t.Parallel()
	var state instanceState
	timeout := fencerow.NewError("claim batch", fencerow.ErrStoreTimeout, nil)
	for _, step := range []struct {
		err  error
		want int
	}{{timeout, 500}, {timeout, 250}, {nil, 500}, {timeout, 250}, {nil, 500}, {nil, 1000}} {
		state.read(state.limit(1000), step.err)
		if got := state.limit(1000); got != step.want {
			t.Fatalf("after %v the limit is %d, want %d", step.err, got, step.want)
		}
	}
}
