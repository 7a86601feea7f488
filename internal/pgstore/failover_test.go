package pgstore

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

// failover is a primary with a frozen clock and a standby that takes over from it.
type failover struct {
	t        *testing.T
	primary  *pgtest.Private
	standby  *pgtest.Standby
	database *pgtest.Database
	dsn      string // of both servers
}

func newFailover(t *testing.T) *failover {
	t.Helper()
	f := &failover{t: t, primary: pgtest.StartPrivate(t, nil)}
	f.database = f.primary.NewDatabase(t, frozenSchema)
	f.standby = f.primary.StartStandby(t)
	f.dsn = f.standby.DSN(f.database, pgtest.With("search_path", "frozen, pg_catalog"))
	return f
}

// open returns a store as a process of its own opens it. It finds whichever server takes writes.
func (f *failover) open() *Store {
	f.t.Helper()
	store, err := Open(Config{DSN: fencerow.NewSecret(f.dsn), MaxConns: 2})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(store.Close)
	keepPath(store)
	return store
}

// cut parts the standby from the primary: what is committed from here on is lost.
func (f *failover) cut() {
	f.t.Helper()
	f.standby.AwaitReplay(f.t)
	f.standby.Disconnect(f.t)
}

func (f *failover) promote() {
	f.t.Helper()
	f.primary.Crash(f.t)
	f.standby.Promote(f.t)
}

// advance moves the clock of the server that takes writes.
func (f *failover) advance(d time.Duration) {
	f.t.Helper()
	f.exec("UPDATE frozen.clock SET now = now + $1::text::interval", d.String())
}

func (f *failover) connect() *pgx.Conn {
	f.t.Helper()
	conn, err := pgx.Connect(f.t.Context(), f.dsn)
	if err != nil {
		f.t.Fatal(err)
	}
	return conn
}

func (f *failover) exec(sql string, args ...any) {
	f.t.Helper()
	conn := f.connect()
	defer func() { _ = conn.Close(context.Background()) }() // the statement's own error tells
	if _, err := conn.Exec(f.t.Context(), sql, args...); err != nil {
		f.t.Fatal(err)
	}
}

// rows renders every row of an instance.
func (f *failover) rows(instance fencerow.InstanceKey) string {
	f.t.Helper()
	conn := f.connect()
	defer func() { _ = conn.Close(context.Background()) }() // its answer tells
	var all string
	err := conn.QueryRow(f.t.Context(), `
WITH everything AS (
    SELECT instance_key, 1 AS kind, outbox_id::text AS id, p::text AS whole FROM fencerow.ledger_pending p
    UNION ALL
    SELECT instance_key, 2, claim_token::text, c::text FROM fencerow.ledger_claim c
    UNION ALL
    SELECT instance_key, 3, outbox_id::text, o::text FROM fencerow.ledger_outcome o
)
SELECT coalesce(string_agg(whole, E'\n' ORDER BY kind, id), '') FROM everything
WHERE instance_key = $1`, instance).Scan(&all)
	if err != nil {
		f.t.Fatal(err)
	}
	return all
}

// holder is a process that claimed on the time line that was lost.
type holder struct {
	*failover
	store *Store
	claim *fencerow.Claim
}

// hold has a process claim n rows of an instance.
func (f *failover) hold(instance fencerow.InstanceKey, n int) *holder {
	f.t.Helper()
	h := &holder{failover: f, store: f.open()}
	if h.claim = claim(f.t, h.store, instance, n); len(h.claim.Entries) != n {
		f.t.Fatalf("claimed %d rows, want %d", len(h.claim.Entries), n)
	}
	return h
}

