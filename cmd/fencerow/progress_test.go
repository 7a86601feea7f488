package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestProgressIsDrawnOnATerminalOnly(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := newProgress(&out)
	p.update(1, 2, "bytes")
	p.end()
	if out.Len() != 0 {
		t.Errorf("drew %q into a file", out.String())
	}
	p.shown = true
	p.update(1, 2, "bytes")
	mustContain(t, out.String(), "[===============               ]  50%  1 bytes")
	p.update(3, 2, "bytes") // more than was foreseen, and too soon to be drawn
	if strings.Contains(out.String(), "100%") {
		t.Error("drew again at once")
	}
	out.Reset()
	if _, err := p.Write([]byte("a log line\n")); err != nil {
		t.Fatal(err)
	}
	if out.String() != clearTheLine+"a log line\n" {
		t.Errorf("a line beside it: %q", out.String())
	}
	p.update(3, 2, "bytes")
	mustContain(t, out.String(), "100%  3 bytes")
	p.end()
	if !strings.HasSuffix(out.String(), clearTheLine) {
		t.Errorf("left %q behind", out.String())
	}
	out.Reset()
	p.update(5, 0, "entries deleted")
	p.end()
	if strings.Contains(out.String(), "%") {
		t.Errorf("a part of an unknown whole: %q", out.String())
	}
}
