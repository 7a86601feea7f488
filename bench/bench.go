package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
)

// bench is a run.
type bench struct {
	options
	server  *server
	out     io.Writer
	results results
}

// run is this run of the benchmark among those of the results.
func (b *bench) run() *circumstances { return &b.results.Runs[0] }

// note says something that a reader of the figures must know.
func (b *bench) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	fmt.Fprintln(b.out, "note:", text)
	b.run().Notes = append(b.run().Notes, text)
}

// describe prints what the run runs on.
func (b *bench) describe(ctx context.Context) (err error) {
	r := b.run()
	if r.Server, err = b.server.version(ctx); err != nil {
		return err
	}
	if r.Settings, err = b.server.show(ctx); err != nil {
		return err
	}
	r.Machine = fmt.Sprintf("%d cores, %s, %s/%s, %s",
		runtime.NumCPU(), processor(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	fmt.Fprintln(b.out, r.Server)
	fmt.Fprintln(b.out, strings.Join(r.Settings, " "))
	fmt.Fprintln(b.out, r.Machine)
	if b.short {
		b.note("a short run, without fsync: its figures say nothing")
	}
	return nil
}

// processor names the processor as Linux does.
func processor() string {
	content, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	for line := range strings.Lines(string(content)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

// rounds measures each of several contestants once a round, or those of them that were asked for. The order
// turns with the rounds.
func (b *bench) rounds(key string, contestants []string, measure func(i, round int) error) error {
	chosen := contestants
	if b.only != "" {
		chosen = strings.Split(b.only, ",")
	}
	wanted := make([]int, len(chosen))
	for i, name := range chosen {
		if wanted[i] = slices.Index(contestants, name); wanted[i] < 0 {
			return fmt.Errorf("%q is none of %s", name, strings.Join(contestants, ", "))
		}
	}
	for round := range b.options.rounds {
		for i := range wanted {
			turn := wanted[(i+round)%len(wanted)]
			if err := measure(turn, round); err != nil {
				b.print(key) // what was measured so far is not lost
				return err
			}
		}
	}
	b.print(key)
	return nil
}

// add keeps a sample and prints it.
func (b *bench) add(s sample) {
	b.results.Samples = append(b.results.Samples, s)
	fmt.Fprintf(b.out, "  round %d  %-44s %11.0f/s\n", s.Round+1, s.System, s.rate())
	if err := b.server.profiler.keep(&s); err != nil {
		b.note("no profile of it: %s", err)
	}
}

// collectGarbage lets each measurement begin with a small heap: the one before leaves none of its work.
func collectGarbage() { runtime.GC() }

// finish writes what was asked for. What was found in a workload that failed is left out; if there is nothing
// else, no file is touched.
func (b *bench) finish() error {
	if len(b.run().Workloads) == 0 {
		return nil
	}
	b.results.only(func(workload string) bool { return slices.Contains(b.run().Workloads, workload) })
	if b.keep {
		if err := b.results.keep(b.jsonFile); err != nil {
			return err
		}
	}
	b.results.derive()
	b.printRatios()
	if b.benchstatFile != "" {
		if err := os.WriteFile(b.benchstatFile, b.results.benchstat(), 0o644); err != nil {
			return err
		}
	}
	if b.chartFile != "" && len(b.results.contestants("a")) > 0 {
		if err := writeChart(b.chartFile, &b.results); err != nil {
			return err
		}
	}
	if b.jsonFile != "" {
		return b.results.write(b.jsonFile)
	}
	return nil
}
