package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// slowSystems drain a part of the entries only, which does not make them look slower.
var slowSystems = []string{"river/default=true", "graphile/default=true", "gue"}

const slowShare = 10

func entriesFor(spec string, n int) int {
	name, _, _ := strings.Cut(spec, "/")
	if slices.Contains(slowSystems, spec) || slices.Contains(slowSystems, name) {
		return max(n/slowShare, 1)
	}
	return n
}

// runDrain is workload a.
func runDrain(ctx context.Context, b *bench) error {
	systems, err := b.systems(ctx)
	if err != nil {
		return err
	}
	return b.rounds("a", names(systems), func(i, round int) error {
		s := systems[i]
		n := entriesFor(s.spec, b.n)
		c, err := b.drain(ctx, s.queue, n)
		if err != nil {
			return fmt.Errorf("%s: %w", s.spec, err)
		}
		b.add(sample{Workload: "a", System: s.spec, Setting: s.setting, Round: round, Entries: n, cost: c})
		return nil
	})
}

// systems are those of the command line, without those that cannot run here.
func (b *bench) systems(ctx context.Context) ([]*system, error) {
	specs := defaultSystems
	if b.options.systems != "" {
		specs = strings.Split(b.options.systems, ",")
	}
	return b.runnable(ctx, specs)
}

// runnable returns the systems that can run here, and notes which cannot.
func (b *bench) runnable(ctx context.Context, specs []string) ([]*system, error) {
	var systems []*system
	for _, spec := range specs {
		s, err := parseSystem(spec)
		if err != nil {
			return nil, err
		}
		if c, ok := s.queue.(checked); ok {
			detail, err := c.check(ctx, b.server)
			if err != nil {
				b.note("%s is not measured: %s", s.spec, err)
				continue
			}
			if !strings.HasPrefix(s.setting, detail) {
				s.setting = detail + ", " + s.setting
			}
		}
		systems = append(systems, s)
	}
	return systems, nil
}

func names(systems []*system) []string {
	specs := make([]string, len(systems))
	for i, s := range systems {
		specs[i] = s.spec
	}
	return specs
}

// drain fills a fresh database with n entries and measures how they are worked off.
func (b *bench) drain(ctx context.Context, q queue, n int) (c cost, err error) {
	db, err := b.server.createDatabase(ctx)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, db.drop()) }()
	if err := q.prepare(ctx, db); err != nil {
		return c, fmt.Errorf("prepare: %w", err)
	}
	if err := q.fill(ctx, db, 1, n); err != nil {
		return c, fmt.Errorf("fill: %w", err)
	}
	return b.drainFilled(ctx, db, q, n)
}

// drainFilled measures how the n entries that wait in db are worked off, and counts them.
func (b *bench) drainFilled(ctx context.Context, db *database, q queue, n int) (c cost, err error) {
	left, before, err := tally(ctx, db, q)
	if err != nil {
		return c, err
	}
	if left != int64(n) {
		return c, fmt.Errorf("%d entries wait, not %d", left, n)
	}
	if err := db.settle(ctx); err != nil {
		return c, err
	}
	client, err := q.open(ctx, db, n)
	if err != nil {
		return c, fmt.Errorf("open: %w", err)
	}
	if c, err = measureDrain(ctx, db, q, client, n); err != nil {
		return c, err
	}
	left, after, err := tally(ctx, db, q)
	switch {
	case err != nil:
		return c, err
	case left != 0 || after >= 0 && after-max(before, 0) != int64(n):
		return c, fmt.Errorf("the database counts %d entries left and %d finished of %d", left, after, n)
	}
	return c, nil
}

func measureDrain(ctx context.Context, db *database, q queue, client consumer, n int) (c cost, err error) {
	conn, err := connectToLook(ctx, db) // before the clock starts: looks are not to pay for connecting
	if err != nil {
		return c, errors.Join(err, client.stop(ctx))
	}
	defer func() { _ = conn.Close(context.Background()) }() // nothing depends on it
	collectGarbage()
	m, err := startMeter(ctx, db, client.cpu)
	if err == nil {
		err = client.begin(ctx)
	}
	if err == nil {
		err = awaitDelivered(ctx, client, n)
	}
	if err == nil {
		err = awaitRecorded(ctx, conn, q)
	}
	if err == nil {
		err = m.stop(ctx)
	}
	delivered := client.delivered()
	if err := errors.Join(err, client.stop(ctx)); err != nil {
		return c, err
	}
	if delivered != int64(n) {
		return c, fmt.Errorf("%d deliveries of %d entries", delivered, n)
	}
	return m.finish(ctx)
}
