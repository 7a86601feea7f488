package main

import (
	"errors"
	"os"
	"slices"
	"testing"
)

func TestWhatWasNotTestedAfterAnInterruptIsNoSuccess(t *testing.T) {
	t.Parallel()
	failed := errors.New("a test failed")
	runs := [][]string{{"a"}, {"b"}}
	for name, test := range map[string]struct {
		results   []error
		stopAfter int // runs; 0 for never
		ran       int
		success   bool
	}{
		"NeverStopped":               {[]error{nil, nil}, 0, 2, true},
		"FirstFailed":                {[]error{failed, nil}, 0, 2, false},
		"LastFailed":                 {[]error{nil, failed}, 0, 2, false},
		"StoppedWithOneLeft":         {[]error{nil, nil}, 1, 1, false},
		"StoppedWithOneLeftAndBad":   {[]error{failed, nil}, 1, 1, false},
		"StoppedWhenAllWereTested":   {[]error{nil, nil}, 2, 2, true},
		"StoppedWhenAllWereWithABad": {[]error{failed, nil}, 2, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stopped := make(chan os.Signal, 1)
			var ran []string
			err := testAll(runs, func(args []string) error {
				ran = append(ran, args...)
				if len(ran) == test.stopAfter {
					stopped <- os.Interrupt
				}
				return test.results[len(ran)-1]
			}, stopped)
			if (err == nil) != test.success || len(ran) != test.ran || !slices.IsSorted(ran) {
				t.Errorf("ran %q: %v", ran, err)
			}
		})
	}
}
