package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"time"
)

// sample is one measurement of one contestant in one round.
type sample struct {
	Workload string `json:"workload"`
	System   string `json:"system"`
	Setting  string `json:"setting,omitempty"`
	Round    int    `json:"round"`
	// Entries is how many entries the time and the cost are of.
	Entries int `json:"entries"`
	cost
	// Values are further figures, by name and unit.
	Values map[string]float64 `json:"values,omitempty"`
}

// rate returns entries a second.
func (s *sample) rate() float64 { return float64(s.Entries) / s.Seconds }

// ratio compares two contestants of one run: the median of the rounds' ratios, the lowest and the highest.
type ratio struct {
	Measure string  `json:"measure"`
	Ratio   float64 `json:"ratio"`
	Lowest  float64 `json:"lowest"`
	Highest float64 `json:"highest"`
}

// figure is a measured value that is no ratio.
type figure struct {
	Measure string  `json:"measure"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
}

// circumstances are those of one run of the benchmark.
type circumstances struct {
	// Workloads are the keys of those that were measured in it, to their end.
	Workloads []string  `json:"workloads"`
	Started   time.Time `json:"started"`
	Machine   string    `json:"machine"`
	Server    string    `json:"server"`
	Settings  []string  `json:"settings"`
	Notes     []string  `json:"notes"`
}

// results are all that was found out, each workload in one run.
type results struct {
	// Ratios are the measures that the project promises; Others compare further systems and settings.
	Ratios  []ratio         `json:"ratios"`
	Others  []ratio         `json:"other_ratios"`
	Figures []figure        `json:"figures"`
	Runs    []circumstances `json:"runs"`
	Samples []sample        `json:"samples"`
}

// comparison is a ratio to be made: of what over what, in one workload.
type comparison struct {
	measure, workload, over, under string
	promised                       bool
}

// comparisons lists the ratios of rates. A contestant is named as its samples name it.
var comparisons = []comparison{
	{"a_river", "a", "fencerow", "river", true},
	{"a_graphile", "a", "fencerow", "graphile", true},
	{"a_watermill", "a", "fencerow", "watermill", true},
	{"a_limit", "a", "fencerow", "limit", true},
	{"b_http", "b", "fencerow", "bare", true},
	{"c_insert", "c", "fencerow", "insert", true},
	{"c_river_many", "c", "fencerow many", "river many", true},
	{"d_river", "d", "fencerow", "river", true},
	{"f_growth", "f", "grown", "empty", true},
	{"g_snapshot", "g", "held", "free", true},

	{"a_limit_unread", "a", "fencerow", "limit/unread=true", false},
	{"a_gue", "a", "fencerow", "gue", false},
	{"a_pgmq", "a", "fencerow", "pgmq", false},
	{"a_river_default", "a", "fencerow", "river/default=true", false},
	{"a_default", "a", "fencerow/default=true", "fencerow", false},
	{"b_http_default", "b", "fencerow/default=true", "bare", false},
	{"c_river", "c", "fencerow", "river", false},
	{"c_river_tx", "c", "fencerow tx", "river tx", false},
	{"c_insert_tx", "c", "fencerow tx", "insert tx", false},
	{"c_copy", "c", "fencerow many", "copy", false},
	{"f_growth_2m", "f", "2M finished", "empty", false},
	{"g_river", "g", "river held", "river free", false},
	{"j_10", "j", "10 instances", "1 instance", false},
	{"j_100", "j", "100 instances", "1 instance", false},
}

// walFigures lists what is derived of the WAL of a drain, in bytes an entry: the median of the rounds.
var walFigures = []struct{ measure, workload, system string }{
	{"a_wal_whole", "a", "fencerow/whole=true"},
	{"a_wal_default", "a", "fencerow/default=true"},
}

// rates returns the rate of each round of a contestant.
func (r *results) rates(workload, system string) map[int]float64 {
	rates := map[int]float64{}
	for i := range r.Samples {
		if s := &r.Samples[i]; s.Workload == workload && s.System == system {
			rates[s.Round] = s.rate()
		}
	}
	return rates
}

// derive makes the ratios of what was measured, and the figures that are of samples.
func (r *results) derive() {
	r.Ratios, r.Others = []ratio{}, []ratio{}
	if r.Figures == nil {
		r.Figures = []figure{}
	}
	for _, w := range walFigures {
		r.Figures = slices.DeleteFunc(r.Figures, func(f figure) bool { return f.Measure == w.measure })
		var each []float64
		for _, s := range r.of(w.workload, w.system) {
			each = append(each, per(float64(s.WAL), s.Entries))
		}
		if len(each) > 0 {
			r.Figures = append(r.Figures, figure{Measure: w.measure, Value: median(each), Unit: "B an entry"})
		}
	}
	for _, c := range comparisons {
		each := ratiosOf(r.rates(c.workload, c.over), r.rates(c.workload, c.under))
		if len(each) == 0 {
			continue
		}
		rounded := func(v float64) float64 { return math.Round(v*1000) / 1000 }
		made := ratio{c.measure, rounded(median(each)), rounded(slices.Min(each)), rounded(slices.Max(each))}
		if c.promised {
			r.Ratios = append(r.Ratios, made)
		} else {
			r.Others = append(r.Others, made)
		}
	}
}

// contestants returns the systems of a workload in the order in which they were first measured.
func (r *results) contestants(workload string) []string {
	var systems []string
	for i := range r.Samples {
		if s := &r.Samples[i]; s.Workload == workload && !slices.Contains(systems, s.System) {
			systems = append(systems, s.System)
		}
	}
	return systems
}

// of returns the samples of a contestant.
func (r *results) of(workload, system string) []sample {
	var samples []sample
	for _, s := range r.Samples {
		if s.Workload == workload && s.System == system {
			samples = append(samples, s)
		}
	}
	return samples
}

// tuning is the key of the samples from the comparison of settings.
const tuning = "tune"

// only leaves nothing but what was found in the workloads that wanted accepts.
func (r *results) only(wanted func(workload string) bool) {
	r.Samples = slices.DeleteFunc(r.Samples, func(s sample) bool { return !wanted(s.Workload) })
	r.Figures = slices.DeleteFunc(r.Figures, func(f figure) bool {
		workload, _, _ := strings.Cut(f.Measure, "_")
		return !wanted(workload)
	})
	for i := range r.Runs {
		r.Runs[i].Workloads = slices.DeleteFunc(r.Runs[i].Workloads, func(w string) bool { return !wanted(w) })
	}
	r.Runs = slices.DeleteFunc(r.Runs, func(c circumstances) bool { return len(c.Workloads) == 0 })
}

// keep adds what a file of results has of workloads that were not measured this time. A file that does not
// exist has none.
func (r *results) keep(file string) error {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var before results
	if err := json.Unmarshal(text, &before); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	before.only(func(workload string) bool { return !slices.Contains(r.Runs[0].Workloads, workload) })
	r.Samples = slices.Concat(before.Samples, r.Samples)
	r.Figures = slices.Concat(before.Figures, r.Figures)
	r.Runs = slices.Concat(before.Runs, r.Runs)
	return nil
}

// write writes the results as JSON.
func (r *results) write(file string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// benchstat returns the rounds of all drains in the format of Go's benchmarks, one line a round.
func (r *results) benchstat() []byte {
	var b bytes.Buffer
	for i := range r.Samples {
		s := &r.Samples[i]
		if s.Entries == 0 || s.Seconds == 0 {
			continue
		}
		name := strings.NewReplacer(" ", "_", "-", "_").Replace(s.Workload + "/" + s.System)
		fmt.Fprintf(&b, "BenchmarkBench/%s %d %.1f ns/op %.0f entries/s %.1f WAL-B/op ",
			name, s.Entries, s.Seconds*1e9/float64(s.Entries), s.rate(), per(float64(s.WAL), s.Entries))
		fmt.Fprintf(&b, "%.2f client-us/op %.2f server-us/op\n",
			per(s.ClientCPU*1e6, s.Entries), per(s.ServerCPU*1e6, s.Entries))
	}
	return b.Bytes()
}

// per divides by a number of entries.
func per(total float64, entries int) float64 { return total / float64(max(entries, 1)) }
