package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

var riverKind = kind{
	name: "river",
	tries: []string{
		"default=true", "workers=200", "workers=2000", "workers=5000", "workers=10000",
		"cooldown=10ms", "conns=4", "conns=16", "clients=2",
	},
	build: func(p params) (queue, string, error) {
		q := &riverQueue{workers: p.int("workers", 1000), conns: p.int("conns", 8), clients: p.int("clients", 1)}
		q.cooldown = p.duration("cooldown", river.FetchCooldownMin)
		q.poll = p.duration("poll", max(q.cooldown, 10*time.Millisecond))
		if p.bool("default", false) {
			q.workers, q.cooldown, q.poll = 100, river.FetchCooldownDefault, river.FetchPollIntervalDefault
		}
		setting := fmt.Sprintf("v0.51.2, %d client(s), MaxWorkers %d, FetchCooldown %s, FetchPollInterval %s, "+
			"%d connections, finished rows kept", q.clients, q.workers, q.cooldown, q.poll, q.conns)
		return q, setting, p.err
	},
}

// riverQueue is River on pgx.
type riverQueue struct {
	workers, conns, clients int
	cooldown, poll          time.Duration
}

// riverArgs is what a River worker gets; its fields are those of the payload that the others store.
type riverArgs struct {
	N       int    `json:"n"`
	Account string `json:"account"`
	Memo    string `json:"memo"`
}

// Kind implements river.JobArgs.
func (riverArgs) Kind() string { return "entry" }

func riverEntry(i int) riverArgs {
	return riverArgs{N: i, Account: "ACC-" + strconv.Itoa(i%100), Memo: memo}
}

// memo makes a payload about 300 bytes long.
var memo = strings.Repeat("x", 260)

// payload is the JSON that entry i has in every system.
func payload(i int) []byte {
	text, err := json.Marshal(riverEntry(i))
	if err != nil {
		panic("bench: " + err.Error())
	}
	return text
}

type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	count *atomic.Int64
}

// Work implements river.Worker.
func (w *riverWorker) Work(context.Context, *river.Job[riverArgs]) error {
	w.count.Add(1)
	return nil
}

func (q *riverQueue) queries() (string, []any) { return "river", nil }

func (q *riverQueue) prepare(ctx context.Context, db *database) error {
	pool, err := pgxpool.New(ctx, db.dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: quiet})
	if err != nil {
		return err
	}
	_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError}))

func (q *riverQueue) fill(ctx context.Context, db *database, first, n int) error {
	pool, err := pgxpool.New(ctx, db.dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: quiet})
	if err != nil {
		return err
	}
	return inBatches(first, n, fillBatch, func(first, n int) error {
		_, err := client.InsertManyFast(ctx, riverBatch(first, n))
		return err
	})
}

func riverBatch(first, n int) []river.InsertManyParams {
	batch := make([]river.InsertManyParams, n)
	for i := range batch {
		batch[i] = river.InsertManyParams{Args: riverEntry(first + i)}
	}
	return batch
}

func (q *riverQueue) open(ctx context.Context, db *database, _ int) (consumer, error) {
	cfg, err := pgxpool.ParseConfig(db.dsn)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = int32(q.conns)
	c := &riverConsumer{}
	if c.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, err
	}
	for range q.clients {
		workers := river.NewWorkers()
		river.AddWorker(workers, &riverWorker{count: &c.count})
		client, err := river.NewClient(riverpgxv5.New(c.pool), &river.Config{
			Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: q.workers}},
			FetchCooldown:     q.cooldown,
			FetchPollInterval: q.poll,
			Logger:            quiet,
			Workers:           workers,
		})
		if err != nil {
			c.pool.Close()
			return nil, err
		}
		c.clients = append(c.clients, client)
	}
	return c, nil
}

type riverConsumer struct {
	pool    *pgxpool.Pool
	clients []*river.Client[pgx.Tx]
	started int
	inProcess
}

func (c *riverConsumer) begin(ctx context.Context) error {
	for _, client := range c.clients {
		if err := client.Start(ctx); err != nil {
			return err
		}
		c.started++
	}
	return nil
}

func (c *riverConsumer) stop(ctx context.Context) (err error) {
	for _, client := range c.clients[:c.started] {
		if stopErr := client.Stop(ctx); err == nil {
			err = stopErr
		}
	}
	c.pool.Close()
	return err
}
