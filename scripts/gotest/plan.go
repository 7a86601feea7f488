package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// plan returns the arguments of each run of go test: of the packages that may be tested side by side, and of
// those that are tested alone. A run without packages is left out.
func plan(packages, alone, flags []string) ([][]string, error) {
	all, err := list(packages)
	if err != nil || len(alone) == 0 {
		return [][]string{slices.Concat(flags, all)}, err
	}
	apart, err := list(alone)
	return split(all, apart, flags), err
}

func split(all, apart, flags []string) [][]string {
	var beside, after []string
	for _, p := range all {
		if slices.Contains(apart, p) {
			after = append(after, p)
		} else {
			beside = append(beside, p)
		}
	}
	var runs [][]string
	if len(beside) > 0 {
		runs = append(runs, slices.Concat(flags, beside))
	}
	if len(after) > 0 {
		runs = append(runs, slices.Concat(flags, []string{"-p", "1"}, after))
	}
	return runs
}

// list returns the import paths of the packages that patterns stand for.
func list(patterns []string) ([]string, error) {
	cmd := exec.Command("go", append([]string{"list"}, patterns...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	return strings.Fields(string(out)), nil
}
