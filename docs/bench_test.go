package docs

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// promise is a row of the tables of what is asked of the benchmark.
type promise struct{ measure, bound, asked, measured, rounds string }

var (
	// A row of the table of promised ratios: measure, what it compares, asked, measured, range of the rounds.
	ratioRow = regexp.MustCompile(
		"(?m)^\\| `([a-z_]+)` \\|.*\\| ([0-9.]+) \\| ([0-9.]+) \\| ([0-9.]+ to [0-9.]+) \\|$")
	// A row of the table of what else is asked.
	otherRow = regexp.MustCompile(
		"(?m)^\\| `([a-z0-9_]+)` \\|.*\\| (at least|at most) ([0-9.]+) \\| (-?[0-9.]+) \\|$")
)

func promises(t *testing.T) (ratios, others []promise) {
	t.Helper()
	tables := section(t, read(t, "docs/performance.md"), "## Ratios")
	for _, m := range ratioRow.FindAllStringSubmatch(tables, -1) {
		ratios = append(ratios, promise{m[1], "at least", m[2], m[3], m[4]})
	}
	for _, m := range otherRow.FindAllStringSubmatch(tables, -1) {
		others = append(others, promise{m[1], m[2], m[3], m[4], ""})
	}
	if len(ratios) != promisedRatios || len(others) != promisedOthers {
		t.Errorf("%d ratios and %d others, want %d and %d",
			len(ratios), len(others), promisedRatios, promisedOthers)
	}
	return ratios, others
}

// How much is asked of the benchmark.
const promisedRatios, promisedOthers = 10, 10

func TestPromisesAreThoseOfTheBenchmark(t *testing.T) {
	t.Parallel()
	type ratio struct {
		Measure                string
		Ratio, Lowest, Highest float64
	}
	var results struct {
		Ratios  []ratio
		Others  []ratio `json:"other_ratios"`
		Figures []struct {
			Measure string
			Value   float64
		}
	}
	if err := json.Unmarshal([]byte(read(t, "docs/bench.json")), &results); err != nil {
		t.Fatal(err)
	}
	ratios, others := promises(t)
	var told, measured []string
	for _, p := range ratios {
		told = append(told, p.measure+" "+p.measured+" "+p.rounds)
	}
	for _, r := range results.Ratios {
		measured = append(measured, fmt.Sprintf("%s %.2f %.2f to %.2f", r.Measure, r.Ratio, r.Lowest, r.Highest))
	}
	sameSet(t, "ratio", told, measured)

	values := map[string]float64{}
	for _, r := range results.Others {
		values[r.Measure] = r.Ratio
	}
	for _, f := range results.Figures {
		values[f.Measure] = f.Value
	}
	for _, p := range others {
		if value, ok := values[p.measure]; !ok || shown(value) != p.measured {
			t.Errorf("%s is told as %s; the benchmark has %t %s", p.measure, p.measured, ok, shown(value))
		}
	}
}

// shown is how the tables show a value: in hundredths, or whole from 100 on.
func shown(value float64) string {
	if math.Abs(value) >= 100 {
		return fmt.Sprintf("%.0f", value)
	}
	return fmt.Sprintf("%.2f", value)
}

func TestWhatIsMissedIsExplained(t *testing.T) {
	t.Parallel()
	missed := section(t, read(t, "docs/performance.md"), "## Missed")
	number := func(s string) float64 {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	ratios, others := promises(t)
	for _, p := range append(ratios, others...) {
		measured, asked := number(p.measured), number(p.asked)
		misses := measured < asked
		if p.bound == "at most" {
			misses = measured > asked
		}
		name := fmt.Sprintf("`%s`, %s of %s", p.measure, p.measured, p.asked)
		if explained := strings.Contains(missed, name); explained != misses {
			t.Errorf("%s measured %s of %s, and it is %t that \"Missed\" has %q",
				p.measure, p.measured, p.asked, explained, name)
		}
	}
}
