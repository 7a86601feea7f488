package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fourblocks2020/fencerow/internal/config"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	config.CollectLessOften() // as fencerowd does; every system that runs in this process has it
	var err error
	if os.Getenv(stubVariable) != "" {
		err = serveStub(ctx)
	} else {
		err = run(ctx, os.Args[1:], os.Stdout)
	}
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// workload is one kind of measurement.
type workload struct {
	key, title string
	run        func(ctx context.Context, b *bench) error
}

var workloads = []workload{
	{"a", "drain what is enqueued, delivery does nothing", runDrain},
	{"b", "drain through the HTTP adapter to the stub ledger", runHTTP},
	{"c", "enqueue one at a time and many at once", runEnqueue},
	{"d", "enqueue and drain together at the highest rate that holds", runSustained},
	{"e", "latency from commit to recorded outcome", runLatency},
	{"f", "growth: finished, foreign and waiting rows beside", runGrowth},
	{"g", "another session holds a snapshot", runSnapshot},
	{"h", "idle daemons", runIdle},
	{"i", "views of many pending rows", runViews},
	{"j", "many instances share the work", runInstances},
}

// options are what a run was asked for.
type options struct {
	run, systems  string
	only          string
	n, rounds     int
	hold          time.Duration
	short, tune   bool
	keep          bool
	jsonFile      string
	chartFile     string
	benchstatFile string
	profiles      string
	settings      settingsFlag
}

func parse(args []string, w io.Writer) (options, error) {
	o := options{settings: serverSettings()}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(w)
	f.StringVar(&o.run, "run", "all", "workloads, separated by commas: "+listWorkloads())
	f.StringVar(&o.systems, "systems", "", "systems of workload a, by commas, instead of all: "+
		strings.Join(systemNames(), ", ")+"; each may have settings, such as river/workers=500/cooldown=1ms")
	f.StringVar(&o.only, "only", "",
		"contestants of the one workload (b, c, d, f, g or j), by commas and as a run names them, instead of all")
	f.IntVar(&o.n, "n", 200_000, "entries of a drain")
	f.IntVar(&o.rounds, "rounds", 3, "rounds of each measurement")
	f.DurationVar(&o.hold, "hold", time.Minute,
		"how long a rate must be held in workload d; the readers of g take twice that")
	f.BoolVar(&o.short, "short", false,
		"a small run that shows that everything works; its figures say nothing")
	f.BoolVar(&o.tune, "tune", false,
		"first compare settings of each system")
	f.StringVar(&o.jsonFile, "json", "", "file for the results and the ratios, such as docs/bench.json")
	f.BoolVar(&o.keep, "keep", false,
		"keep what the file of -json has of workloads that are not run, each with the date of its run")
	f.StringVar(&o.chartFile, "chart", "", "SVG file for the chart, such as docs/bench.svg")
	f.StringVar(&o.benchstatFile, "benchstat", "",
		"file for the rounds of the drains in the format of benchstat")
	f.StringVar(&o.profiles, "profile", "",
		"directory for the CPU profile of this process, and what the server's statements took, of each round")
	f.Var(o.settings, "set", "setting of the server, NAME=VALUE; may be repeated")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.n < 1 || o.rounds < 1 || o.hold <= 0 {
		return o, fmt.Errorf("-n, -rounds and -hold must be positive")
	}
	if o.keep && o.jsonFile == "" {
		return o, fmt.Errorf("-keep needs -json")
	}
	if o.only != "" && o.jsonFile != "" {
		return o, fmt.Errorf("-only leaves out what the file of -json should have")
	}
	if o.only != "" && !slices.Contains([]string{"b", "c", "d", "f", "g", "j"}, o.run) {
		return o, fmt.Errorf("-only needs one of -run b, c, d, f, g, j")
	}
	if o.profiles != "" && o.jsonFile != "" {
		return o, fmt.Errorf("-profile costs time, which the file of -json should not have in it")
	}
	if _, set := o.settings["shared_preload_libraries"]; set && o.profiles != "" {
		return o, fmt.Errorf("-profile sets shared_preload_libraries itself")
	}
	if o.profiles != "" {
		o.settings["shared_preload_libraries"] = statementsLibrary
	}
	if o.short {
		o.n, o.rounds, o.hold = min(o.n, shortEntries), 1, min(o.hold, shortHold)
		o.settings["fsync"] = "off" // most of the time of a short run would be that of making databases
	}
	return o, nil
}

// What -short runs at most.
const (
	shortEntries = 2000
	shortHold    = time.Second
)

func listWorkloads() string {
	keys := make([]string, len(workloads))
	for i, w := range workloads {
		keys[i] = w.key + " (" + w.title + ")"
	}
	return strings.Join(keys, ", ")
}

// chosen returns the workloads that were asked for, in their own order.
func (o *options) chosen() ([]workload, error) {
	if o.run == "all" {
		return workloads, nil
	}
	keys := strings.Split(o.run, ",")
	for _, key := range keys {
		if !slices.ContainsFunc(workloads, func(w workload) bool { return w.key == key }) {
			return nil, fmt.Errorf("no workload %q: there are %s", key, listWorkloads())
		}
	}
	unwanted := func(w workload) bool { return !slices.Contains(keys, w.key) }
	return slices.DeleteFunc(slices.Clone(workloads), unwanted), nil
}

func run(ctx context.Context, args []string, w io.Writer) (err error) {
	o, err := parse(args, w)
	if err != nil {
		return err
	}
	chosen, err := o.chosen()
	if err != nil {
		return err
	}
	s, err := startServer(ctx, o.settings)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := s.close(); err == nil {
			err = closeErr
		}
	}()
	if o.profiles != "" {
		if s.profiler, err = newProfiler(ctx, o.profiles, s.admin); err != nil {
			return err
		}
	}
	b := &bench{options: o, server: s, out: w}
	b.results.Runs = []circumstances{{Started: time.Now().UTC(), Workloads: []string{}, Notes: []string{}}}
	if err := b.describe(ctx); err != nil {
		return err
	}
	if o.tune {
		if err := b.compareSettings(ctx, kinds); err != nil {
			return fmt.Errorf("compare settings: %w", err)
		}
	}
	return errors.Join(b.measure(ctx, chosen), b.finish())
}

// measure runs workloads one after the other until one fails.
func (b *bench) measure(ctx context.Context, chosen []workload) error {
	for _, wl := range chosen {
		fmt.Fprintf(b.out, "\n(%s) %s\n", wl.key, wl.title)
		if err := wl.run(ctx, b); err != nil {
			return fmt.Errorf("workload %s: %w", wl.key, err)
		}
		b.run().Workloads = append(b.run().Workloads, wl.key)
	}
	return nil
}
