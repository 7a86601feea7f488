package main

import (
	"math"
	"slices"
)

// median returns the middle of the values, the mean of the two in the middle if their number is even, and NaN
// of none.
func median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

// percentile returns the smallest value that at least p percent of the values do not exceed, and NaN of none.
func percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// spread returns by how much of the median the values lie apart.
func spread(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	return (slices.Max(values) - slices.Min(values)) / median(values)
}

// ratiosOf returns a's value divided by b's for each round that has both. Rounds are compared with
// themselves, so that what disturbed a whole round cancels out.
func ratiosOf(a, b map[int]float64) (ratios []float64) {
	for round, value := range a {
		if other, ok := b[round]; ok && other != 0 {
			ratios = append(ratios, value/other)
		}
	}
	return ratios
}
