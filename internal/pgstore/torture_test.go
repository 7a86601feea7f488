package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/db"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

// tortureTime is how long each run lasts; FENCEROW_TORTURE_TIME sets it to more.
func tortureTime(t testing.TB) time.Duration {
	text := os.Getenv("FENCEROW_TORTURE_TIME")
	if text == "" {
		return 6 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

const (
	tortureLease   = 50 * time.Millisecond
	tortureWorkers = 10
	tortureBacklog = 500 // entries waiting; few enough that workers meet on the same rows
)

// Whatever workers, connections and operators do, no row is held twice, no life ends twice, and epochs rise.
func TestTorture(t *testing.T) {
	t.Parallel()
	for name, defaults := range map[string]map[string]string{
		"read committed":  nil,
		"repeatable read": {"default_transaction_isolation": "repeatable read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTorture(t, defaults, nil)
			tr.run(tortureTime(t))
			tr.drain()
			for _, problem := range tr.problems() {
				t.Error(problem)
			}
			t.Log(tr.summary())
		})
	}
}

// The run is worth what it finds: with any one of the rules against races taken away it must find a
// violation.
func TestTortureFindsEachBrokenRule(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]struct {
		mutation mutation
		begin    string
		defaults map[string]string
	}{
		"lock and look in one statement": {mutation: mutation{
			queries: []string{"InstanceLock"}, pattern: `FOR NO KEY UPDATE`, with: ``,
		}},
		"plain BEGIN under a repeatable read default": {
			begin:    "BEGIN",
			defaults: map[string]string{"default_transaction_isolation": "repeatable read"},
		},
		"rows of an expired claim free while its outcome commits": {mutation: mutation{
			queries: []string{"ClaimBatch"},
			pattern: `(?s)(FROM fencerow\.ledger_claim c\s+WHERE c\.instance_key = \$\d+::text)(\s+EXCEPT)`,
			with:    `${1} AND c.lease_expires_at > (SELECT at FROM moment)${2}`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rewrite, changed := m.mutation.apply()
			if m.begin != "" {
				rewrite = nil
			}
			tr := newTorture(t, m.defaults, func(s *Store) {
				if m.begin != "" {
					s.texts.begin = m.begin
				}
				s.texts.rewrite = chain(s.texts.rewrite, rewrite)
			})
			deadline := time.Now().Add(time.Minute)
			for len(tr.problems()) == 0 {
				if time.Now().After(deadline) {
					t.Fatalf("no violation was found in a minute: %s", tr.summary())
				}
				tr.run(500 * time.Millisecond)
			}
			if m.begin == "" && changed.Load() == 0 {
				t.Fatal("the mutation matches no statement")
			}
			t.Log(tr.problems()[0])
		})
	}
}

func chain(first, second func(string) string) func(string) string {
	if second == nil {
		return first
	}
	return func(sql string) string { return second(first(sql)) }
}

// torture is one run and its bookkeeping. Times of the database and of this process are comparable: they are
// one machine's.
type torture struct {
	t        testing.TB
	instance fencerow.InstanceKey
	database *pgtest.Database
	dsn      string
	mutate   func(*Store)

	mu       sync.Mutex
	holds    map[fencerow.OutboxID][]*hold
	terminal map[life]int
	found    []string
	counts   map[string]int
	tokens   []fencerow.ClaimToken
	enqueued int
}

type life struct {
	id     fencerow.OutboxID
	number int
}

// hold is one row under one claim, as its worker saw it.
type hold struct {
	epoch          fencerow.ClaimEpoch
	worker         string
	from, leaseEnd time.Time
	// letGoFrom is when the worker first asked to end its hold, by an outcome or a release that may have taken
	// effect; zero if it never did. From then on another may hold the row.
	letGoFrom time.Time
}

func newTorture(t testing.TB, defaults map[string]string, mutate func(*Store)) *torture {
	database := pgtest.NewDatabase(t, schema)
	role := database.NewRole(t, defaults)
	database.Exec(t, grants(role.Name))
	return &torture{
		t:        t,
		instance: "torture",
		database: database,
		dsn:      database.DSN(pgtest.As(role)),
		mutate:   mutate,
		holds:    map[fencerow.OutboxID][]*hold{},
		terminal: map[life]int{},
		counts:   map[string]int{},
	}
}

