package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"text/tabwriter"
)

// print shows the table of a workload: medians over the rounds, and the ratio to the first contestant.
func (b *bench) print(workload string) {
	w := tabwriter.NewWriter(b.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tentries/s\tspread\tof the first\tclient us\tserver us\tWAL B\tof it images\t"+
		"commits\tdead\t")
	systems := b.results.contestants(workload)
	for _, system := range systems {
		samples := b.results.of(workload, system)
		of := func(value func(s *sample) float64) []float64 {
			values := make([]float64, len(samples))
			for i := range samples {
				values[i] = value(&samples[i])
			}
			return values
		}
		each := func(value func(s *sample) float64) float64 {
			return median(of(func(s *sample) float64 { return per(value(s), s.Entries) }))
		}
		rates := of((*sample).rate)
		ofFirst := median(ratiosOf(b.results.rates(workload, system), b.results.rates(workload, systems[0])))
		images := "?"
		if samples[0].Images >= 0 {
			images = strconv.FormatFloat(each(func(s *sample) float64 { return float64(s.Images) }), 'f', 0, 64)
		}
		fmt.Fprintf(w, "%s\t%.0f\t%.0f%%\t%.2f\t%.1f\t%.1f\t%.0f\t%s\t%.3f\t%.2f\t\n", system, median(rates),
			100*spread(rates), ofFirst,
			each(func(s *sample) float64 { return s.ClientCPU * 1e6 }),
			each(func(s *sample) float64 { return s.ServerCPU * 1e6 }),
			each(func(s *sample) float64 { return float64(s.WAL) }), images,
			each(func(s *sample) float64 { return float64(s.Commits) }),
			each(func(s *sample) float64 { return float64(s.Dead) }))
	}
	_ = w.Flush() // output for people
	for _, system := range systems {
		if s := b.results.of(workload, system)[0]; s.Setting != "" {
			fmt.Fprintf(b.out, "  %s: %s\n", system, s.Setting)
		}
	}
}

// figure keeps a value that is no ratio and prints it. NaN is of nothing measured and is not kept.
func (b *bench) figure(measure string, value float64, unit string) {
	if math.IsNaN(value) {
		return
	}
	b.results.Figures = append(b.results.Figures, figure{Measure: measure, Value: value, Unit: unit})
	fmt.Fprintf(b.out, "  %-52s %12.3f %s\n", measure, value, unit)
}

// printRatios shows the ratios of the whole run.
func (b *bench) printRatios() {
	all := slices.Concat(b.results.Ratios, b.results.Others)
	if len(all) > 0 {
		fmt.Fprintln(b.out, "\nratios, and those of the rounds")
	}
	for _, r := range all {
		fmt.Fprintf(b.out, "  %-20s %8.3f  (%.3f to %.3f)\n", r.Measure, r.Ratio, r.Lowest, r.Highest)
	}
}
