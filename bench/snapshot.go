package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// runSnapshot is workload g: drains while another session holds a snapshot, and then a steady load beside
// long readers.
func runSnapshot(ctx context.Context, b *bench) error {
	theirs, err := parseSystem(riverKind.name)
	if err != nil {
		return err
	}
	contestants := []struct {
		name  string
		queue queue
		held  bool
	}{
		{"free", atBest(), false},
		{"held", atBest(), true},
		{"river free", theirs.queue, false},
		{"river held", theirs.queue, true},
	}
	list := make([]string, len(contestants))
	for i, c := range contestants {
		list[i] = c.name
	}
	err = b.rounds("g", list, func(i, round int) error {
		c := contestants[i]
		used, err := b.drainBeside(ctx, c.queue, c.held)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		b.add(sample{Workload: "g", System: c.name, Round: round, Entries: b.n, cost: used})
		return nil
	})
	if err != nil {
		return err
	}
	return b.readers(ctx)
}

// drainBeside is drain with, if held, a session that holds a snapshot from before the fill to the end.
func (b *bench) drainBeside(ctx context.Context, q queue, held bool) (c cost, err error) {
	db, err := b.server.createDatabase(ctx)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, db.drop()) }()
	if err := q.prepare(ctx, db); err != nil {
		return c, err
	}
	if held {
		release, err := holdSnapshot(ctx, db)
		if err != nil {
			return c, err
		}
		defer func() { err = errors.Join(err, release()) }()
	}
	if err := q.fill(ctx, db, 1, b.n); err != nil {
		return c, err
	}
	return b.drainFilled(ctx, db, q, b.n)
}

// holdSnapshot opens a transaction whose snapshot keeps the server from cleaning up after it.
func holdSnapshot(ctx context.Context, db *database) (release func() error, err error) {
	conn, err := pgx.Connect(ctx, db.dsn)
	if err != nil {
		return nil, err
	}
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err == nil {
		_, err = tx.Exec(ctx, query("snapshot", "take"))
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return func() error {
		return errors.Join(tx.Rollback(context.Background()), conn.Close(context.Background()))
	}, nil
}

const (
	// readerRate is how many entries a second are enqueued beside the readers, by readerProducers.
	readerRate      = 800
	readerProducers = 8
	// readerWindows is into how many parts the time of one reader is cut to show how claims change.
	readerWindows = 6
	// overlappingReaders is how many readers there are. Each begins when that part of the one before is over.
	overlappingReaders = 3
	// claimsAWindow is how often a daemon polls in a window at least.
	claimsAWindow = 4
)

// readers runs a steady load, after a window alone beside three readers, each as long as two holds. They
// begin a third of that after each other and are followed by others like them: at no time from then on is
// the server free to clean up.
func (b *bench) readers(ctx context.Context) (err error) {
	db, err := b.server.createDatabase(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.drop()) }()
	q := asComes()
	long := 2 * b.hold
	q.interval = min(time.Second, long/readerWindows/claimsAWindow)
	watched, wrap := watch()
	q.wrap = wrap
	if err := q.prepare(ctx, db); err != nil {
		return err
	}
	client, err := q.open(ctx, db, 0)
	if err != nil {
		return err
	}
	began := time.Now()
	load := loadBesideReaders{db: db, client: client, watched: watched, long: long}
	err = client.begin(ctx)
	if err == nil {
		err = load.run(ctx)
	}
	if err == nil {
		err = awaitDelivered(ctx, client, load.enqueued)
	}
	if err == nil {
		err = db.with(ctx, func(conn *pgx.Conn) error { return awaitRecorded(ctx, conn, q) })
	}
	if err = errors.Join(err, client.stop(ctx)); err != nil {
		return err
	}
	left, finished, err := tally(ctx, db, q)
	if err != nil {
		return err
	}
	if left != 0 || finished != int64(load.enqueued) {
		return fmt.Errorf("the database counts %d left and %d finished of %d", left, finished, load.enqueued)
	}
	b.reportReaders(&load, began)
	return nil
}