// refused demands that the holder's record and releases come back as claim lost, and change nothing.
func (h *holder) refused(t *testing.T, why fencerow.LostReason) {
	t.Helper()
	before := h.rows(h.claim.Instance)
	ctx := t.Context()
	recorded, err := retried(func() ([]fencerow.Verdict, error) {
		return h.store.RecordOutcomes(ctx, fencerow.RecordParams{
			Instance: h.claim.Instance, Token: h.claim.Token, Outcomes: completed(h.claim),
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	rows := make([]fencerow.ReleaseRow, len(h.claim.Entries))
	for i := range rows {
		rows[i].OutboxID = h.claim.Entries[i].OutboxID
	}
	released, err := h.store.Release(ctx, fencerow.ReleaseParams{
		Instance: h.claim.Instance, Token: h.claim.Token, Rows: rows,
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(recorded) != len(rows) || len(released) != len(rows) {
		t.Fatalf("%d and %d verdicts for %d rows", len(recorded), len(released), len(rows))
	}
	for _, v := range append(recorded, released...) {
		if v.Applied || v.Lost != why {
			t.Errorf("row %d: got %+v, want lost: %s", v.OutboxID, v, why)
		}
	}
	all, err := h.store.Release(ctx, fencerow.ReleaseParams{
		Instance: h.claim.Instance, Token: h.claim.Token, All: true,
	})
	if err != nil || len(all) > 0 {
		t.Errorf("a release of whatever the lost claim holds: %v, %v", all, err)
	}
	if after := h.rows(h.claim.Instance); after != before {
		t.Errorf("the holder of a lost claim changed something; before:\n%s\nafter:\n%s", before, after)
	}
}

// retried repeats a call whose first try may meet a connection to the server that is gone.
func retried[T any](call func() (T, error)) (T, error) {
	v, err := call()
	if err != nil {
		return call()
	}
	return v, err
}

// takeOver has another process claim what the instance has.
func (f *failover) takeOver(t *testing.T, instance fencerow.InstanceKey) (*Store, *fencerow.Claim) {
	t.Helper()
	store := f.open()
	c := claim(t, store, instance, fencerow.MaxBatch)
	if len(c.Entries) == 0 {
		t.Fatal("nothing was claimed on the new time line")
	}
	return store, c
}

// A failover loses the last commits. What was done in them is not taken up by anybody who still believes in
// it, whichever epochs the new time line gives, and what is done on the new time line counts.
func TestHolderOfAClaimLostInAFailoverIsRefused(t *testing.T) {
	t.Parallel()
	f := newFailover(t)
	producer := f.open()
	for _, instance := range []fencerow.InstanceKey{
		"same", "lower", "higher", "finished", "free", "follower", "outcome-lost", "numbers",
	} {
		enqueue(t, producer, instance, 2)
	}
	kept := f.hold("outcome-lost", 2) // committed before the cut
	f.cut()
	const lost = 100 // more than a sequence is logged ahead
	entries := make([]fencerow.NewEntry, lost)
	for i := range entries {
		entries[i] = fencerow.NewEntry{
			CorrelationID: fencerow.CorrelationID(fmt.Sprint("lost-", i)), EntryKind: "fee", Payload: []byte(`{}`),
		}
	}
	lostEntries := fencerow.EnqueueParams{Instance: "numbers", Entries: entries}
	if _, err := producer.EnqueueMany(t.Context(), lostEntries); err != nil {
		t.Fatal(err)
	}
	same, finished, free := f.hold("same", 2), f.hold("finished", 2), f.hold("free", 2)
	follower, higher, numbers := f.hold("follower", 2), f.hold("higher", 2), f.hold("numbers", lost+2)
	if n := applied(record(t, kept.store, kept.claim)); n != 2 {
		t.Fatalf("recorded %d rows on the time line that is lost", n)
	}
	f.advance(time.Hour) // lost, too: the new time line's clock is behind
	lower := f.hold("lower", 2)
	f.promote()

	t.Run("TokenDecidesWhereTheEpochRepeats", func(t *testing.T) {
		store, c := f.takeOver(t, "same")
		if c.Epoch != same.claim.Epoch {
			t.Fatalf("epoch %d, want the lost claim's %d again", c.Epoch, same.claim.Epoch)
		}
		same.refused(t, fencerow.LostReclaimed)
		if n := applied(record(t, store, c)); n != 2 {
			t.Errorf("the new holder recorded %d rows", n)
		}
	})
	t.Run("TokenDecidesWhereTheEpochFell", func(t *testing.T) {
		store, c := f.takeOver(t, "lower")
		if c.Epoch >= lower.claim.Epoch {
			t.Fatalf("epoch %d, want it below the lost claim's %d", c.Epoch, lower.claim.Epoch)
		}
		lower.refused(t, fencerow.LostReclaimed)
		if n := applied(record(t, store, c)); n != 2 {
			t.Errorf("the new holder recorded %d rows", n)
		}
	})
	t.Run("FinishedUnderTheSameEpochStaysFinished", func(t *testing.T) {
		store, c := f.takeOver(t, "finished")
		if c.Epoch != finished.claim.Epoch {
			t.Fatalf("epoch %d, want the lost claim's %d again", c.Epoch, finished.claim.Epoch)
		}
		record(t, store, c)
		finished.refused(t, fencerow.LostFinished)
	})
	t.Run("RowThatNobodyClaimedSinceIsFree", func(t *testing.T) {
		free.refused(t, fencerow.LostReclaimed)
		store, c := f.takeOver(t, "free")
		if n := applied(record(t, store, c)); n != 2 {
			t.Errorf("recorded %d rows", n)
		}
	})
	t.Run("ProcessThatSawTheLostEpochGoesAboveIt", func(t *testing.T) {
		follower.refused(t, fencerow.LostReclaimed)
		c := claim(t, follower.store, "follower", 2)
		if len(c.Entries) != 2 || c.Epoch <= follower.claim.Epoch {
			t.Errorf("claimed %d rows under epoch %d, the lost one was %d", len(c.Entries), c.Epoch,
				follower.claim.Epoch)
		}
	})
	t.Run("OutcomeLostUnderAClaimThatSurvivedIsRecordedAgain", func(t *testing.T) {
		verdicts, err := retried(func() ([]fencerow.Verdict, error) {
			return kept.store.RecordOutcomes(t.Context(), fencerow.RecordParams{
				Instance: kept.claim.Instance, Token: kept.claim.Token, Outcomes: completed(kept.claim),
			})
		})
		if err != nil || applied(verdicts) != 2 {
			t.Errorf("verdicts %+v, %v", verdicts, err)
		}
	})
	t.Run("NumberGivenToAnotherEntryIsNotTheLostClaims", func(t *testing.T) {
		others := make([]fencerow.NewEntry, lost)
		for i := range others {
			others[i] = entries[i]
			others[i].CorrelationID = fencerow.CorrelationID(fmt.Sprint("other-", i))
		}
		store := f.open()
		given, err := store.EnqueueMany(t.Context(), fencerow.EnqueueParams{Instance: "numbers", Entries: others})
		if err != nil {
			t.Fatal(err)
		}
		again := map[fencerow.OutboxID]bool{}
		for i := range given {
			again[given[i].OutboxID] = true
		}
		held := numbers.claim.Entries[2:] // after those that were there before
		numbers.claim.Entries = only(held, func(id fencerow.OutboxID) bool { return !again[id] })
		numbers.refused(t, fencerow.LostMissing)
		numbers.claim.Entries = only(held, func(id fencerow.OutboxID) bool { return again[id] })
		if len(numbers.claim.Entries) == 0 || len(numbers.claim.Entries) == lost {
			t.Fatalf("%d of %d numbers were given again", len(numbers.claim.Entries), lost)
		}
		numbers.refused(t, fencerow.LostReclaimed)
		_, c := f.takeOver(t, "numbers")
		if c.Epoch != numbers.claim.Epoch {
			t.Fatalf("epoch %d, want the lost claim's %d again", c.Epoch, numbers.claim.Epoch)
		}
		numbers.refused(t, fencerow.LostReclaimed)
	})
	// Last, since it moves the clock.
	t.Run("TokenDecidesWhereTheEpochRose", func(t *testing.T) {
		f.advance(2 * time.Hour)
		store, c := f.takeOver(t, "higher")
		if c.Epoch <= higher.claim.Epoch {
			t.Fatalf("epoch %d, want it above the lost claim's %d", c.Epoch, higher.claim.Epoch)
		}
		higher.refused(t, fencerow.LostReclaimed)
		if n := applied(record(t, store, c)); n != 2 {
			t.Errorf("the new holder recorded %d rows", n)
		}
	})
}

// only returns the entries whose ids are such.
func only(entries []fencerow.ClaimedEntry, such func(fencerow.OutboxID) bool) []fencerow.ClaimedEntry {
	var kept []fencerow.ClaimedEntry
	for i := range entries {
		if such(entries[i].OutboxID) {
			kept = append(kept, entries[i])
		}
	}
	return kept
}

// A server that takes connections and says nothing, as one that hangs does, keeps nobody from the next in the
// DSN for longer than the store's timeout.
func TestServerThatHangsDoesNotKeepTheStoreFromTheNextOne(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }() // nobody talks to it any more
	server, err := pgx.ParseConfig(pgtest.NewDatabase(t, schema).DSN())
	if err != nil {
		t.Fatal(err)
	}
	both := url.URL{
		Scheme: "postgres", User: url.UserPassword(server.User, server.Password), Path: server.Database,
		Host:     fmt.Sprintf("%s,%s", silent.Addr(), net.JoinHostPort(server.Host, fmt.Sprint(server.Port))),
		RawQuery: "sslmode=disable&target_session_attrs=read-write",
	}
	const timeout = 500 * time.Millisecond
	store, err := Open(Config{DSN: fencerow.NewSecret(both.String()), Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	began := time.Now()
	for tries := 1; ; tries++ {
		_, err := store.Ready(t.Context())
		if err == nil {
			break
		}
		if tries == 4 {
			t.Fatalf("after %d tries in %s: %v", tries, time.Since(began), err)
		}
	}
}
