package main

import (
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
		q := &fencerowQueue{
			instance: instance,
			batch:    p.int("batch", fencerow.MaxBatch),
			budget:   p.int("budget", 0),
			workers:  p.int("concurrency", writer.DefaultConcurrency),
			interval: p.duration("interval", time.Second),
		}
		setting := fmt.Sprintf("one daemon, batch %d, %d deliveries at once, every other setting its default",
			q.batch, q.workers)
		return q, setting, p.err
	},
}

// fencerowQueue is fencerow as its daemon runs it.
type fencerowQueue struct {
	instance               fencerow.InstanceKey
	batch, budget, workers int
	interval               time.Duration
	deliver                fencerow.Ledger // nil: a delivery that does nothing
	onDelivery             func(*fencerow.Entry)
}

func (q *fencerowQueue) sql() string { return "fencerow" }

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
	return q.openDaemon(db, "bench:1")
}

// openDaemon builds a daemon as cmd/fencerowd does, with its log written to nowhere.
func (q *fencerowQueue) openDaemon(db *database, worker fencerow.WorkerID) (*fencerowDaemon, error) {
	c := &fencerowDaemon{ended: make(chan error, 1)}
	c.log = observe.NewQueue(io.Discard, func(dropped int64) { c.observer.RecordsDropped(dropped) })
	handler, err := observe.NewHandler(c.log, observe.FormatJSON, slog.LevelInfo)
	if err != nil {
		return nil, err
	}
	if c.observer, err = observe.New(handler, q.instance, nil); err != nil {
		return nil, err
	}
	if c.store, err = pgstore.Open(pgstore.Config{DSN: fencerow.NewSecret(db.dsn)}); err != nil {
		return nil, err
	}
	target := &countingLedger{next: q.deliver, seen: q.onDelivery}
	c.ledger = target
	c.writer, err = writer.New(c.store, target, c.observer, writer.Config{
		Instance: q.instance, Worker: worker, BatchLimit: q.batch, Budget: q.budget, Concurrency: q.workers,
		TargetDelay: q.interval,
	})
	if err != nil {
		return nil, err
	}
	c.daemon, err = daemon.New(daemon.Config{
		Store: c.store, Writer: c.writer, Observer: c.observer, Worker: worker, Interval: q.interval,
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
	c.log.Close(time.Second)
	return err
}

// countingLedger counts deliveries; without another ledger behind it, it answers at once.
type countingLedger struct {
	count atomic.Int64
	next  fencerow.Ledger
	seen  func(*fencerow.Entry)
}

// Deliver implements [fencerow.Ledger].
func (l *countingLedger) Deliver(ctx context.Context, d fencerow.Delivery) fencerow.Answer {
	answer := fencerow.Answer{
		Class: fencerow.AnswerDelivered, Certainty: fencerow.Answered, Scope: fencerow.ScopeEntry,
	}
	if l.next != nil {
		answer = l.next.Deliver(ctx, d)
	}
	if l.seen != nil {
		l.seen(d.Entry)
	}
	l.count.Add(1)
	return answer
}
