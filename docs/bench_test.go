package docs

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A row of the table of promised ratios: measure, what it compares, asked, measured.
var ratioRow = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|.*\\| ([0-9.]+) \\| ([0-9.]+) \\|$")

func TestPromisedRatiosAreThoseOfTheBenchmark(t *testing.T) {
	t.Parallel()
	var results struct {
		Ratios []struct {
			Measure string
			Ratio   float64
		}
	}
	if err := json.Unmarshal([]byte(read(t, "docs/bench.json")), &results); err != nil {
		t.Fatal(err)
	}
	var measured, told []string
	for _, r := range results.Ratios {
		measured = append(measured, fmt.Sprintf("%s %.2f", r.Measure, r.Ratio))
	}
	table := section(t, read(t, "docs/performance.md"), "## Ratios")
	for _, m := range ratioRow.FindAllStringSubmatch(table, -1) {
		told = append(told, m[1]+" "+m[3])
	}
	sameSet(t, "ratio", told, measured)
	if len(told) != promisedRatios {
		t.Errorf("%d ratios, want %d", len(told), promisedRatios)
	}
}

// promisedRatios is how many ratios the benchmark promises.
const promisedRatios = 10

func TestWhatIsMissedIsExplained(t *testing.T) {
	t.Parallel()
	performance := read(t, "docs/performance.md")
	missed := section(t, performance, "## Missed")
	for _, m := range ratioRow.FindAllStringSubmatch(section(t, performance, "## Ratios"), -1) {
		asked, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		measured, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("`%s`, %.2f of %s", m[1], measured, m[2])
		if explained := strings.Contains(missed, name); explained != (measured < asked) {
			t.Errorf("%s measured %s of %s, and it is %t that \"Missed\" has %q", m[1], m[3], m[2], explained, name)
		}
	}
}
