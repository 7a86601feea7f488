// Command faults runs the product under everything that goes wrong at night, and checks that its promise
// held. See package faults, and `make faults`.
//
// Exit status: 0 nothing was found, 1 something was, or the run could not be made.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fourblocks2020/fencerow/internal/faults"
)

func main() {
	var c faults.Config
	flag.Uint64Var(&c.Seed, "seed", 1, "chooses what goes wrong; the same seed is the same plan")
	flag.DurationVar(&c.Duration, "duration", 0, "how long things go wrong (1m)")
	flag.IntVar(&c.Entries, "entries", 0, "entries to enqueue in that time (300 a second)")
	flag.IntVar(&c.Instances, "instances", 0, "instances (3)")
	flag.IntVar(&c.Daemons, "daemons", 0, "daemons of each instance (3)")
	flag.DurationVar(&c.Lease, "lease", 0, "lease of a claim (3s)")
	flag.DurationVar(&c.Interval, "interval", 0, "time from poll to poll (a tenth of the lease)")
	flag.DurationVar(&c.Every, "every", 0, "mean time from fault to fault (half a lease)")
	flag.BoolVar(&c.Race, "race", false, "build the programs with the race detector")
	planOnly := flag.Bool("plan", false, "print the plan and run nothing")
	mutants := flag.Bool("mutants", false,
		"run the broken builds instead, each until it is found, and again by its seed")
	flag.StringVar(&c.Mutant, "mutant", "",
		"run this broken build as -mutants does: "+strings.Join(names(), ", "))
	flag.Parse()
	c.Log = os.Stderr
	if err := checkMutant(c.Mutant); err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var ok bool
	var err error
	switch {
	case *planOnly:
		fmt.Print(faults.NewPlan(c.Defaults()))
		return
	case *mutants:
		ok, err = findMutants(ctx, c)
	default:
		if c.Mutant != "" {
			c = toFind(c, c.Mutant)
		}
		ok, err = once(ctx, c)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
	}
	if err != nil || !ok {
		stop()
		os.Exit(1) //nolint:gocritic // stop was called
	}
}

func names() []string { return slices.Sorted(maps.Keys(faults.Mutants())) }

// checkMutant refuses the name of a broken build that there is none of, before there is a plan.
func checkMutant(name string) error {
	if _, known := faults.Mutants()[name]; name != "" && !known {
		return errors.New("there is no such broken build; there are " + strings.Join(names(), ", "))
	}
	return nil
}

// once makes one run and reports whether nothing was found.
func once(ctx context.Context, c faults.Config) (bool, error) {
	fmt.Print("plan of seed ", c.Seed, "\n", faults.NewPlan(c.Defaults()))
	report, err := faults.Run(ctx, c)
	if err != nil {
		return false, err
	}
	fmt.Print(report)
	return len(report.Broken) == 0, nil
}

// findWithin is how long a broken build may stay undiscovered.
const findWithin = 5 * time.Minute

// findMutants runs each broken build under one seed after the other until it is found, and then again under
// the seed that found it.
func findMutants(ctx context.Context, c faults.Config) (bool, error) {
	all := true
	for _, name := range names() {
		seed, took, err := find(ctx, c, name)
		if err != nil {
			return false, err
		}
		found := took <= findWithin
		all = all && found
		fmt.Printf("%-24s found %t with seed %d after %s\n", name, found, seed, took.Round(time.Second))
	}
	return all, nil
}

// toFind is the run in which a broken build is looked for: short leases, and faults that follow closely.
func toFind(c faults.Config, name string) faults.Config {
	c.Mutant, c.Kinds = name, faults.Mutants()[name].Kinds
	c.Duration, c.Lease, c.Every, c.Entries = 24*time.Second, 2*time.Second, 400*time.Millisecond, 4000
	return c
}

func find(ctx context.Context, c faults.Config, name string) (seed uint64, took time.Duration, err error) {
	began := time.Now()
	c = toFind(c, name)
	m := faults.Mutants()[name]
	for {
		report, err := faults.Run(ctx, c)
		if err != nil {
			return c.Seed, 0, err
		}
		fmt.Print(report)
		took = time.Since(began)
		if report.Found(m.Rules) || took > findWithin {
			break
		}
		c.Seed++
	}
	again, err := faults.Run(ctx, c)
	if err != nil {
		return c.Seed, 0, err
	}
	if !again.Found(m.Rules) {
		took = 2 * findWithin
		fmt.Printf("%s was not found again with seed %d\n", name, c.Seed)
	}
	return c.Seed, took, nil
}
