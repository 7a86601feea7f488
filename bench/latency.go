package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/outbox"
)

// latencyRate is how many entries a second are enqueued in workload e.
const latencyRate = 50

// runLatency is workload e: the time from the commit of an enqueue until the outcome's commit is known.
func runLatency(ctx context.Context, b *bench) error {
	for _, interval := range []time.Duration{time.Second, 10 * time.Millisecond} {
		times, err := b.latency(ctx, interval)
		if err != nil {
			return fmt.Errorf("interval %s: %w", interval, err)
		}
		for _, p := range []float64{50, 99, 100} {
			b.figure(fmt.Sprintf("e_p%.0f_at_%s", p, interval), percentile(times, p), "ms")
		}
		over := percentile(times, 99) - float64(interval)/float64(time.Millisecond)
		b.figure(fmt.Sprintf("e_p99_over_interval_at_%s", interval), over, "ms")
	}
	return nil
}

// latency returns the times of one daemon in milliseconds.
func (b *bench) latency(ctx context.Context, interval time.Duration) (times []float64, err error) {
	db, err := b.server.createDatabase(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.drop()) }()
	q := asComes()
	q.interval = interval
	var watched *watchedClaimer
	watched, q.wrap = watch()
	if err := q.prepare(ctx, db); err != nil {
		return nil, err
	}
	client, err := q.open(ctx, db, 0)
	if err != nil {
		return nil, err
	}
	committed := map[fencerow.OutboxID]time.Time{}
	err = client.begin(ctx)
	if err == nil {
		err = db.with(ctx, func(conn *pgx.Conn) error {
			return enqueueAtRate(ctx, conn, latencyRate, b.hold, committed)
		})
	}
	if err == nil {
		err = awaitDelivered(ctx, client, len(committed))
	}
	if err == nil {
		err = db.with(ctx, func(conn *pgx.Conn) error { return awaitRecorded(ctx, conn, q) })
	}
	if err = errors.Join(err, client.stop(ctx)); err != nil {
		return nil, err
	}
	for id, at := range committed {
		recorded, ok := watched.recordedAt(id)
		if !ok {
			return nil, fmt.Errorf("entry %d was not recorded", id)
		}
		times = append(times, float64(recorded.Sub(at))/float64(time.Millisecond))
	}
	left, finished, err := tally(ctx, db, q)
	if err == nil && (left != 0 || finished != int64(len(committed))) {
		err = fmt.Errorf("the database counts %d left and %d finished of %d", left, finished, len(committed))
	}
	return times, err
}

// enqueueAtRate enqueues entries for a time, and notes when each was committed. In each period of the rate
// there is one, at any time within it: each at its begin they would come in step with the polls.
func enqueueAtRate(
	ctx context.Context, conn *pgx.Conn, rate int, within time.Duration,
	committed map[fencerow.OutboxID]time.Time,
) error {
	period, began := time.Second/time.Duration(rate), time.Now()
	for i := range int(within / period) {
		due := began.Add(time.Duration(i)*period + rand.N(period)) //nolint:gosec // it hides nothing
		select {
		case <-time.After(time.Until(due)):
		case <-ctx.Done():
			return ctx.Err()
		}
		var enqueued fencerow.Enqueued
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) (err error) {
			enqueued, err = outbox.Enqueue(ctx, tx, instance, entry(i+1))
			return err
		})
		if err != nil {
			return err
		}
		committed[enqueued.OutboxID] = time.Now()
	}
	return nil
}