// open opens a store as a process of its own: short leases, and connections that lose answers now and then.
func (tr *torture) open(cut *atomic.Bool) *Store {
	config, err := pgxpool.ParseConfig(tr.dsn)
	if err != nil {
		tr.t.Fatal(err)
	}
	config.MaxConns = 3
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &lossyConn{Conn: conn, cut: cut}, nil
	}
	store, err := open(config, 500*time.Millisecond)
	if err != nil {
		tr.t.Fatal(err)
	}
	store.texts.rewrite = shortLease
	if tr.mutate != nil {
		tr.mutate(store)
	}
	return store
}

var leaseExpr = regexp.MustCompile(`m\.at \+ \$\d+::interval,`)

// shortLease divides leases: the store's own bounds begin at a second.
func shortLease(sql string) string {
	if !strings.HasPrefix(sql, "-- name: ClaimBatch ") && !strings.HasPrefix(sql, "-- name: ClaimOne ") {
		return sql
	}
	factor := fmt.Sprintf(" / %d,", fencerow.MinLease/tortureLease)
	return leaseExpr.ReplaceAllStringFunc(
		sql,
		func(s string) string { return strings.TrimSuffix(s, ",") + factor },
	)
}

// lossyConn drops the connection instead of delivering an answer when it is told to: the server has done its
// work, the client does not know.
type lossyConn struct {
	net.Conn
	cut *atomic.Bool
}

func (c *lossyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil && c.cut.CompareAndSwap(true, false) {
		c.Close()
		return 0, errors.New("connection cut")
	}
	return n, err
}

func (tr *torture) run(d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	var wg sync.WaitGroup
	for n := range tortureWorkers {
		wg.Go(func() { tr.work(ctx, n) })
	}
	wg.Go(func() { tr.produce(ctx) })
	wg.Go(func() { tr.requeue(ctx) })
	wg.Go(func() { tr.keepOutcomeOpen(ctx) })
	wg.Go(func() { tr.stopReading(ctx) })
	wg.Wait()
}

// work claims, stalls, records some rows once or twice, releases some, forgets some, and now and then loses
// an answer.
func (tr *torture) work(ctx context.Context, n int) {
	var cut atomic.Bool
	store := tr.open(&cut)
	defer store.Close()
	worker := fmt.Sprint("worker-", n)
	for ctx.Err() == nil {
		if rand.IntN(20) == 0 {
			cut.Store(true)
		}
		claim := tr.claim(ctx, store, worker, 1+rand.IntN(40))
		if claim == nil {
			tr.stall(ctx, 5*time.Millisecond)
			continue
		}
		for round := rand.IntN(3); round >= 0 && ctx.Err() == nil; round-- {
			if rand.IntN(3) == 0 {
				tr.stall(ctx, 2*tortureLease)
			}
			if rand.IntN(15) == 0 {
				cut.Store(true)
			}
			if rand.IntN(4) == 0 {
				tr.release(ctx, store, claim)
			} else {
				tr.record(ctx, store, claim)
			}
		}
	}
}

