package main

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

var limitKind = kind{
	name:  "limit",
	tries: []string{"conns=1", "conns=3", "conns=4", "batch=100"},
	build: func(p params) (queue, string, error) {
		q := &limitQueue{conns: p.int("conns", 2), batch: p.int("batch", 1000)}
		setting := fmt.Sprintf("no queue: one statement deletes %d known rows of a table like ledger_pending and "+
			"appends them to one like ledger_outcome; %d connections", q.batch, q.conns)
		return q, setting, p.err
	},
}

// limitQueue is what the database can do at most: the same rows moved from a narrow table to another, by a
// client that knows beforehand which. There is no claim, no payload is read, and nothing is checked.
type limitQueue struct{ conns, batch int }

func (q *limitQueue) queries() (string, []any) { return "limit", nil }

func (q *limitQueue) prepare(ctx context.Context, db *database) error {
	return db.exec(ctx, query("limit", "prepare"))
}

func (q *limitQueue) fill(ctx context.Context, db *database, first, n int) error {
	return db.exec(ctx, query("limit", "fill"), first, n)
}

func (q *limitQueue) open(ctx context.Context, db *database, n int) (consumer, error) {
	c := &limitConsumer{batch: q.batch, n: n, ended: make(chan error, 1)}
	for range q.conns {
		conn, err := pgx.Connect(ctx, db.dsn)
		if err != nil {
			return nil, err
		}
		c.conns = append(c.conns, conn)
	}
	return c, nil
}

type limitConsumer struct {
	conns    []*pgx.Conn
	batch, n int
	inProcess
	taken atomic.Int64
	begun bool
	ended chan error
}

func (c *limitConsumer) begin(ctx context.Context) error {
	c.begun = true
	group, ctx := errgroup.WithContext(ctx)
	for _, conn := range c.conns {
		group.Go(func() error { return c.work(ctx, conn) })
	}
	go func() { c.ended <- group.Wait() }()
	return nil
}

func (c *limitConsumer) work(ctx context.Context, conn *pgx.Conn) error {
	text := query("limit", "move")
	ids := make([]int64, 0, c.batch)
	for {
		end := c.taken.Add(int64(c.batch))
		first, last := end-int64(c.batch)+1, min(end, int64(c.n))
		if first > last {
			return nil
		}
		ids = ids[:0]
		for id := first; id <= last; id++ {
			ids = append(ids, id)
		}
		tag, err := conn.Exec(ctx, text, ids)
		if err != nil {
			return err
		}
		c.count.Add(tag.RowsAffected())
	}
}

func (c *limitConsumer) stop(ctx context.Context) (err error) {
	if c.begun {
		err = <-c.ended
	}
	for _, conn := range c.conns {
		_ = conn.Close(ctx) // nothing depends on it
	}
	return err
}
