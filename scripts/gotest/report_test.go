package main

import (
	"errors"
	"strings"
	"testing"
)

// lines are the events of one run, in the form that go test writes them.
func lines(events ...string) string {
	return strings.Join(events, "\n") + "\n"
}

func TestReport(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, events string
		want         string
		passed       int
		failed       int
		skipped      int
	}{
		{
			name: "PassedTestIsCountedInSilence",
			events: lines(
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: hidden\n"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"--- PASS: TestA (0.00s)\n"}`,
				`{"Action":"pass","Package":"p","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Output":"PASS\n"}`,
				`{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}`,
				`{"Action":"pass","Package":"p"}`),
			want:   "ok  \tp\t0.1s\n",
			passed: 1,
		},
		{
			name: "FailedAndSkippedTestsShowTheirOutput",
			events: lines(
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"run","Package":"p","Test":"TestB"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: why\n"}`,
				`{"Action":"output","Package":"p","Test":"TestB","Output":"    a_test.go:2: no server\n"}`,
				`{"Action":"fail","Package":"p","Test":"TestA"}`,
				`{"Action":"skip","Package":"p","Test":"TestB"}`,
				`{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}`,
				`{"Action":"fail","Package":"p"}`),
			want:    "    a_test.go:1: why\n    a_test.go:2: no server\nFAIL\tp\t0.1s\n",
			failed:  1,
			skipped: 1,
		},
		{
			name: "TestWithoutAnEndFailedWithItsBinary",
			events: lines(
				`{"Action":"run","Package":"p","Test":"TestA"}`,
				`{"Action":"run","Package":"q","Test":"TestA"}`,
				`{"Action":"output","Package":"p","Test":"TestA","Output":"panic: test timed out\n"}`,
				`{"Action":"fail","Package":"p"}`,
				`{"Action":"pass","Package":"q","Test":"TestA"}`),
			want:   "panic: test timed out\n",
			passed: 1,
			failed: 1,
		},
		{
			name: "BuildErrorAndForeignLineAreShown",
			events: lines(
				`{"ImportPath":"p","Action":"build-output","Output":"a.go:1: undefined: x\n"}`,
				`something else`),
			want: "a.go:1: undefined: x\nsomething else\n",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			r := newReport(&out)
			if err := r.read(strings.NewReader(test.events)); err != nil {
				t.Fatal(err)
			}
			if out.String() != test.want {
				t.Errorf("output:\n%q\nwant:\n%q", out.String(), test.want)
			}
			if r.passed != test.passed || r.failed != test.failed || r.skipped != test.skipped {
				t.Errorf("%d passed, %d failed, %d skipped", r.passed, r.failed, r.skipped)
			}
		})
	}
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		counts     report
		waitErr    error
		allowSkips bool
		want       int
	}{
		{name: "AllPassed", counts: report{passed: 1}, want: 0},
		{name: "OneFailed", counts: report{passed: 1, failed: 1}, want: 1},
		{name: "OneSkipped", counts: report{passed: 1, skipped: 1}, want: 1},
		{name: "SkipsAllowed", counts: report{passed: 1, skipped: 1}, allowSkips: true, want: 0},
		{name: "NothingRan", want: 1},
		{name: "GoTestDied", counts: report{passed: 1}, waitErr: errors.New("signal: killed"), want: 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := verdict(&test.counts, test.waitErr, test.allowSkips); got != test.want {
				t.Errorf("exit status %d, want %d", got, test.want)
			}
		})
	}
}