func (tr *torture) stall(ctx context.Context, most time.Duration) {
	timer := time.NewTimer(rand.N(most))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

func (tr *torture) claim(ctx context.Context, store *Store, worker string, limit int) *fencerow.Claim {
	token := fencerow.NewClaimToken()
	claim, err := store.ClaimBatch(ctx, fencerow.ClaimBatchParams{
		Instance: tr.instance,
		Worker:   fencerow.WorkerID(worker),
		Token:    token,
		Limit:    limit,
		Lease:    fencerow.MinLease,
	})
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if err != nil {
		tr.counts["claim: "+string(errorCode(err))]++
		return nil
	}
	if len(claim.Entries) == 0 {
		return nil
	}
	tr.counts["claims"]++
	tr.tokens = append(tr.tokens, token)
	for i := range claim.Entries {
		e := &claim.Entries[i]
		if e.Reclaimed {
			tr.counts["rows reclaimed"]++
		}
		tr.holds[e.OutboxID] = append(tr.holds[e.OutboxID], &hold{
			epoch: claim.Epoch, worker: worker, from: claim.ClaimedAt, leaseEnd: claim.LeaseExpiresAt,
		})
	}
	return claim
}

// subset picks some rows of the claim, whether they were recorded before or not.
func subset(claim *fencerow.Claim) []*fencerow.ClaimedEntry {
	var rows []*fencerow.ClaimedEntry
	for i := range claim.Entries {
		if rand.IntN(3) > 0 {
			rows = append(rows, &claim.Entries[i])
		}
	}
	return rows
}

func (tr *torture) record(ctx context.Context, store *Store, claim *fencerow.Claim) {
	rows := subset(claim)
	if len(rows) == 0 {
		return
	}
	outcomes := make([]fencerow.Outcome, len(rows))
	for i, e := range rows {
		outcomes[i] = fencerow.Outcome{OutboxID: e.OutboxID, Kind: fencerow.OutcomeCompleted}
		switch rand.IntN(4) {
		case 0:
			outcomes[i].Kind = fencerow.OutcomeRetryableFailure
			outcomes[i].Reason = fencerow.ReasonLedgerError
			outcomes[i].Charge = fencerow.ChargeAttempt
			outcomes[i].Delay = rand.N(20 * time.Millisecond)
		case 1:
			outcomes[i].Kind = fencerow.OutcomeDeadLettered
			outcomes[i].Reason = fencerow.ReasonLedgerError
		}
	}
	tr.letGo(claim, rows)
	verdicts, err := store.RecordOutcomes(ctx, fencerow.RecordParams{
		Instance: tr.instance, Token: claim.Token, Outcomes: outcomes,
	})
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if err != nil {
		tr.counts["record: "+string(errorCode(err))]++
		return
	}
	for i, v := range verdicts {
		if !v.Applied {
			tr.counts["rows lost: "+string(v.Lost)]++
			continue
		}
		tr.counts["rows recorded"]++
		if outcomes[i].Kind.Terminal() {
			l := life{v.OutboxID, rows[i].Life}
			if tr.terminal[l]++; tr.terminal[l] > 1 {
				tr.found = append(tr.found, fmt.Sprintf("life %d of row %d ended twice", l.number, l.id))
			}
		}
	}
}

func (tr *torture) release(ctx context.Context, store *Store, claim *fencerow.Claim) {
	rows := subset(claim)
	if len(rows) == 0 {
		return
	}
	released := make([]fencerow.ReleaseRow, len(rows))
	for i, e := range rows {
		released[i] = fencerow.ReleaseRow{OutboxID: e.OutboxID, Uncertain: rand.IntN(2) == 0}
	}
	tr.letGo(claim, rows)
	_, err := store.Release(
		ctx,
		fencerow.ReleaseParams{Instance: tr.instance, Token: claim.Token, Rows: released},
	)
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if err != nil {
		tr.counts["release: "+string(errorCode(err))]++
	} else {
		tr.counts["releases"]++
	}
}

// letGo notes that from now on the rows may belong to others.
func (tr *torture) letGo(claim *fencerow.Claim, rows []*fencerow.ClaimedEntry) {
	now := time.Now()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, e := range rows {
		for _, h := range tr.holds[e.OutboxID] {
			if h.epoch == claim.Epoch && h.letGoFrom.IsZero() {
				h.letGoFrom = now
			}
		}
	}
}

func (tr *torture) produce(ctx context.Context) {
	var never atomic.Bool
	store := tr.open(&never)
	defer store.Close()
	for ctx.Err() == nil {
		entries := make([]fencerow.NewEntry, 50)
		tr.mu.Lock()
		first, waiting := tr.enqueued, tr.enqueued-len(tr.terminal)
		if waiting < tortureBacklog {
			tr.enqueued += len(entries)
		}
		tr.mu.Unlock()
		if waiting >= tortureBacklog {
			tr.stall(ctx, 20*time.Millisecond)
			continue
		}
		for i := range entries {
			size := 20
			if rand.IntN(50) == 0 {
				size = 64 << 10 // wide enough that a reader who stops fills its socket
			}
			entries[i] = fencerow.NewEntry{
				CorrelationID: fencerow.CorrelationID(fmt.Sprint("c-", first+i)),
				EntryKind:     "fill",
				Payload:       []byte(`{"pad":"` + strings.Repeat("x", size) + `"}`),
			}
		}
		_, err := store.EnqueueMany(
			context.Background(),
			fencerow.EnqueueParams{Instance: tr.instance, Entries: entries},
		)
		if err != nil {
			tr.t.Errorf("enqueue: %v", err)
			return
		}
		tr.stall(ctx, 20*time.Millisecond)
	}
}

// requeue races every other verb for dead letters.
func (tr *torture) requeue(ctx context.Context) {
	var never atomic.Bool
	store := tr.open(&never)
	defer store.Close()
	for ctx.Err() == nil {
		tr.mu.Lock()
		n := tr.enqueued
		tr.mu.Unlock()
		if n == 0 {
			continue
		}
		err := store.Requeue(ctx, fencerow.RequeueParams{
			Instance:      tr.instance,
			CorrelationID: fencerow.CorrelationID(fmt.Sprint("c-", rand.IntN(n))),
			From:          fencerow.StatusDeadLettered,
		})
		tr.mu.Lock()
		if err == nil {
			tr.counts["requeues"]++
		}
		tr.mu.Unlock()
	}
}

// keepOutcomeOpen begins an outcome of somebody's claim and leaves its transaction open, within the lease or
// past it.
func (tr *torture) keepOutcomeOpen(ctx context.Context) {
	conn, err := pgx.Connect(ctx, tr.dsn)
	if err != nil {
		return
	}
	defer conn.Close(context.Background())
	for ctx.Err() == nil {
		tr.stall(ctx, 10*time.Millisecond)
		token, ok := tr.recentToken()
		if !ok {
			continue
		}
		tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
		if err != nil {
			return
		}
		_, err = db.New(
			tx,
		).ClaimLock(
			ctx,
			db.ClaimLockParams{ClaimToken: uuid(token), InstanceKey: string(tr.instance)},
		)
		if err == nil {
			tr.stall(ctx, 3*tortureLease)
			tr.count("outcome transactions left open")
		}
		tx.Rollback(context.Background()) //nolint:errcheck // ends with the connection
	}
}

// stopReading asks for a claim's entries and leaves the answer in the socket for a while.
func (tr *torture) stopReading(ctx context.Context) {
	conn, err := pgx.Connect(ctx, tr.dsn)
	if err != nil {
		return
	}
	defer conn.Close(context.Background())
	for ctx.Err() == nil {
		tr.stall(ctx, 20*time.Millisecond)
		token, ok := tr.recentToken()
		if !ok {
			continue
		}
		rows, err := conn.Query(ctx, db.ClaimEntries, uuid(token), tr.instance)
		if err != nil {
			continue
		}
		if rows.Next() {
			tr.stall(ctx, 4*tortureLease)
			tr.count("readers stopped")
		}
		rows.Close()
	}
}

func (tr *torture) recentToken() (fencerow.ClaimToken, bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if len(tr.tokens) == 0 {
		return fencerow.ClaimToken{}, false
	}
	recent := tr.tokens[max(0, len(tr.tokens)-tortureWorkers):]
	return recent[rand.IntN(len(recent))], true
}

func (tr *torture) count(what string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.counts[what]++
}

// drain ends every life, with connections that work.
func (tr *torture) drain() {
	store, err := Open(Config{DSN: tr.dsn})
	if err != nil {
		tr.t.Fatal(err)
	}
	defer store.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		counts, err := store.Counts(ctx, tr.instance)
		if err != nil {
			tr.t.Fatalf("counts: %v; %s", err, tr.summary())
		}
		if counts.ByStatus[fencerow.StatusPending] == 0 {
			tr.checkEnd(ctx, store, counts)
			return
		}
		claim := tr.claim(ctx, store, "last-worker", fencerow.MaxBatch)
		if claim == nil {
			continue
		}
		outcomes := make([]fencerow.Outcome, len(claim.Entries))
		rows := make([]*fencerow.ClaimedEntry, len(claim.Entries))
		for i := range claim.Entries {
			rows[i] = &claim.Entries[i]
			outcomes[i] = fencerow.Outcome{OutboxID: rows[i].OutboxID, Kind: fencerow.OutcomeCompleted}
		}
		tr.letGo(claim, rows)
		if _, err := store.RecordOutcomes(ctx, fencerow.RecordParams{
			Instance: tr.instance, Token: claim.Token, Outcomes: outcomes,
		}); err != nil {
			tr.t.Fatalf("record: %v", err)
		}
	}
	tr.t.Fatal("the rows were not drained in a minute")
}

