package docs

import (
	"encoding/json"
	"fmt"
	"regexp"
	"testing"
)

// A row of the table of promised ratios: measure, what it compares, asked, measured.
var ratioRow = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|.*\\| \\**([0-9.]+)\\** \\|$")

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
		told = append(told, m[1]+" "+m[2])
	}
	sameSet(t, "ratio", told, measured)
}
