package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/daemon"
)

// nasty are texts that would start a line, leave a cell or colour a terminal.
var nasty = []string{
	"a\nfencerow: forged", "a\r\nb", "a\tb", "\x1b[31mred", "\x9b31m", "\u009b31m", "a\x00b", "\xff\xfe",
	"a\x7fb", "\u2028", "\u202e", "\u200b", "\ufffd", strings.Repeat("x", 1<<20) + "\n",
}

func TestNoTextBreaksALineOrATable(t *testing.T) {
	for _, s := range nasty {
		var stdout, stderr bytes.Buffer
		a := &app{stdout: &stdout, stderr: &stderr}
		doc := daemon.ProcessResult{CorrelationID: fencerow.CorrelationID(s), Reason: s}
		printed := a.print(doc, func(t *table) {
			t.row("correlation id", doc.CorrelationID)
			t.row("reason", doc.Reason)
			t.line("in a line: %s", s)
		})
		a.say("the claim was lost (%s)", s)
		a.json = true
		if err := a.print(doc, nil); err != nil || printed != nil {
			t.Fatal(printed, err)
		}
		data, talk := strings.Count(stdout.String(), "\n"), strings.Count(stderr.String(), "\n")
		if data != 4 || talk != 1 {
			t.Errorf("%.20q: %d lines of data and %d of talk", s, data, talk)
		}
		for line := range strings.Lines(stderr.String() + stdout.String()) {
			obeyed := func(r rune) bool { return unicode.IsControl(r) }
			if strings.ContainsFunc(strings.TrimSuffix(line, "\n"), obeyed) {
				t.Errorf("%.20q: it is shown as %.100q", s, line)
			}
		}
	}
}

func TestWhatPrintsIsShownAsItIs(t *testing.T) {
	for _, s := range []string{"", "a b", "desk-1", `{"memo":"café 😀"}`, "-12.50", "|"} {
		if got := visible(s); got != s {
			t.Errorf("%q is shown as %q", s, got)
		}
	}
	if got := visible("é\n\xff\x1b😀"); got != `é\n\xff\x1b😀` {
		t.Errorf("got %s", got)
	}
}
