package badinput

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// runLimit bounds a call with what it must refuse.
	runLimit = time.Minute
	// atOnce is how many processes run side by side.
	atOnce = 4
)

// InProcess tries all values, and all ways, with a program that call runs within this process, in an empty
// folder and without variables but the call's. What is legal is run with a context that is over, so that it
// only begins. It returns how many values were tried and how many refused. The test must not be parallel.
func InProcess(
	t *testing.T, settings []Setting, call func(ctx context.Context, arguments []string) Ending,
) (tried, refused int) {
	t.Helper()
	keepEnvironment(t)
	t.Chdir(t.TempDir())
	over, end := context.WithCancel(t.Context())
	end()
	for trial := range trials(settings, t.TempDir()) {
		tried++
		arguments, variables := trial.call()
		setEnvironment(t, variables)
		if trial.isLegal() {
			complain(t, trial, trial.taken(call(over, arguments)))
			continue
		}
		refused++
		within, cancel := context.WithTimeout(t.Context(), runLimit)
		complain(t, trial, trial.refused(call(within, arguments)))
		cancel()
	}
	mustBeEmpty(t, ".")
	return tried, refused
}

// Processes tries a value of each setting with processes of a program, in an empty folder and without
// variables but the call's. It returns how many.
func Processes(t *testing.T, settings []Setting, binary string) int {
	t.Helper()
	folder := t.TempDir()
	picked := slices.Collect(picks(settings, t.TempDir()))
	next := make(chan trial)
	var running sync.WaitGroup
	for range atOnce {
		running.Go(func() {
			for trial := range next {
				e, err := trial.run(t.Context(), binary, folder)
				if err != nil {
					t.Errorf("%s: %v", trial, err)
				}
				complain(t, trial, trial.refused(e))
			}
		})
	}
	for _, trial := range picked {
		next <- trial
	}
	close(next)
	running.Wait()
	mustBeEmpty(t, folder)
	return len(picked)
}

func complain(t *testing.T, of trial, wrong []string) {
	t.Helper()
	for _, what := range wrong {
		t.Errorf("%s: %s", of, what)
	}
}

func mustBeEmpty(t *testing.T, folder string) {
	t.Helper()
	left, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("files were made: %v", left)
	}
}

// keepEnvironment puts the environment of this process back when the test ends.
func keepEnvironment(t *testing.T) {
	t.Helper()
	before := map[string]string{}
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		before[name] = value
	}
	t.Setenv(prefix+"TEST", "") // It refuses a parallel test, which would see what this one sets.
	t.Cleanup(func() { setEnvironment(t, before) })
}

// setEnvironment replaces the whole environment.
func setEnvironment(t *testing.T, variables map[string]string) {
	t.Helper()
	os.Clearenv()
	for name, value := range variables {
		if err := os.Setenv(name, value); err != nil { //nolint:usetesting // it is put back as a whole
			t.Fatal(err)
		}
	}
}
