package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// maxBacklog is how many entries may wait while a rate is held: producers pause above it, so that what is
// enqueued is worked off as fast as it comes.
const maxBacklog = 10_000

// runSustained is workload d. Producers enqueue as fast as the consumer lets them, with the backlog bounded:
// the rate of that is the highest that can be held.
func runSustained(ctx context.Context, b *bench) error {
	type contestant struct {
		name, enqueuer string
		queue          queue
		setting        string
	}
	ours := atBest()
	ours.interval = 10 * time.Millisecond
	theirs, err := parseSystem(riverKind.name)
	if err != nil {
		return err
	}
	contestants := []contestant{
		{"fencerow", "fencerow many", ours, ours.setting()},
		{"river", "river many", theirs.queue, theirs.setting},
	}
	list := []string{contestants[0].name, contestants[1].name}
	return b.rounds("d", list, func(i, round int) error {
		c := contestants[i]
		s := sample{Workload: "d", System: c.name, Round: round}
		s.Setting = fmt.Sprintf("%s; %d producers of %d at once", c.setting, batchProducers, batchSize)
		for _, e := range enqueuers() {
			if e.name == c.enqueuer {
				if err := b.sustain(ctx, c.queue, &e, &s); err != nil {
					return fmt.Errorf("%s: %w", c.name, err)
				}
			}
		}
		b.add(s)
		return nil
	})
}

// sustain enqueues and drains together for as long as a rate must be held, and counts both in the database.
func (b *bench) sustain(ctx context.Context, q queue, e *enqueuer, s *sample) (err error) {
	db, err := b.server.createDatabase(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.drop()) }()
	if err := q.prepare(ctx, db); err != nil {
		return err
	}
	if err := db.settle(ctx); err != nil {
		return err
	}
	t, err := openTarget(ctx, db, e)
	if err != nil {
		return err
	}
	defer t.close()
	call, err := e.open(t)
	if err != nil {
		return err
	}
	client, err := q.open(ctx, db, 0)
	if err != nil {
		return err
	}
	conn, err := connectToLook(ctx, db)
	if err != nil {
		return errors.Join(err, client.stop(ctx))
	}
	defer func() { _ = conn.Close(context.Background()) }() // nothing depends on it
	collectGarbage()
	m, err := startMeter(ctx, db, client.cpu)
	if err == nil {
		err = client.begin(ctx)
	}
	var enqueued int64
	if err == nil {
		enqueued, err = produceWithin(ctx, e, call, client, b.hold)
	}
	if err == nil {
		err = awaitDelivered(ctx, client, int(enqueued))
	}
	if err == nil {
		err = awaitRecorded(ctx, conn, q)
	}
	if err == nil {
		err = m.stop(ctx)
	}
	if err = errors.Join(err, client.stop(ctx)); err != nil {
		return err
	}
	left, finished, err := tally(ctx, db, q)
	if err != nil {
		return err
	}
	if left != 0 || finished != enqueued {
		return fmt.Errorf("the database counts %d left and %d finished of %d", left, finished, enqueued)
	}
	s.Entries = int(enqueued)
	s.cost, err = m.finish(ctx)
	return err
}

// produceWithin enqueues for a time and returns how many entries.
func produceWithin(
	ctx context.Context, e *enqueuer, call enqueueCall, client consumer, within time.Duration,
) (int64, error) {
	end := time.Now().Add(within)
	group, ctx := errgroup.WithContext(ctx)
	var taken, enqueued atomic.Int64
	for range e.producers() {
		group.Go(func() error {
			pause := time.NewTicker(lookPause)
			defer pause.Stop()
			for time.Now().Before(end) {
				if enqueued.Load()-client.delivered() >= maxBacklog {
					select {
					case <-pause.C:
						continue
					case <-ctx.Done():
						return ctx.Err()
					}
				}
				first := int(taken.Add(int64(e.batch))) - e.batch + 1
				if err := call(ctx, first, e.batch); err != nil {
					return err
				}
				enqueued.Add(int64(e.batch))
			}
			return nil
		})
	}
	err := group.Wait()
	return enqueued.Load(), err
}
