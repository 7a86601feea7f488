package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/config"
	"github.com/fourblocks2020/fencerow/internal/daemon"
	"github.com/fourblocks2020/fencerow/internal/migrate"
	"github.com/fourblocks2020/fencerow/internal/observe"
	"github.com/fourblocks2020/fencerow/internal/pgstore"
	"github.com/fourblocks2020/fencerow/internal/slots"
	"github.com/fourblocks2020/fencerow/internal/writer"
)

// This file is the one that knows how the product's parts are put together; cmd/fencerowd does the same.

// instance is the key under which the benchmark enqueues.
const instance = fencerow.InstanceKey("bench")

var fencerowKind = kind{
	name: "fencerow",
	tries: []string{
		"batch=500", "concurrency=1", "concurrency=8", "concurrency=32", "conns=16",
		"writers=1", "writers=1/concurrency=32", "writers=1/budget=4000", "writers=3", "default=true",
	},
	build: func(p params) (queue, string, error) {
		q := atBest()
		if p.bool("default", false) {
			q = asComes()
		}
		q.batch = p.int("batch", q.batch)
		q.budget = p.int("budget", q.budget)
		q.concurrency = p.int("concurrency", q.concurrency)
		q.writers = p.int("writers", q.writers)
		q.conns = p.int("conns", q.conns)
		q.interval = p.duration("interval", q.interval)
		if p.bool("whole", false) {
			whole := &wholeQueue{*q}
			return whole, whole.setting(), p.err
		}
		return q, q.setting(), p.err
	},
}

// fencerowQueue is fencerow as its daemon runs it. A zero leaves the daemon's default.
type fencerowQueue struct {
	instance                                   fencerow.InstanceKey
	batch, budget, concurrency, writers, conns int
	interval                                   time.Duration
	// What follows is the daemon's own, or nothing, unless a measurement looks closer.
	ledger fencerow.Ledger // nil: a delivery that does nothing
	wrap   func(fencerow.Claimer) fencerow.Claimer
	log    io.Writer
	dsn    string
}

// atBest returns fencerow as it is the fastest on two cores where delivery does nothing, atLargeBatches with
// the daemon's defaults but for the batch, and asComes with its defaults.
func atBest() *fencerowQueue {
	q := atLargeBatches()
	q.writers, q.concurrency = 2, 4
	return q
}

func atLargeBatches() *fencerowQueue {
	q := asComes()
	q.batch = fencerow.MaxBatch
	return q
}

func asComes() *fencerowQueue { return &fencerowQueue{instance: instance} }

// settings are those of the daemon that are of interest here.
type settings struct {
	Writer   config.Writer   `embed:""`
	Daemon   config.Daemon   `embed:""`
	Database config.Database `embed:""`
}

// settings reads a daemon's command line that says what differs from its defaults.
func (q *fencerowQueue) settings() (*settings, error) {
	var args []string
	for name, value := range map[string]int{
		"batch-limit": q.batch, "budget": q.budget, "concurrency": q.concurrency, "writers": q.writers,
		"db-max-conns": q.conns,
	} {
		if value != 0 {
			args = append(args, fmt.Sprintf("--%s=%d", name, value))
		}
	}
	if q.interval != 0 {
		args = append(args, fmt.Sprintf("--ledger-interval-sec=%g", q.interval.Seconds()))
	}
	var s settings
	parser, err := config.NewParser(&s, "fencerowd", "")
	if err == nil {
		_, err = parser.Parse(args)
	}
	return &s, err
}

// setting says in words what it runs with.
func (q *fencerowQueue) setting() string {
	s, err := q.settings()
	if err != nil {
		return err.Error() // and so the daemon will be refused
	}
	return fmt.Sprintf("one daemon, %d writer(s), batch %d, %d deliveries at once of each, interval %s, "+
		"%d connections at most, other settings their defaults",
		s.Writer.Writers, s.Writer.BatchLimit, s.Writer.Concurrency, s.Daemon.Interval(), s.Database.MaxConns)
}

func (q *fencerowQueue) queries() (string, []any) {
	return "fencerow", []any{[]string{string(q.instance)}}
}

func (q *fencerowQueue) prepare(ctx context.Context, db *database) error {
	_, err := migrate.Up(ctx, db.dsn)
	return err
}

// fillBatch is how many entries a fill enqueues at once.
const fillBatch = 10_000

