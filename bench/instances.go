package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// runInstances is workload j: the same number of entries, shared by ever more instances with a daemon each.
func runInstances(ctx context.Context, b *bench) error {
	counts := []int{1, 10, 100}
	if b.short {
		counts = counts[:2]
	}
	list := make([]string, len(counts))
	for i, n := range counts {
		list[i] = fmt.Sprintf("%d instances", n)
	}
	list[0] = "1 instance"
	return b.rounds("j", list, func(i, round int) error {
		q := &instancesQueue{fencerowQueue: *atLargeBatches(), count: counts[i]}
		q.conns = q.maxConns()
		n := b.n / counts[i] * counts[i]
		c, err := b.drain(ctx, q, n)
		if err != nil {
			return fmt.Errorf("%s: %w", list[i], err)
		}
		s := sample{Workload: "j", System: list[i], Round: round, Entries: n, cost: c}
		s.Setting = "as many daemons in this process: " + q.setting()
		b.add(s)
		return nil
	})
}

// instancesQueue is fencerow with several instances on one database.
type instancesQueue struct {
	fencerowQueue
	count int
}

// maxConns shares the server's connections among the daemons; one alone has its default.
func (q *instancesQueue) maxConns() int {
	const all, most, least = 200, 8, 2
	return min(max(all/q.count, least), most)
}

func (q *instancesQueue) keys() []string {
	keys := make([]string, q.count)
	for i := range keys {
		keys[i] = fmt.Sprintf("bench-%d", i+1)
	}
	return keys
}

func (q *instancesQueue) queries() (string, []any) { return "fencerow", []any{q.keys()} }

// one returns the queue of one of the instances.
func (q *instancesQueue) one(key string) *fencerowQueue {
	one := q.fencerowQueue
	one.instance = fencerow.InstanceKey(key)
	return &one
}

func (q *instancesQueue) fill(ctx context.Context, db *database, first, n int) error {
	for _, key := range q.keys() {
		if err := q.one(key).fill(ctx, db, first, n/q.count); err != nil {
			return err
		}
	}
	return nil
}

func (q *instancesQueue) open(ctx context.Context, db *database, _ int) (consumer, error) {
	return q.openDaemons(ctx, db)
}

func (q *instancesQueue) openDaemons(ctx context.Context, db *database) (daemons, error) {
	var all daemons
	for _, key := range q.keys() {
		d, err := q.one(key).openDaemon(db)
		if err != nil {
			return nil, errors.Join(err, all.stop(ctx))
		}
		all = append(all, d)
	}
	return all, nil
}

// daemons are several of them in this process.
type daemons []*fencerowDaemon

func (d daemons) begin(ctx context.Context) error {
	for _, one := range d {
		if err := one.begin(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (d daemons) delivered() (n int64) {
	for _, one := range d {
		n += one.delivered()
	}
	return n
}

func (d daemons) cpu() (time.Duration, error) { return ownCPU() }

func (d daemons) stop(ctx context.Context) (err error) {
	for _, one := range d {
		if one.cancel != nil {
			one.cancel() // all at once; stop waits for each
		}
	}
	for _, one := range d {
		err = errors.Join(err, one.stop(ctx))
	}
	return err
}
