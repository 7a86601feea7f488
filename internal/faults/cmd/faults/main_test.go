package main

import (
	"strings"
	"testing"
)

func TestAnUnknownMutantIsRefusedAndTheOthersAreNamed(t *testing.T) {
	t.Parallel()
	for _, name := range append(names(), "") {
		if err := checkMutant(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := checkMutant("nope"); err == nil || !strings.Contains(err.Error(), strings.Join(names(), ", ")) {
		t.Errorf("got %v", err)
	}
}
