package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// grownState is what stands beside the entries that are drained.
type grownState struct {
	name string
	// finished are own finished entries, foreign ones of another instance that are due, waiting own ones whose
	// time has not come.
	finished, foreign, waiting int
}

func grownStates(short bool) []grownState {
	const million = 1_000_000
	states := []grownState{
		{"empty", 0, 0, 0},
		{"2M finished", 2 * million, million, million},
		{"grown", 10 * million, million, million},
	}
	if short {
		const shrink = 1000
		for i := range states {
			states[i].finished /= shrink
			states[i].foreign /= shrink
			states[i].waiting /= shrink
		}
	}
	return states
}

// runGrowth is workload f. Each state is built once; what a round finishes stays.
func runGrowth(ctx context.Context, b *bench) (err error) {
	states := grownStates(b.short)
	databases := make([]*database, len(states))
	defer func() {
		for _, db := range databases {
			if db != nil {
				err = errors.Join(err, db.drop())
			}
		}
	}()
	list := make([]string, len(states))
	q := atBest()
	for i, state := range states {
		list[i] = state.name
		if databases[i], err = b.grow(ctx, q, &state); err != nil {
			return fmt.Errorf("%s: %w", state.name, err)
		}
	}
	return b.rounds("f", list, func(i, round int) error {
		state := states[i]
		if state.finished == 0 { // what a round finishes would not leave it empty
			if err := databases[i].drop(); err != nil {
				return err
			}
			if databases[i], err = b.grow(ctx, q, &state); err != nil {
				return err
			}
		}
		if err := q.fill(ctx, databases[i], round*b.n+1, b.n); err != nil {
			return err
		}
		c, err := b.drainFilled(ctx, databases[i], q, b.n)
		if err != nil {
			return fmt.Errorf("%s: %w", state.name, err)
		}
		setting := fmt.Sprintf("%d finished, %d foreign, %d waiting rows beside", state.finished, state.foreign,
			state.waiting)
		b.add(sample{Workload: "f", System: state.name, Setting: setting, Round: round, Entries: b.n, cost: c})
		return nil
	})
}

// growSessions is how many sessions fill at once, and growStep how many rows a statement writes.
const (
	growSessions = 2
	growStep     = 250_000
)

// grow makes a database of a state. Rows are written into the tables as enqueueing and recording would have.
func (b *bench) grow(ctx context.Context, q *fencerowQueue, state *grownState) (*database, error) {
	db, err := b.server.createDatabase(ctx)
	if err != nil {
		return nil, err
	}
	if err := q.prepare(ctx, db); err != nil {
		return db, err
	}
	group, steps := errgroup.WithContext(ctx)
	group.SetLimit(growSessions)
	parts := []struct {
		name string
		rows int
	}{{"finished", state.finished}, {"foreign", state.foreign}, {"waiting", state.waiting}}
	for _, part := range parts {
		err := inBatches(1, part.rows, growStep, func(first, n int) error {
			group.Go(func() error {
				return db.with(steps, func(conn *pgx.Conn) error {
					_, err := conn.Exec(steps, query("growth", part.name), first, n)
					return err
				})
			})
			return nil
		})
		if err != nil {
			return db, err
		}
	}
	if err := group.Wait(); err != nil {
		return db, err
	}
	return db, db.settle(ctx)
}
