package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

var limitKind = kind{
	name:  "limit",
	tries: []string{"conns=1", "conns=3", "conns=4"},
	build: func(p params) (queue, string, error) {
		q := &limitQueue{conns: p.int("conns", 2), batch: p.int("batch", 1000), unread: p.bool("unread", false)}
		read := "returns their entries"
		if q.unread {
			read = "returns nothing"
		}
		setting := fmt.Sprintf("no queue: one statement deletes %d known rows of a table like ledger_pending, "+
			"appends them to one like ledger_outcome and %s; %d connections", q.batch, read, q.conns)
		return q, setting, p.err
	},
}

// limitQueue is what the database can do at most: the same rows moved from a narrow table to another, by a
// client that knows beforehand which. There is no claim and nothing is checked. The client reads the entries,
// as one that delivers them must, unless unread is set.
type limitQueue struct {
	conns, batch int
	unread       bool
}

func (q *limitQueue) queries() (string, []any) { return "limit", nil }

func (q *limitQueue) prepare(ctx context.Context, db *database) error {
	return db.exec(ctx, query("limit", "prepare"))
}

func (q *limitQueue) fill(ctx context.Context, db *database, first, n int) error {
	return db.exec(ctx, query("limit", "fill"), first, n)
}

func (q *limitQueue) open(ctx context.Context, db *database, n int) (consumer, error) {
	c := &limitConsumer{batch: q.batch, n: n, unread: q.unread, ended: make(chan error, 1)}
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
	unread   bool
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

// limitEntry is what is read of an entry.
type limitEntry struct {
	id                        int64
	correlationID, kind, slot string
	cashDelta, currency       string
	payload                   string
	enqueuedAt                time.Time
}

func (c *limitConsumer) work(ctx context.Context, conn *pgx.Conn) error {
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
		moved, err := c.move(ctx, conn, ids)
		if err != nil {
			return err
		}
		c.count.Add(moved)
	}
}

func (c *limitConsumer) move(ctx context.Context, conn *pgx.Conn, ids []int64) (moved int64, err error) {
	if c.unread {
		tag, err := conn.Exec(ctx, query("limit", "move"), ids)
		return tag.RowsAffected(), err
	}
	rows, err := conn.Query(ctx, query("limit", "take"), ids)
	if err != nil {
		return 0, err
	}
	entries, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e limitEntry, err error) {
		return e, row.Scan(
			&e.id, &e.correlationID, &e.kind, &e.slot, &e.cashDelta, &e.currency, &e.payload, &e.enqueuedAt)
	})
	return int64(len(entries)), err
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
