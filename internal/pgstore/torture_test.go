package pgstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fourblocks2020/fencerow"
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
	repeatable := map[string]string{"default_transaction_isolation": "repeatable read"}
	for name, c := range map[string]struct {
		template *pgtest.Template
		defaults map[string]string
	}{
		"read committed":  {schema, nil},
		"repeatable read": {schema, repeatable},
		"behind walls":    {walled, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTorture(t, c.template, c.defaults, nil)
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
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rewrite, changed := m.mutation.apply()
			if m.begin != "" {
				rewrite = nil
			}
			tr := newTorture(t, schema, m.defaults, func(s *Store) {
				if m.begin != "" {
					s.texts.begin = m.begin
				}
				s.texts.rewrite = chain(s.texts.rewrite, rewrite)
			})
			deadline := time.Now().Add(4 * time.Minute)
			for len(tr.problems()) == 0 {
				if time.Now().After(deadline) {
					t.Fatalf("no violation was found in four minutes: %s", tr.summary())
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

func newTorture(
	t testing.TB, template *pgtest.Template, defaults map[string]string, mutate func(*Store),
) *torture {
	const instance = "torture"
	database := pgtest.NewDatabase(t, template)
	role := database.NewRole(t, defaults)
	database.Exec(t, grants(t, role.Name))
	mapRole(t, database, role, instance)
	return &torture{
		t:        t,
		instance: instance,
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

// drain ends every life, with connections that work.
func (tr *torture) drain() {
	store, err := Open(Config{DSN: fencerow.NewSecret(tr.dsn)})
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

// grants are what docs/operations.md gives to the role of a daemon: its first block of SQL.
func grants(t testing.TB, role string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```sql\n")
	block, _, _ := strings.Cut(rest, "```\n")
	const documented = "fencerow_daemon"
	if !strings.Contains(block, "TO "+documented+";") {
		t.Fatal("docs/operations.md does not begin with the grants of the daemon")
	}
	return strings.ReplaceAll(block, documented, `"`+role+`"`)
}
