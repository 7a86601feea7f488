package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"golang.org/x/sync/errgroup"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/outbox"
)

// enqueuer is a way of getting entries into the database.
type enqueuer struct {
	name, setting string
	// batch is how many entries one call enqueues.
	batch   int
	prepare func(ctx context.Context, db *database) error
	open    func(t *target) (enqueueCall, error)
	// count is the end of the name of the query that counts what is there.
	count string
}

// enqueueCall enqueues the entries first..first+n-1. It is safe for concurrent use.
type enqueueCall = func(ctx context.Context, first, n int) error

// target is the database that an enqueuer enqueues into.
type target struct {
	dsn string
	// pool has a connection for each producer.
	pool *pgxpool.Pool
	// atEnd are called when the enqueuer is done.
	atEnd []func()
}

// openTarget connects no one yet. The caller closes the target.
func openTarget(ctx context.Context, db *database, e *enqueuer) (*target, error) {
	cfg, err := pgxpool.ParseConfig(db.dsn)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = int32(e.producers())
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	return &target{dsn: db.dsn, pool: pool}, err
}

// close may be called again.
func (t *target) close() {
	for _, fn := range t.atEnd {
		fn()
	}
	t.atEnd = nil
	t.pool.Close()
}

const (
	singleProducers = 8
	batchProducers  = 2
	batchSize       = 1000
	// singleShare is by how much fewer entries are enqueued one at a time, which takes longer.
	singleShare = 4
)

func enqueuers() []enqueuer {
	ours, theirs := asComes().prepare, (&riverQueue{}).prepare
	plain := func(ctx context.Context, db *database) error { return db.exec(ctx, query("enqueue", "plain")) }
	return []enqueuer{
		{"fencerow", "SQL function enqueue, a call is a transaction", 1, ours, openFunction, "fencerow"},
		{"fencerow tx", "outbox.Enqueue between BEGIN and COMMIT", 1, ours, openOutbox, "fencerow"},
		{"insert", "INSERT of the same columns, one index", 1, plain, openInsert, "plain"},
		{"insert tx", "the same between BEGIN and COMMIT", 1, plain, openInsertTx, "plain"},
		{"river", "Client.Insert", 1, theirs, openRiver, "river"},
		{"river tx", "Client.InsertTx between BEGIN and COMMIT", 1, theirs, openRiverTx, "river"},
		{"fencerow many", "EnqueueMany of 1000", batchSize, ours, openMany, "fencerow"},
		{"river many", "InsertManyFast of 1000", batchSize, theirs, openRiverMany, "river"},
		{"copy", "COPY of 1000 of the same columns, one index", batchSize, plain, openCopy, "plain"},
	}
}

// producers is how many calls run at once.
func (e *enqueuer) producers() int {
	if e.batch == 1 {
		return singleProducers
	}
	return batchProducers
}

// runEnqueue is workload c.
func runEnqueue(ctx context.Context, b *bench) error {
	all := enqueuers()
	list := make([]string, len(all))
	for i := range all {
		list[i] = all[i].name
	}
	return b.rounds("c", list, func(i, round int) error {
		e, n := all[i], b.n
		if e.batch == 1 {
			n = max(n/singleShare, 1)
		}
		c, err := b.enqueue(ctx, &e, n)
		if err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		setting := fmt.Sprintf("%s, %d producers", e.setting, e.producers())
		b.add(sample{Workload: "c", System: e.name, Setting: setting, Round: round, Entries: n, cost: c})
		return nil
	})
}

// enqueue measures how n entries are enqueued into an empty database, and counts them.
func (b *bench) enqueue(ctx context.Context, e *enqueuer, n int) (c cost, err error) {
	db, err := b.server.createDatabase(ctx)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, db.drop()) }()
	if err := e.prepare(ctx, db); err != nil {
		return c, err
	}
	if err := db.settle(ctx); err != nil {
		return c, err
	}
	t, err := openTarget(ctx, db, e)
	if err != nil {
		return c, err
	}
	defer t.close()
	call, err := e.open(t)
	if err != nil {
		return c, err
	}
	collectGarbage()
	m, err := startMeter(ctx, db, nil)
	if err != nil {
		return c, err
	}
	if err := produce(ctx, e, call, n); err != nil {
		return c, err
	}
	if err := m.stop(ctx); err != nil {
		return c, err
	}
	t.close()
	var there int
	err = db.with(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, query("enqueue", "count_"+e.count)).Scan(&there)
	})
	if err == nil && there != n {
		err = fmt.Errorf("the database counts %d entries of %d", there, n)
	}
	if err != nil {
		return c, err
	}
	return m.finish(ctx)
}

