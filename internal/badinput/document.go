package badinput

import (
	"iter"
	"math/rand/v2"
)

// Cuts yields every beginning of a document that is shorter than the whole, the empty one first.
func Cuts(document string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for end := range len(document) {
			if !yield(document[:end]) {
				return
			}
		}
	}
}

// Flips yields n documents that differ from the whole in one byte each, chosen by the seed: any byte, in any
// place.
func Flips(document string, seed uint64, n int) iter.Seq[string] {
	return func(yield func(string) bool) {
		random := rand.New(rand.NewPCG(seed, uint64(len(document)))) //nolint:gosec // the seed is to repeat it
		for range n {
			flipped := []byte(document)
			flipped[random.IntN(len(flipped))] ^= byte(1 + random.IntN(255))
			if !yield(string(flipped)) {
				return
			}
		}
	}
}
