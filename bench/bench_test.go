package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMain is the stub ledger where the benchmark started this program as one.
func TestMain(m *testing.M) {
	if os.Getenv(stubVariable) != "" {
		if err := serveStub(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestShortRunMeasuresEveryPromisedRatio(t *testing.T) {
	dir := t.TempDir()
	file, chart, lines := filepath.Join(dir, "b.json"), filepath.Join(dir, "b.svg"), filepath.Join(dir, "b.txt")
	var out bytes.Buffer
	err := run(t.Context(), []string{"-short", "-json", file, "-chart", chart, "-benchstat", lines}, &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.Bytes())
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got results
	if err := json.Unmarshal(content, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Runs) != 1 || len(got.Runs[0].Workloads) != len(workloads) {
		t.Fatalf("got %+v, want one run of all workloads", got.Runs)
	}
	absent := func(system string) bool {
		return slices.ContainsFunc(got.Runs[0].Notes, func(note string) bool {
			return strings.HasPrefix(note, system+" is not measured")
		})
	}
	for _, c := range comparisons {
		made := func(r ratio) bool { return r.Measure == c.measure && r.Ratio > 0 }
		there := slices.ContainsFunc(got.Ratios, made)
		if c.promised && !there && !absent(c.under) {
			t.Errorf("no ratio %s in\n%s", c.measure, out.Bytes())
		}
	}
	for _, made := range []string{chart, lines} {
		if info, err := os.Stat(made); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v, want a file with something in it", filepath.Base(made), err)
		}
	}
}

func TestProfilesTellOfTheClientAndOfTheStatements(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "profiles")
	var out bytes.Buffer
	args := []string{"-short", "-run", "a", "-systems", "fencerow", "-profile", dir}
	if err := run(t.Context(), args, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.Bytes())
	}
	text, err := os.ReadFile(filepath.Join(dir, "a-fencerow-1.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ClaimBatch", "ClaimEntries", "ClaimRecord"} {
		if !bytes.Contains(text, []byte(name)) {
			t.Errorf("no %s among\n%s", name, text)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "a-fencerow-1.pprof")); err != nil {
		t.Error(err)
	}
}

func TestProfilesAreNotPartOfResults(t *testing.T) {
	if _, err := parse([]string{"-profile", "d", "-json", "f"}, io.Discard); err == nil {
		t.Error("results that were slowed down by profiles would be kept")
	}
	if _, err := parse([]string{"-profile", "d", "-set", "shared_preload_libraries=x"}, io.Discard); err == nil {
		t.Error("a setting that was given is passed over")
	}
}

func TestComparisonTriesEachSettingAndNamesTheFastest(t *testing.T) {
	o, err := parse([]string{"-short"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	s, err := startServer(t.Context(), o.settings)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}()
	b := bench{options: o, server: s, out: io.Discard}
	b.results.Runs = []circumstances{{}}
	if err := b.compareSettings(t.Context(), []kind{limitKind}); err != nil {
		t.Fatal(err)
	}
	fastest, best := 0.0, ""
	var tried []string
	for _, s := range b.results.Samples {
		tried = append(tried, strings.TrimPrefix(s.System, "limit/"))
		if s.rate() > fastest {
			fastest, best = s.rate(), s.System
		}
	}
	if want := append([]string{"limit"}, limitKind.tries...); !slices.Equal(tried, want) {
		t.Errorf("tried %q, want %q", tried, want)
	}
	if want := "the fastest of limit in this search: " + best; !slices.Equal(b.run().Notes, []string{want}) {
		t.Errorf("notes %q, want %q", b.run().Notes, want)
	}
}

func TestMedianIsTheMiddle(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{3}, 3},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 2, 9}, 3},
	} {
		if got := median(c.values); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.values, got, c.want)
		}
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("median of nothing is %v, want NaN", got)
	}
}

func TestMedianLeavesItsArgumentAlone(t *testing.T) {
	values := []float64{3, 1, 2}
	median(values)
	if !slices.Equal(values, []float64{3, 1, 2}) {
		t.Errorf("got %v", values)
	}
}

func TestPercentileIsAValueThatWasMeasured(t *testing.T) {
	var values []float64
	for i := range 100 {
		values = append(values, float64(100-i))
	}
	for p, want := range map[float64]float64{0: 1, 1: 1, 50: 50, 99: 99, 100: 100} {
		if got := percentile(values, p); got != want {
			t.Errorf("percentile %v is %v, want %v", p, got, want)
		}
	}
}

