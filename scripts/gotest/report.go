package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// event is one event of `go test -json`; `go doc cmd/test2json` describes it.
type event struct {
	Action  string
	Package string
	Test    string // empty: the event is the package's
	Output  string
}

// testID names a test across packages.
type testID struct{ pkg, test string }

// report counts tests and writes what a person wants to see of them.
type report struct {
	out                     io.Writer
	passed, failed, skipped int
	// open has the output of the tests that have not ended; it is shown if they fail or are skipped.
	open map[testID]*strings.Builder
}

func newReport(out io.Writer) *report {
	return &report{out: out, open: map[testID]*strings.Builder{}}
}

func (r *report) add(e event) {
	id := testID{e.Package, e.Test}
	switch e.Action {
	case "output", "build-output":
		r.output(id, e.Output)
	case "run":
		r.open[id] = &strings.Builder{}
	case "pass", "fail", "skip":
		if e.Test != "" {
			r.end(id, e.Action)
		} else if e.Action == "fail" {
			r.endOpen(e.Package)
		}
	}
}

func (r *report) output(id testID, text string) {
	switch {
	case strings.HasPrefix(text, "=== "), text == "PASS\n":
		// Progress that go test shows with -v only.
	case r.open[id] != nil:
		r.open[id].WriteString(text)
	case id.test == "":
		fmt.Fprint(r.out, text)
	}
}

func (r *report) end(id testID, action string) {
	switch action {
	case "pass":
		r.passed++
	case "fail":
		r.failed++
		r.show(id)
	case "skip":
		r.skipped++
		r.show(id)
	}
	delete(r.open, id)
}

// endOpen counts the tests that a dead test binary left without an end as failed.
func (r *report) endOpen(pkg string) {
	var left []testID
	for id := range r.open {
		if id.pkg == pkg {
			left = append(left, id)
		}
	}
	slices.SortFunc(left, func(a, b testID) int { return strings.Compare(a.test, b.test) })
	for _, id := range left {
		r.end(id, "fail")
	}
}

func (r *report) show(id testID) {
	if output := r.open[id]; output != nil {
		fmt.Fprint(r.out, output.String())
	}
}