// reportReaders shows the claims and the backlog in windows.
func (b *bench) reportReaders(load *loadBesideReaders, began time.Time) {
	window := load.long / readerWindows
	byWindow := map[int][]float64{}
	for _, c := range load.watched.claimed() {
		w := int(c.at.Sub(began) / window)
		byWindow[w] = append(byWindow[w], float64(c.took)/float64(time.Millisecond))
	}
	for w := range load.backlog {
		until := (time.Duration(w+1) * window).Round(time.Millisecond)
		b.figure(fmt.Sprintf("g_claim_until_%s", until), median(byWindow[w]), "ms")
		b.figure(fmt.Sprintf("g_backlog_at_%s", until), float64(load.backlog[w]), "entries")
	}
	// Of the reader over which it rose most.
	rise := math.Inf(-1)
	for reader := range overlappingReaders {
		first := 1 + reader*readerWindows/overlappingReaders
		rise = max(rise, median(byWindow[first+readerWindows-1])-median(byWindow[first]))
	}
	b.figure("g_claim_rise_over_reader", rise, "ms")
}

// loadBesideReaders is one run of the load.
type loadBesideReaders struct {
	db       *database
	client   consumer
	watched  *watchedClaimer
	long     time.Duration
	enqueued int
	backlog  []int64 // at the end of each window
}

// run enqueues at the rate until the last of the first three readers ends. The first window is without them.
func (l *loadBesideReaders) run(ctx context.Context) error {
	stagger := l.long / overlappingReaders
	window := l.long / readerWindows
	total := window + l.long + (overlappingReaders-1)*stagger
	work, stop := context.WithTimeout(ctx, total)
	defer stop()
	group, work := errgroup.WithContext(work)
	for i := range overlappingReaders {
		group.Go(func() error { return l.read(work, window+time.Duration(i)*stagger) })
	}
	var mu sync.Mutex
	counts := make([]int, readerProducers)
	for i := range readerProducers {
		group.Go(func() error {
			return l.db.with(ctx, func(conn *pgx.Conn) error {
				return l.produce(work, conn, i, func() { mu.Lock(); defer mu.Unlock(); counts[i]++ })
			})
		})
	}
	group.Go(func() error {
		return each(work, window, func() error {
			mu.Lock()
			defer mu.Unlock()
			enqueued := int64(0)
			for _, n := range counts {
				enqueued += int64(n)
			}
			l.backlog = append(l.backlog, enqueued-l.client.delivered())
			return nil
		})
	})
	err := group.Wait()
	for _, n := range counts {
		l.enqueued += n
	}
	return err
}

// read holds one snapshot after the other, the first after a delay.
func (l *loadBesideReaders) read(ctx context.Context, delay time.Duration) error {
	if !pause(ctx, delay) {
		return nil
	}
	for {
		release, err := holdSnapshot(context.WithoutCancel(ctx), l.db)
		if err != nil {
			return err
		}
		more := pause(ctx, l.long)
		if err := release(); err != nil || !more {
			return err
		}
	}
}

// produce enqueues one entry at each tick.
func (l *loadBesideReaders) produce(ctx context.Context, conn *pgx.Conn, producer int, done func()) error {
	text, i := query("fencerow", "enqueue"), producer
	return each(ctx, time.Second*readerProducers/readerRate, func() error {
		i += readerProducers
		e := entry(i)
		_, err := conn.Exec(context.WithoutCancel(ctx), text, string(instance), string(e.CorrelationID),
			string(e.Payload), string(e.SlotID), e.CashDelta.String())
		if err == nil {
			done()
		}
		return err
	})
}

// pause waits for a time; it reports false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// each calls fn at each tick until ctx ends.
func each(ctx context.Context, interval time.Duration, fn func() error) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := fn(); err != nil {
			return err
		}
	}
}
