package main

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// visible returns text in which nothing ends a line, leaves its cell or is obeyed by a terminal: what does
// not print is escaped. What is shown was checked when it came in; this is for what came past that, such as
// an answer of something that only looks like a daemon.
func visible(text string) string {
	hidden := func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }
	if !strings.ContainsFunc(text, hidden) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if hidden(r) {
			quoted := strconv.QuoteToASCII(text[:size])
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteString(text[:size])
		}
		text = text[size:]
	}
	return b.String()
}
