package main

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// writeChart draws the rates of workload a as bars, the slowest round to the fastest as a line in each.
func writeChart(file string, r *results) error {
	systems := r.contestants("a")
	p := plot.New()
	p.Title.Text = "Entries worked off a second, delivery does nothing (median of the rounds)"
	p.X.Label.Text = "thousand entries/s"
	p.X.Min = 0
	values := make(plotter.Values, len(systems))
	ranges := rangeBars{}
	labels := make([]string, len(systems))
	for i, system := range systems {
		place := len(systems) - 1 - i // the first at the top
		rates := r.rates("a", system)
		var all []float64
		for _, rate := range rates {
			all = append(all, rate/1000)
		}
		values[place], labels[place] = median(all), system
		lowest, highest := percentile(all, 0), percentile(all, 100)
		ranges.XYs = append(ranges.XYs, plotter.XY{X: median(all), Y: float64(place)})
		ranges.XErrors = append(ranges.XErrors, struct{ Low, High float64 }{
			Low: median(all) - lowest, High: highest - median(all),
		})
	}
	bars, err := plotter.NewBarChart(values, vg.Points(16))
	if err != nil {
		return err
	}
	bars.Horizontal = true
	bars.Color = color.RGBA{R: 0x4c, G: 0x78, B: 0xa8, A: 0xff}
	bars.LineStyle.Width = 0
	lines, err := plotter.NewXErrorBars(ranges)
	if err != nil {
		return err
	}
	p.Add(bars, lines)
	p.NominalY(labels...)
	const width, headroom, bar = 720, 90, 28 // points
	return p.Save(vg.Points(width), vg.Points(headroom+bar*vg.Length(len(systems)).Points()), file)
}

// rangeBars are points with the lowest and highest rate of each.
type rangeBars struct {
	plotter.XYs
	plotter.XErrors
}
