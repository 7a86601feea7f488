package main

import (
	"context"
	"fmt"
)

// To compare settings, fewer entries are drained, several times.
const (
	tuneShare  = 2
	tuneRounds = 3
)

// compareSettings drains with each setting that comes into question, in turns, and says which was the fastest
// of each of the kinds. What a system's best setting is stands in its kind: settings often differ by less
// than the machine's rates do from one minute to the next, and all workloads should use the same.
func (b *bench) compareSettings(ctx context.Context, kinds []kind) error {
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
			for turn := range systems {
				i := (turn + round) % len(systems)
				s := systems[i]
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
		fastest, best := 0.0, ""
		for i, s := range systems {
			if rate := median(rates[i]); rate > fastest {
				fastest, best = rate, s.spec
			}
		}
		if best != "" {
			b.note("the fastest of %s in this search: %s", k.name, best)
		}
	}
	b.run().Workloads = append(b.run().Workloads, tuning)
	return nil
}