// produce enqueues n entries with all producers.
func produce(ctx context.Context, e *enqueuer, call enqueueCall, n int) error {
	group, ctx := errgroup.WithContext(ctx)
	var taken atomic.Int64
	for range e.producers() {
		group.Go(func() error {
			for {
				end := int(taken.Add(int64(e.batch)))
				first := end - e.batch + 1
				if first > n {
					return nil
				}
				if err := call(ctx, first, min(end, n)-first+1); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

func openFunction(t *target) (enqueueCall, error) {
	text := query("fencerow", "enqueue")
	return func(ctx context.Context, first, _ int) error {
		e := entry(first)
		_, err := t.pool.Exec(ctx, text, string(instance), string(e.CorrelationID), string(e.Payload),
			string(e.SlotID), e.CashDelta.String())
		return err
	}, nil
}

func openOutbox(t *target) (enqueueCall, error) {
	return func(ctx context.Context, first, _ int) error {
		return pgx.BeginFunc(ctx, t.pool, func(tx pgx.Tx) error {
			_, err := outbox.Enqueue(ctx, tx, instance, entry(first))
			return err
		})
	}, nil
}

func openMany(t *target) (enqueueCall, error) {
	store, err := openStore(t.dsn, batchProducers)
	if err != nil {
		return nil, err
	}
	t.atEnd = append(t.atEnd, store.Close)
	return func(ctx context.Context, first, n int) error {
		entries := make([]fencerow.NewEntry, n)
		for i := range entries {
			entries[i] = entry(first + i)
		}
		_, err := store.EnqueueMany(ctx, fencerow.EnqueueParams{Instance: instance, Entries: entries})
		return err
	}, nil
}

// plainRow has the columns of sql/enqueue.sql's plain table.
func plainRow(i int) []any {
	e := entry(i)
	return []any{
		string(instance), string(e.CorrelationID), e.EntryKind, string(e.SlotID), e.CashDelta.String(), e.Currency,
		string(e.Payload),
	}
}

func openInsert(t *target) (enqueueCall, error) {
	text := query("enqueue", "insert_plain")
	return func(ctx context.Context, first, _ int) error {
		_, err := t.pool.Exec(ctx, text, plainRow(first)...)
		return err
	}, nil
}

func openInsertTx(t *target) (enqueueCall, error) {
	text := query("enqueue", "insert_plain")
	return func(ctx context.Context, first, _ int) error {
		return pgx.BeginFunc(ctx, t.pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, text, plainRow(first)...)
			return err
		})
	}, nil
}

func openCopy(t *target) (enqueueCall, error) {
	table := pgx.Identifier{"plain_entry"}
	columns := []string{
		"instance_key", "correlation_id", "entry_kind", "slot_id", "cash_delta", "currency", "payload",
	}
	return func(ctx context.Context, first, n int) error {
		rows := pgx.CopyFromSlice(n, func(i int) ([]any, error) { return plainRow(first + i), nil })
		_, err := t.pool.CopyFrom(ctx, table, columns, rows)
		return err
	}, nil
}

func riverProducer(pool *pgxpool.Pool) (*river.Client[pgx.Tx], error) {
	return river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: quiet})
}

func openRiver(t *target) (enqueueCall, error) {
	client, err := riverProducer(t.pool)
	return func(ctx context.Context, first, _ int) error {
		_, err := client.Insert(ctx, riverEntry(first), nil)
		return err
	}, err
}

func openRiverTx(t *target) (enqueueCall, error) {
	client, err := riverProducer(t.pool)
	return func(ctx context.Context, first, _ int) error {
		return pgx.BeginFunc(ctx, t.pool, func(tx pgx.Tx) error {
			_, err := client.InsertTx(ctx, tx, riverEntry(first), nil)
			return err
		})
	}, err
}

func openRiverMany(t *target) (enqueueCall, error) {
	client, err := riverProducer(t.pool)
	return func(ctx context.Context, first, n int) error {
		_, err := client.InsertManyFast(ctx, riverBatch(first, n))
		return err
	}, err
}
