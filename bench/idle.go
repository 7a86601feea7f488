package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// runIdle is workload h: daemons with nothing to do, and the polls of a day in a row.
func runIdle(ctx context.Context, b *bench) error {
	counts := []int{1, 100}
	if b.short {
		counts = []int{1, 10}
	}
	for _, count := range counts {
		if err := b.idleDaemons(ctx, count); err != nil {
			return fmt.Errorf("%d daemons: %w", count, err)
		}
	}
	return b.idleDay(ctx)
}

// idleReading is what the idle daemons have used so far.
type idleReading struct {
	polls, roundTrips, statements, records int64
	active                                 float64 // ms that the server spent in statements
	client, server                         time.Duration
}

// idlePolls is how many polls of each daemon are looked at, at least.
const idlePolls = 10

// idleDaemons lets daemons of as many instances poll at their usual interval.
func (b *bench) idleDaemons(ctx context.Context, count int) (err error) {
	db, err := b.server.createDatabase(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.drop()) }()
	var records lineCounter
	watched := &pollCounter{}
	q := &instancesQueue{fencerowQueue: *asComes(), count: count}
	q.log = &records
	q.interval = min(time.Second, b.hold/idlePolls)
	q.wrap = func(c fencerow.Claimer) fencerow.Claimer { return countedClaimer{c, watched} }
	if err := q.prepare(ctx, db); err != nil {
		return err
	}
	u, err := url.Parse(db.dsn)
	if err != nil {
		return err
	}
	between, err := startProxy(ctx, u.Host)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, between.close()) }()
	u.Host = between.address()
	q.dsn = u.String()
	all, err := q.openDaemons(ctx, db)
	if err != nil {
		return err
	}
	read := func() (r idleReading, err error) {
		r.polls, r.records = watched.polls.Load(), records.lines.Load()
		r.roundTrips, r.statements = between.roundTrips.Load(), between.statements.Load()
		if r.client, err = ownCPU(); err != nil {
			return r, err
		}
		if r.server, err = serverCPU(b.server.postmaster); err != nil {
			return r, err
		}
		return r, b.server.admin.QueryRow(ctx, query("idle", "active_time"), db.name).Scan(&r.active)
	}
	var before, after idleReading
	err = all.begin(ctx)
	// What is prepared at start, and what the server has not yet told of it, is not an idle poll's.
	const settling = 5
	if err == nil && !pause(ctx, settling*q.interval) {
		err = ctx.Err()
	}
	if err == nil {
		before, err = read()
	}
	if err == nil && !pause(ctx, b.hold) {
		err = ctx.Err()
	}
	if err == nil {
		after, err = read()
	}
	if err = errors.Join(err, all.stop(ctx)); err != nil {
		return err
	}
	polls := after.polls - before.polls
	if polls == 0 {
		return errors.New("no daemon polled")
	}
	each := func(total float64) float64 { return total / float64(polls) }
	name := fmt.Sprintf("h_%d_", count)
	b.figure(name+"polls", float64(polls), "polls")
	b.figure(name+"round_trips", each(float64(after.roundTrips-before.roundTrips)), "a poll")
	b.figure(name+"statements", each(float64(after.statements-before.statements)), "a poll")
	b.figure(name+"server_statement_time", each(after.active-before.active), "ms a poll")
	b.figure(name+"server_cpu", each(float64((after.server-before.server).Microseconds())/1000), "ms a poll")
	b.figure(name+"client_cpu", each(float64((after.client-before.client).Microseconds())/1000), "ms a poll")
	b.figure(name+"log_records", float64(after.records-before.records), "records")
	return nil
}

// dayOfPolls is how often a daemon polls in a day at an interval of a second.
const dayOfPolls = 86_400

// idleDay polls without a pause as often as a daemon does in a day.
func (b *bench) idleDay(ctx context.Context) (err error) {
	db, err := b.server.createDatabase(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.drop()) }()
	q := asComes()
	if err := q.prepare(ctx, db); err != nil {
		return err
	}
	d, err := q.openDaemon(db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop(ctx)) }()
	const warmUp = 1000
	polls := dayOfPolls
	if b.short {
		polls = warmUp
	}
	if err := pollIdle(ctx, d, warmUp); err != nil {
		return err
	}
	before := heapInUse()
	start := time.Now()
	if err := pollIdle(ctx, d, polls); err != nil {
		return err
	}
	b.figure("h_day_polls", float64(polls), "polls")
	b.figure("h_day_poll_time", float64(time.Since(start).Microseconds())/1000/float64(polls), "ms a poll")
	b.figure("h_day_heap_growth", float64(heapInUse()-before)/1024, "KiB")
	return nil
}

func pollIdle(ctx context.Context, d *fencerowDaemon, polls int) error {
	for range polls {
		res, err := d.writers[0].Poll(ctx)
		if err == nil && !res.Empty() {
			err = fmt.Errorf("a poll was not an empty one: %+v", res)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// heapInUse returns the bytes that are reachable.
func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // what finalizers and pools kept through the first
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// lineCounter counts the records of a log.
type lineCounter struct{ lines atomic.Int64 }

// Write implements io.Writer.
func (c *lineCounter) Write(p []byte) (int, error) {
	c.lines.Add(int64(bytes.Count(p, []byte{'\n'})))
	return len(p), nil
}

type pollCounter struct{ polls atomic.Int64 }

// countedClaimer counts polls.
type countedClaimer struct {
	fencerow.Claimer
	counter *pollCounter
}

// ClaimBatch implements [fencerow.Claimer].
func (c countedClaimer) ClaimBatch(
	ctx context.Context, p fencerow.ClaimBatchParams,
) (*fencerow.Claim, error) {
	c.counter.polls.Add(1)
	return c.Claimer.ClaimBatch(ctx, p)
}
