package main

import (
	"context"
	"fmt"
)

// To find the best setting, fewer entries are drained, several times.
const (
	tuneShare  = 2
	tuneRounds = 3
)

// findBest drains with each setting that comes into question, in turns, and keeps the fastest of each kind.
func (b *bench) findBest(ctx context.Context) error {
	fmt.Fprintln(b.out, "\nwhich setting of each system is the fastest")
	for _, k := range kinds {
		specs := []string{k.name}
		for _, t := range k.tries {
			specs = append(specs, k.name+"/"+t)
		}
		systems, err := b.runnable(ctx, specs)
		if err != nil {
			return err
		}
		rates := make([][]float64, len(systems))
		for round := range min(b.options.rounds, tuneRounds) {
			for i, s := range systems {
				n := entriesFor(s.spec, max(b.n/tuneShare, 1))
				c, err := b.drain(ctx, s.queue, n)
				if err != nil {
					return fmt.Errorf("%s: %w", s.spec, err)
				}
				tried := sample{
					Workload: tuning, System: s.spec, Setting: s.setting, Round: round, Entries: n, cost: c,
				}
				b.add(tried)
				rates[i] = append(rates[i], tried.rate())
			}
		}
		fastest := 0.0
		for i, s := range systems {
			if rate := median(rates[i]); rate > fastest {
				fastest, b.best[k.name] = rate, s
			}
		}
		if best := b.best[k.name]; best != nil {
			b.note("the fastest of %s in the search: %s", k.name, best.spec)
		}
	}
	b.run().Workloads = append(b.run().Workloads, tuning)
	return nil
}

// system returns a system by its spec; a name alone stands for the best that is known of its kind.
func (b *bench) system(spec string) (*system, error) {
	s, err := parseSystem(spec)
	if err != nil {
		return nil, err
	}
	if best := b.best[spec]; best != nil {
		s.queue, s.setting = best.queue, best.setting
	}
	return s, nil
}

// fencerowAtBest returns fencerow with the best setting that is known. The caller may change it.
func (b *bench) fencerowAtBest() *fencerowQueue {
	if best := b.best[fencerowKind.name]; best != nil {
		if q, ok := best.queue.(*fencerowQueue); ok {
			found := *q
			return &found
		}
	}
	return atBest()
}

// riverAtBest returns River with the best setting that is known.
func (b *bench) riverAtBest() (*system, error) { return b.system(riverKind.name) }
