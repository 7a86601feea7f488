package main

import (
	"fmt"
	"image/color"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// chartNames are what the bars are called where it is not as the samples.
var chartNames = map[string]string{
	"fencerow/default=true": "fencerow, defaults",
	"fencerow/whole=true":   "fencerow's store alone",
	"limit":                 "limit: known rows moved and read",
	"limit/unread=true":     "limit, nothing read",
	"river":                 "River",
	"river/default=true":    "River, 100 workers, else as it comes",
	"watermill":             "watermill-sql (no lease)",
	"graphile":              "graphile-worker",
}

// In a chart, in points.
const (
	chartWidth    = 720
	chartHeadroom = 100
	chartBar      = 28
	chartMargin   = 10
)

// writeChart draws the rates of workload a as bars, with a line from the slowest round to the fastest. The
// file's ending says in which format.
func writeChart(file string, r *results) error {
	systems := r.contestants("a")
	p := plot.New()
	p.Title.Text = "Entries worked off a second, delivery does nothing (medians, slowest to fastest round)"
	p.Title.Padding = chartMargin
	p.X.Label.Text = "thousand entries/s"
	p.X.Label.Padding = chartMargin
	p.X.Min = 0
	ours, others := make(plotter.Values, len(systems)), make(plotter.Values, len(systems))
	ranges, texts := rangeBars{}, plotter.XYLabels{}
	names := make([]string, len(systems))
	for i, system := range systems {
		place := len(systems) - 1 - i // the first at the top
		names[place] = "  " + system  // room at the edge
		if name, ok := chartNames[system]; ok {
			names[place] = "  " + name
		}
		var rates []float64
		for _, rate := range r.rates("a", system) {
			rates = append(rates, rate/1000)
		}
		middle, lowest, highest := median(rates), percentile(rates, 0), percentile(rates, 100)
		if strings.HasPrefix(system, fencerowKind.name) {
			ours[place] = middle
		} else {
			others[place] = middle
		}
		at := plotter.XY{X: middle, Y: float64(place)}
		ranges.XYs = append(ranges.XYs, at)
		ranges.XErrors = append(ranges.XErrors, struct{ Low, High float64 }{middle - lowest, highest - middle})
		texts.XYs = append(texts.XYs, plotter.XY{X: highest, Y: float64(place)})
		texts.Labels = append(texts.Labels, fmt.Sprintf("  %.1f", middle))
		const room = 1.1 // for the number behind the longest bar
		p.X.Max = max(p.X.Max, room*highest)
	}
	for _, group := range []struct {
		values plotter.Values
		color  color.Color
	}{
		{others, color.RGBA{R: 0x9a, G: 0xa5, B: 0xb1, A: 0xff}},
		{ours, color.RGBA{R: 0x1f, G: 0x6f, B: 0xb2, A: 0xff}},
	} {
		bars, err := plotter.NewBarChart(group.values, vg.Points(chartBar/2))
		if err != nil {
			return err
		}
		bars.Horizontal, bars.Color, bars.LineStyle.Width = true, group.color, 0
		p.Add(bars)
	}
	lines, err := plotter.NewXErrorBars(ranges)
	if err != nil {
		return err
	}
	numbers, err := plotter.NewLabels(texts)
	if err != nil {
		return err
	}
	p.Add(lines, numbers)
	p.NominalY(names...)
	return p.Save(vg.Points(chartWidth), vg.Points(float64(chartHeadroom+chartBar*len(systems))), file)
}

// rangeBars are points with the lowest and highest rate of each.
type rangeBars struct {
	plotter.XYs
	plotter.XErrors
}