// checkEnd compares what the database has with what was enqueued.
func (tr *torture) checkEnd(ctx context.Context, store *Store, counts *fencerow.Counts) {
	var total int64
	for _, n := range counts.ByStatus {
		total += n
	}
	if total != int64(tr.enqueued) {
		tr.t.Errorf("%d entries were enqueued, %d are there", tr.enqueued, total)
	}
	claims, err := store.Claims(ctx, tr.instance)
	if err != nil {
		tr.t.Fatalf("claims: %v", err)
	}
	for _, c := range claims {
		if c.Rows > 0 && c.Remaining > 0 {
			tr.t.Errorf("%s still holds %d rows, all of which have ended", c.Worker, c.Rows)
		}
	}
}

// problems checks the holds of every row: in the order of their beginning their epochs rise, and none begins
// while the one before it stands.
func (tr *torture) problems() []string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	found := slices.Clone(tr.found)
	for id, holds := range tr.holds {
		holds = slices.Clone(holds)
		slices.SortFunc(holds, func(a, b *hold) int { return a.from.Compare(b.from) })
		for i := 1; i < len(holds); i++ {
			before, h := holds[i-1], holds[i]
			if h.epoch <= before.epoch {
				found = append(found, fmt.Sprintf("row %d: epoch %d of %s follows %d of %s",
					id, h.epoch, h.worker, before.epoch, before.worker))
			}
			free := before.leaseEnd
			if !before.letGoFrom.IsZero() && before.letGoFrom.Before(free) {
				free = before.letGoFrom
			}
			if h.from.Before(free) {
				found = append(found, fmt.Sprintf("row %d: %s holds it %v before %s let go",
					id, h.worker, free.Sub(h.from), before.worker))
			}
		}
	}
	return found
}