func (q *fencerowQueue) fill(ctx context.Context, db *database, first, n int) error {
	return inBatches(first, n, fillBatch, func(first, n int) error {
		return db.exec(ctx, query("fencerow", "enqueue_numbered"), string(q.instance), first, n)
	})
}

// inBatches calls fn for first..first+n-1 in batches.
func inBatches(first, n, size int, fn func(first, n int) error) error {
	for n > 0 {
		take := min(n, size)
		if err := fn(first, take); err != nil {
			return err
		}
		first, n = first+take, n-take
	}
	return nil
}

func (q *fencerowQueue) open(_ context.Context, db *database, _ int) (consumer, error) {
	return q.openDaemon(db)
}

// openStore opens a store as a producer or a daemon does.
func openStore(dsn string, conns int32) (*pgstore.Store, error) {
	return pgstore.Open(pgstore.Config{DSN: fencerow.NewSecret(dsn), MaxConns: conns})
}

// openDaemon builds a daemon as cmd/fencerowd does, with its log written to nowhere.
func (q *fencerowQueue) openDaemon(db *database) (*fencerowDaemon, error) {
	s, err := q.settings()
	if err != nil {
		return nil, err
	}
	c := &fencerowDaemon{ended: make(chan error, 1), ledger: &countingLedger{next: q.ledger}}
	log := q.log
	if log == nil {
		log = io.Discard
	}
	c.log = observe.NewQueue(log, func(dropped int64) { c.observer.RecordsDropped(dropped) })
	handler, err := observe.NewHandler(c.log, observe.FormatJSON, slog.LevelInfo)
	if err != nil {
		return nil, err
	}
	if c.observer, err = observe.New(handler, q.instance, observe.Alerting{}); err != nil {
		return nil, err
	}
	if c.store, err = openStore(cmp.Or(q.dsn, db.dsn), s.Database.MaxConns); err != nil {
		return nil, err
	}
	var claimer fencerow.Claimer = c.store
	if q.wrap != nil {
		claimer = q.wrap(claimer)
	}
	if c.writers, err = s.Writer.New(claimer, c.ledger, c.observer, s.Daemon.Interval()); err != nil {
		return nil, err
	}
	writers := make([]daemon.Writer, len(c.writers))
	for i, w := range c.writers {
		writers[i] = w
	}
	c.daemon, err = daemon.New(daemon.Config{
		Store: c.store, Writers: writers, Observer: c.observer,
		Slots:  slots.NewBuilder(c.store, q.instance, "bench", slots.CountersOf(c.observer)),
		Worker: s.Writer.WorkerID(), Interval: s.Daemon.Interval(), Grace: s.Writer.Grace,
	})
	return c, err
}

// fencerowDaemon is one daemon in this process.
type fencerowDaemon struct {
	log      *observe.Queue
	observer *observe.Observer
	store    *pgstore.Store
	writers  []*writer.Writer
	daemon   *daemon.Daemon
	ledger   *countingLedger
	cancel   context.CancelFunc // nil before begin
	ended    chan error
}

func (c *fencerowDaemon) begin(ctx context.Context) error {
	ctx, c.cancel = context.WithCancel(ctx)
	go func() { c.ended <- c.daemon.Run(ctx) }()
	return nil
}

func (c *fencerowDaemon) delivered() int64            { return c.ledger.count.Load() }
func (c *fencerowDaemon) cpu() (time.Duration, error) { return ownCPU() }

func (c *fencerowDaemon) stop(context.Context) error {
	var err error
	if c.cancel != nil {
		c.cancel()
		err = <-c.ended
	}
	c.store.Close()
	c.observer.CloseAlerts()
	c.log.Close(time.Second)
	return err
}

// countingLedger counts deliveries; without another ledger behind it, it answers at once.
type countingLedger struct {
	count atomic.Int64
	next  fencerow.Ledger
}

// Deliver implements [fencerow.Ledger].
func (l *countingLedger) Deliver(ctx context.Context, d fencerow.Delivery) fencerow.Answer {
	answer := fencerow.Answer{
		Class: fencerow.AnswerDelivered, Certainty: fencerow.Answered, Scope: fencerow.ScopeEntry,
	}
	if l.next != nil {
		answer = l.next.Deliver(ctx, d)
	}
	l.count.Add(1)
	return answer
}