func TestRatioComparesRoundsWithThemselves(t *testing.T) {
	// The whole second round was slow: the ratio does not show it.
	a := map[int]float64{0: 100, 1: 10, 2: 102}
	b := map[int]float64{0: 50, 1: 5, 2: 51}
	if got := ratiosOf(a, b); !slices.Equal(got, []float64{2, 2, 2}) {
		t.Errorf("got %v, want 2 of each round", got)
	}
	if got := ratiosOf(a, map[int]float64{7: 1}); len(got) != 0 {
		t.Errorf("got %v of no common round", got)
	}
}

func TestRatiosAreOfWhatWasMeasured(t *testing.T) {
	r := results{Samples: []sample{
		{Workload: "a", System: "fencerow", Entries: 1000, cost: cost{Seconds: 1}},
		{Workload: "a", System: "river", Entries: 100, cost: cost{Seconds: 0.5}},
		{Workload: "a", System: "fencerow", Round: 1, Entries: 1000, cost: cost{Seconds: 1}},
		{Workload: "a", System: "river", Round: 1, Entries: 100, cost: cost{Seconds: 0.4}},
		{Workload: "a", System: "fencerow", Round: 2, Entries: 1000, cost: cost{Seconds: 2}},
		{Workload: "a", System: "river", Round: 2, Entries: 100, cost: cost{Seconds: 1.4}},
		{Workload: "b", System: "bare", Entries: 100, cost: cost{Seconds: 1}},
	}}
	r.derive()
	want := []ratio{{"a_river", 5, 4, 7}}
	if !slices.Equal(r.Ratios, want) || len(r.Others) != 0 {
		t.Errorf("got %v and %v, want %v", r.Ratios, r.Others, want)
	}
}

func TestWALIsTheMedianOfTheRounds(t *testing.T) {
	of := func(round int, wal int64) sample {
		return sample{
			Workload: "a", System: "fencerow/whole=true", Round: round, Entries: 10, cost: cost{Seconds: 1, WAL: wal},
		}
	}
	r := results{Samples: []sample{of(0, 3000), of(1, 3400), of(2, 9000)}}
	r.derive()
	r.derive() // as where results were kept that have it already
	if want := []figure{{"a_wal_whole", 340, "B an entry"}}; !slices.Equal(r.Figures, want) {
		t.Errorf("got %v, want %v", r.Figures, want)
	}
}

func TestResultsAreOneDocument(t *testing.T) {
	r := results{
		Runs:    []circumstances{{Workloads: []string{"a"}, Started: time.Unix(0, 0).UTC()}},
		Samples: []sample{{Workload: "a", System: "fencerow", Entries: 10, cost: cost{Seconds: 2, WAL: 4000}}},
	}
	r.derive()
	file := filepath.Join(t.TempDir(), "b.json")
	if err := r.write(file); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(content, &got); err != nil {
		t.Fatal(err)
	}
	if ratios, ok := got["ratios"].([]any); !ok || len(ratios) != 0 {
		t.Errorf("ratios of nothing to compare are %v, want an empty list", got["ratios"])
	}
	const field = `"wal_bytes": 4000`
	if !bytes.Contains(content, []byte(field)) {
		t.Errorf("no %s in\n%s", field, content)
	}
}