func (tr *torture) summary() string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	keys := make([]string, 0, len(tr.counts))
	for k := range tr.counts {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var b strings.Builder
	fmt.Fprintf(&b, "%d entries", tr.enqueued)
	for _, k := range keys {
		fmt.Fprintf(&b, "; %s %d", k, tr.counts[k])
	}
	return b.String()
}

func errorCode(err error) fencerow.Code {
	var e *fencerow.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return fencerow.Code(fmt.Sprintf("%T", err))
}

// grants are what docs/operations.md gives to the role of a daemon.
func grants(role string) string {
	return strings.ReplaceAll(`
		GRANT USAGE ON SCHEMA fencerow TO ROLE;
		GRANT SELECT, INSERT, DELETE ON fencerow.ledger_outbox TO ROLE;
		GRANT SELECT, INSERT, UPDATE, DELETE ON fencerow.ledger_pending, fencerow.ledger_claim TO ROLE;
		GRANT SELECT, INSERT, DELETE ON fencerow.ledger_outcome TO ROLE;
		GRANT SELECT, INSERT, UPDATE ON fencerow.ledger_instance, fencerow.ledger_slot TO ROLE;
		GRANT SELECT, INSERT, UPDATE, DELETE ON fencerow.ledger_skip TO ROLE;
		GRANT SELECT ON fencerow.schema_version TO ROLE;
		GRANT USAGE ON SEQUENCE fencerow.ledger_outbox_outbox_id_seq TO ROLE;
	`, "ROLE", `"`+role+`"`)
}
