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
		"batch=100", "batch=500", "concurrency=1", "concurrency=4", "concurrency=8", "concurrency=16",
		"budget=4000",
	},
	build: func(p params) (queue, string, error) {
		q := atBest()
		q.batch = p.int("batch", q.batch)
		q.budget = p.int("budget", 0)
		q.workers = p.int("concurrency", q.workers)
		q.interval = p.duration("interval", q.interval)
		if p.bool("whole", false) {
			whole := &wholeQueue{*q}
			return whole, whole.setting(), p.err
		}
		return q, q.setting(), p.err
	},
}

// fencerowQueue is fencerow as its daemon runs it.
type fencerowQueue struct {
	instance               fencerow.InstanceKey
	batch, budget, workers int
	interval               time.Duration
	// What follows is the daemon's own, or nothing, unless a measurement looks closer.
	ledger fencerow.Ledger // nil: a delivery that does nothing
	wrap   func(fencerow.Claimer) fencerow.Claimer
	log    io.Writer
	dsn    string
	conns  int32
}

// atBest returns fencerow at large batches, and asComes with the daemon's defaults.
func atBest() *fencerowQueue {
	q := asComes()
	q.batch = fencerow.MaxBatch
	return q
}

func asComes() *fencerowQueue {
	return &fencerowQueue{
		instance: instance, batch: writer.DefaultBatchLimit, workers: writer.DefaultConcurrency,
		interval: time.Second,
	}
}

// setting says in words what it runs with.
func (q *fencerowQueue) setting() string {
	return fmt.Sprintf("one daemon, batch %d, %d deliveries at once, interval %s, other settings their defaults",
		q.batch, q.workers, q.interval)
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
	if c.store, err = openStore(cmp.Or(q.dsn, db.dsn), q.conns); err != nil {
		return nil, err
	}
	var claimer fencerow.Claimer = c.store
	if q.wrap != nil {
		claimer = q.wrap(claimer)
	}
	const worker = "bench:1"
	c.writer, err = writer.New(claimer, c.ledger, c.observer, writer.Config{
		Instance: q.instance, Worker: worker, BatchLimit: q.batch, Budget: q.budget, Concurrency: q.workers,
		TargetDelay: q.interval,
	})
	if err != nil {
		return nil, err
	}
	c.daemon, err = daemon.New(daemon.Config{
		Store: c.store, Writer: c.writer, Observer: c.observer, Worker: worker, Interval: q.interval,
		Slots: slots.NewBuilder(c.store, q.instance, slots.CountersOf(c.observer)),
		Grace: writer.DefaultGrace,
	})
	return c, err
}

// fencerowDaemon is one daemon in this process.
type fencerowDaemon struct {
	log      *observe.Queue
	observer *observe.Observer
	store    *pgstore.Store
	writer   *writer.Writer
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
