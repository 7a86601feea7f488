package badinput

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// An Ending is how a program ended.
type Ending struct {
	Status         int
	Stdout, Stderr string
}

// statusUsage is the exit status of wrong usage.
const statusUsage = 80

// longestText bounds what is said about one value, in bytes: it must not depend on the value.
const longestText = 1000

// advice is how a text says what would be right, or at least what is wrong.
var advice = regexp.MustCompile(
	`must |give |such as|expected |is (not|no|a) |are not |names a file|longer than|larger than|holds |` +
		`missing|does not exist|cannot be|has (a|no) |needs |required|one of`)

// refused says what is wrong with how a program ended that was given a value it must refuse; nothing if all
// is as it should be.
func (t trial) refused(e Ending) []string {
	var wrong []string
	complain := func(bad bool, format string, args ...any) {
		if bad {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	complain(e.Status != statusUsage, "status %d", e.Status)
	complain(e.Stdout != "", "it prints %q", e.Stdout)
	complain(!strings.Contains(e.Stderr, t.Name), "it does not name %s", t.Name)
	complain(t.by == byVariable && !strings.Contains(e.Stderr, t.Variable), "it does not name %s", t.Variable)
	complain(!advice.MatchString(e.Stderr), "it does not say what would be right")
	if wrong = append(wrong, shown(t.value.text, e.Stderr)...); wrong != nil {
		wrong = append(wrong, fmt.Sprintf("it says %.300q", e.Stderr))
	}
	return wrong
}

// taken says what is wrong with how a program ended that was given a legal value.
func (t trial) taken(e Ending) []string {
	var wrong []string
	if e.Status == statusUsage {
		wrong = append(wrong, "it is refused")
	}
	// What is legal may be a name that is told; a secret is none of them.
	return append(wrong, unsafe(strings.ReplaceAll(e.Stderr, t.value.text, ""))...)
}

// shown says what is wrong with a text about a value that must not come out again.
func shown(value, text string) []string {
	wrong := unsafe(text)
	const distinct = 6 // bytes: a shorter value may be a part of any text
	if strings.Contains(text, Secret) || len(value) >= distinct && strings.Contains(text, value) {
		wrong = append(wrong, "it shows the value")
	}
	if len(text) > longestText {
		wrong = append(wrong, fmt.Sprintf("it says %d bytes", len(text)))
	}
	return wrong
}

// unsafe says what in a text a terminal could obey, or a reader take for more lines than there are.
func unsafe(text string) []string {
	var wrong []string
	for line := range strings.Lines(text) {
		bare := strings.TrimSuffix(line, "\n")
		if !utf8.ValidString(bare) || strings.ContainsFunc(bare, func(r rune) bool { return !unicode.IsPrint(r) }) {
			wrong = append(wrong, fmt.Sprintf("it has characters that do not print: %.200q", bare))
		}
	}
	if strings.Contains(text, "goroutine ") || strings.Contains(text, "panic: ") {
		wrong = append(wrong, "it panics")
	}
	return wrong
}
