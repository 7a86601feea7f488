package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

var pgmqKind = kind{
	name:  "pgmq",
	tries: []string{"conns=1", "conns=4", "batch=100", "batch=500"},
	build: func(p params) (queue, string, error) {
		q := &pgmqQueue{conns: p.int("conns", 2), batch: p.int("batch", 1000), end: "archive"}
		if !p.bool("archive", true) {
			q.end = "delete"
		}
		setting := fmt.Sprintf("read and %s, %d rows at once, %d connections", q.end, q.batch, q.conns)
		return q, setting, p.err
	},
}

// pgmqQueue is the pgmq extension, by its SQL functions.
type pgmqQueue struct {
	conns, batch int
	end          string
}

// check implements checked.
func (q *pgmqQueue) check(ctx context.Context, s *server) (detail string, err error) {
	version, err := s.extensionVersion(ctx, "pgmq")
	if err == nil && version == "" {
		err = errors.New("this server has no extension pgmq")
	}
	return "extension " + version, err
}

func (q *pgmqQueue) queries() (string, []any) { return "pgmq", nil }

func (q *pgmqQueue) prepare(ctx context.Context, db *database) error {
	return db.with(ctx, func(conn *pgx.Conn) error {
		for _, name := range []string{"extension", "create"} {
			if _, err := conn.Exec(ctx, query("pgmq", name)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (q *pgmqQueue) fill(ctx context.Context, db *database, first, n int) error {
	return inBatches(first, n, fillBatch, func(first, n int) error {
		return db.exec(ctx, query("pgmq", "send"), first, n)
	})
}

func (q *pgmqQueue) open(ctx context.Context, db *database, _ int) (consumer, error) {
	c := &pgmqConsumer{queue: q, ended: make(chan error, 1)}
	for range q.conns {
		conn, err := pgx.Connect(ctx, db.dsn)
		if err != nil {
			return nil, err
		}
		c.conns = append(c.conns, conn)
	}
	return c, nil
}

type pgmqConsumer struct {
	inProcess
	queue *pgmqQueue
	conns []*pgx.Conn
	begun bool
	ended chan error
}

func (c *pgmqConsumer) begin(ctx context.Context) error {
	c.begun = true
	group, ctx := errgroup.WithContext(ctx)
	for _, conn := range c.conns {
		group.Go(func() error { return c.work(ctx, conn) })
	}
	go func() { c.ended <- group.Wait() }()
	return nil
}

// work reads and ends batches until there is nothing to read.
func (c *pgmqConsumer) work(ctx context.Context, conn *pgx.Conn) error {
	for {
		rows, err := conn.Query(ctx, query("pgmq", "read"), c.queue.batch)
		if err != nil {
			return err
		}
		var ids []int64
		var id int64
		var message []byte
		_, err = pgx.ForEachRow(rows, []any{&id, &message}, func() error {
			ids = append(ids, id)
			return nil
		})
		if err != nil || len(ids) == 0 {
			return err
		}
		if _, err := conn.Exec(ctx, query("pgmq", c.queue.end), ids); err != nil {
			return err
		}
		c.count.Add(int64(len(ids)))
	}
}

func (c *pgmqConsumer) stop(ctx context.Context) (err error) {
	if c.begun {
		err = <-c.ended
	}
	for _, conn := range c.conns {
		_ = conn.Close(ctx) // nothing depends on it
	}
	return err
}
