package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/vgarvardt/gue/v5"
	"github.com/vgarvardt/gue/v5/adapter/pgxv5"
)

var gueKind = kind{
	name:  "gue",
	tries: []string{"workers=2", "workers=4", "workers=16", "workers=32", "byrun=false"},
	build: func(p params) (queue, string, error) {
		q := &gueQueue{workers: p.int("workers", 8), strategy: gue.RunAtPollStrategy}
		if !p.bool("byrun", true) {
			q.strategy = gue.PriorityPollStrategy
		}
		setting := fmt.Sprintf("v5.8.0, pool of %d workers with a connection each, %s, rows deleted; no lease: a "+
			"transaction for each entry holds its row", q.workers, q.strategy)
		return q, setting, p.err
	},
}

// gueQueue is gue on pgx.
type gueQueue struct {
	workers  int
	strategy gue.PollStrategy
}

const gueType = "entry"

func (q *gueQueue) queries() (string, []any) { return "gue", nil }

func (q *gueQueue) prepare(ctx context.Context, db *database) error {
	return db.exec(ctx, query("gue", "prepare"))
}

func (q *gueQueue) fill(ctx context.Context, db *database, first, n int) error {
	pool, err := pgxpool.New(ctx, db.dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	client, err := gue.NewClient(pgxv5.NewConnPool(pool))
	if err != nil {
		return err
	}
	const gueBatch = 5000 // what fits one statement's parameters
	return inBatches(first, n, gueBatch, func(first, n int) error {
		batch := make([]*gue.Job, n)
		for i := range batch {
			batch[i] = &gue.Job{Type: gueType, Args: payload(first + i)}
		}
		return client.EnqueueBatch(ctx, batch)
	})
}

func (q *gueQueue) open(ctx context.Context, db *database, _ int) (consumer, error) {
	cfg, err := pgxpool.ParseConfig(db.dsn)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = int32(q.workers)
	c := &gueConsumer{ended: make(chan error, 1)}
	if c.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, err
	}
	client, err := gue.NewClient(pgxv5.NewConnPool(c.pool))
	if err == nil {
		work := func(context.Context, *gue.Job) error { c.count.Add(1); return nil }
		c.workers, err = gue.NewWorkerPool(client, gue.WorkMap{gueType: work}, q.workers,
			gue.WithPoolPollInterval(10*time.Millisecond), gue.WithPoolPollStrategy(q.strategy),
			gue.WithPoolGracefulShutdown(nil))
	}
	if err != nil {
		c.pool.Close()
		return nil, err
	}
	return c, nil
}

type gueConsumer struct {
	inProcess
	pool    *pgxpool.Pool
	workers *gue.WorkerPool
	cancel  context.CancelFunc // nil before begin
	ended   chan error
}

func (c *gueConsumer) begin(ctx context.Context) error {
	ctx, c.cancel = context.WithCancel(ctx)
	go func() { c.ended <- c.workers.Run(ctx) }()
	return nil
}

func (c *gueConsumer) stop(context.Context) (err error) {
	if c.cancel != nil {
		c.cancel()
		err = <-c.ended
	}
	c.pool.Close()
	return err
}
