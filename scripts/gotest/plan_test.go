package main

import (
	"slices"
	"testing"
)

func TestSplit(t *testing.T) {
	t.Parallel()
	flags := []string{"-race", "-p", "2"}
	tests := []struct {
		name       string
		all, apart []string
		want       [][]string
	}{
		{
			"ThoseThatAreTestedAloneComeLast", []string{"a", "b", "c"}, []string{"a", "c"},
			[][]string{{"-race", "-p", "2", "b"}, {"-race", "-p", "2", "-p", "1", "a", "c"}},
		},
		{"WhatIsNotAskedForIsNotTested", []string{"b"}, []string{"a"}, [][]string{{"-race", "-p", "2", "b"}}},
		{
			"NothingMayBeTestedBesideOthers", []string{"a"}, []string{"a"},
			[][]string{{"-race", "-p", "2", "-p", "1", "a"}},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := split(test.all, test.apart, flags)
			if !slices.EqualFunc(got, test.want, slices.Equal) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