func TestWhatIsKeptIsOfOtherWorkloads(t *testing.T) {
	one := func(workload string, seconds float64) sample {
		return sample{Workload: workload, System: "fencerow", Entries: 10, cost: cost{Seconds: seconds}}
	}
	file := filepath.Join(t.TempDir(), "b.json")
	first := results{
		Runs:    []circumstances{{Workloads: []string{"a", "b", "e"}, Notes: []string{"first"}}},
		Samples: []sample{one("a", 1), one("b", 1)},
		Figures: []figure{{"e_p99", 7, "ms"}},
	}
	if err := first.keep(file); err != nil { // there is nothing yet
		t.Fatal(err)
	}
	if err := first.write(file); err != nil {
		t.Fatal(err)
	}
	second := results{
		Runs:    []circumstances{{Workloads: []string{"b"}, Notes: []string{"second"}}},
		Samples: []sample{one("b", 2)},
	}
	if err := second.keep(file); err != nil {
		t.Fatal(err)
	}
	if got := second.rates("a", "fencerow")[0]; got != 10 {
		t.Errorf("what is kept of a is %v, want 10", got)
	}
	if got := second.rates("b", "fencerow"); len(second.of("b", "fencerow")) != 1 || got[0] != 5 {
		t.Errorf("of b there is %v, want the second run's alone", second.of("b", "fencerow"))
	}
	if !slices.Equal(second.Figures, first.Figures) {
		t.Errorf("got the figures %v", second.Figures)
	}
	if len(second.Runs) != 2 || !slices.Equal(second.Runs[0].Workloads, []string{"a", "e"}) {
		t.Errorf("got the runs %+v", second.Runs)
	}
	if err := os.WriteFile(file, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := second.keep(file); err == nil {
		t.Error("a file that is no JSON: no error")
	}
}

func TestRunThatFoundNothingTouchesNoFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "b.json")
	for _, before := range []string{"", `{"runs":[{"workloads":["a"]}]}`} {
		if before != "" {
			if err := os.WriteFile(file, []byte(before), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for _, keep := range []bool{false, true} {
			b := bench{options: options{jsonFile: file, keep: keep}, out: io.Discard}
			b.results.Runs = []circumstances{{}}
			b.results.Samples = []sample{{Workload: "a", System: "fencerow", Entries: 1}} // of one that failed
			if err := b.finish(); err != nil {
				t.Fatal(err)
			}
			after, err := os.ReadFile(file)
			if before == "" && err == nil || string(after) != before {
				t.Errorf("keep %t: the file has %q, want %q", keep, after, before)
			}
		}
	}
}

func TestOnlyMeasuresThoseThatWereNamed(t *testing.T) {
	measured := func(only string) (got []string, err error) {
		b := bench{options: options{only: only, rounds: 2}, out: io.Discard}
		list := []string{"a", "b", "c"}
		err = b.rounds("c", list, func(i, _ int) error {
			got = append(got, list[i])
			return nil
		})
		return got, err
	}
	for only, want := range map[string][]string{
		"":    {"a", "b", "c", "b", "c", "a"},
		"c":   {"c", "c"},
		"c,a": {"c", "a", "a", "c"},
	} {
		if got, err := measured(only); err != nil || !slices.Equal(got, want) {
			t.Errorf("only %q: %q, %v; want %q", only, got, err, want)
		}
	}
	if got, err := measured("a,x"); err == nil || got != nil {
		t.Errorf("a name that is none: %q, %v", got, err)
	}
	for _, args := range [][]string{
		{"-only", "a"}, {"-run", "a", "-only", "a"}, {"-run", "c,d", "-only", "a"},
		{"-run", "c", "-only", "a", "-json", "x"},
	} {
		if _, err := parse(args, io.Discard); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
	if o, err := parse([]string{"-run", "c", "-only", "a,b"}, io.Discard); err != nil || o.only != "a,b" {
		t.Errorf("only %q: %v", o.only, err)
	}
}

func TestBenchstatLineHasNoSpaceInItsName(t *testing.T) {
	r := results{Samples: []sample{
		{Workload: "c", System: "fencerow many", Entries: 100, cost: cost{Seconds: 1, WAL: 5000, ServerCPU: 0.001}},
	}}
	const want = "BenchmarkBench/c/fencerow_many 100 10000000.0 ns/op 100 entries/s 50.0 WAL-B/op " +
		"0.00 client-us/op 10.00 server-us/op\n"
	if got := string(r.benchstat()); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestProcessIsReadWhateverItsName(t *testing.T) {
	line := "123 (a) b) (c) S 45 123 123 0 -1 4194560 1 2 3 4 150 50 300 100 20 0 1 0 99 1 1 1"
	got, err := parseProcess([]byte(line))
	want := process{parent: 45, own: 2 * time.Second, children: 4 * time.Second}
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for _, bad := range []string{"", "123 (x) S 1", "123 (x) S a b c d e f g h i j k l m n o"} {
		if _, err := parseProcess([]byte(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestSystemSettingsAreReadStrictly(t *testing.T) {
	for _, spec := range slices.Concat(defaultSystems, slowSystems) {
		if _, err := parseSystem(spec); err != nil {
			t.Errorf("%s: %v", spec, err)
		}
	}
	for _, k := range kinds {
		for _, setting := range k.tries {
			if _, err := parseSystem(k.name + "/" + setting); err != nil {
				t.Errorf("%s: %v", k.name, err)
			}
		}
	}
	for _, bad := range []string{"", "nothing", "river/workers", "river/workers=many", "river/worker=1"} {
		if _, err := parseSystem(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func TestProxyCountsWhatIsWaitedFor(t *testing.T) {
	var p proxy
	for _, kind := range []byte("pPBDESPBESQX") {
		p.count(kind)
	}
	if trips, statements := p.roundTrips.Load(), p.statements.Load(); trips != 3 || statements != 3 {
		t.Errorf("got %d round trips and %d statements, want 3 and 3", trips, statements)
	}
}

func TestPayloadIsAboutThreeHundredBytes(t *testing.T) {
	if n := len(payload(123_456)); n < 280 || n > 320 {
		t.Errorf("got %d bytes", n)
	}
}
