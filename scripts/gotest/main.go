// Command gotest runs `go test` with the arguments it is given and holds it to more: no test may be skipped,
// and at least one must run. It shows what `go test` shows without -v, and ends with a count of all tests,
// subtests included.
//
//	gotest [-allow-skips] [-alone PACKAGES] -packages PACKAGES [--] FLAGS OF GO TEST
//
// PACKAGES are patterns with spaces between them. Those that -alone names are tested last, one after another,
// so that each has the machine for itself. The others are tested as the flags of go test say.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	allowSkips := flag.Bool("allow-skips", false, "a skipped test is no failure")
	packages := flag.String("packages", "./...", "`packages` to test")
	alone := flag.String("alone", "", "those of the `packages` that are tested one after the other")
	flag.Parse()
	// An interrupt from the terminal reaches go test, too; this process waits for its end and reports.
	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, os.Interrupt, syscall.SIGTERM)
	runs, err := plan(strings.Fields(*packages), strings.Fields(*alone), flag.Args())
	if err != nil {
		fmt.Fprintf(os.Stderr, "gotest: %v\n", err)
		os.Exit(1)
	}
	r := newReport(os.Stdout)
	err = testAll(runs, func(args []string) error { return test(r, args) }, stopped)
	fmt.Printf("%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
	os.Exit(verdict(r, err, *allowSkips))
}

// errStopped says that packages were left untested.
var errStopped = errors.New("stopped")

// testAll returns the first error of the runs. Once stopped it begins no other, and what was not tested is an
// error.
func testAll(runs [][]string, test func(args []string) error, stopped <-chan os.Signal) (first error) {
	for i, args := range runs {
		if err := test(args); first == nil {
			first = err
		}
		if len(stopped) > 0 && i+1 < len(runs) {
			fmt.Fprintln(os.Stderr, "gotest: stopped before every package was tested")
			return cmp.Or(first, errStopped)
		}
	}
	return first
}

// test runs go test once and adds what came of it to the report.
func test(r *report, args []string) error {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	output, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "gotest: %v\n", err)
		return err
	}
	if err := r.read(output); err != nil {
		fmt.Fprintf(os.Stderr, "gotest: read the events of go test: %v\n", err)
		_ = cmd.Wait() // the events are lost either way
		return err
	}
	return cmd.Wait()
}

// verdict turns the counts and the first error of go test into an exit status.
func verdict(r *report, waitErr error, allowSkips bool) int {
	exit, isExit := errors.AsType[*exec.ExitError](waitErr)
	switch {
	case isExit && exit.ExitCode() > 0:
		return exit.ExitCode()
	case waitErr != nil, r.failed > 0:
		return 1
	case r.skipped > 0 && !allowSkips:
		fmt.Fprintln(os.Stderr, "gotest: tests were skipped; a test that cannot run must fail")
		return 1
	case r.passed == 0:
		fmt.Fprintln(os.Stderr, "gotest: no test ran")
		return 1
	}
	return 0
}

// maxLine bounds one event; a test's output comes line by line, so only a very long line comes near it.
const maxLine = 16 << 20

// read takes up the events of `go test -json` until their end.
func (r *report) read(events io.Reader) error {
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			// Not an event: what a tool wrote past go test.
			fmt.Fprintln(r.out, lines.Text())
			continue
		}
		r.add(e)
	}
	return lines.Err()
}
