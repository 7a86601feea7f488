package config

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/version"
)

// Exit statuses that both binaries share.
const (
	ExitDone    = 0
	ExitFailure = 1
	ExitUsage   = 80
)

// helpWidth is how wide help is at most, in columns.
const helpWidth = 110

// NewParser returns a parser for a command line, with what both binaries share. Parsing does not end the
// process but for --help and --version; what went wrong is to be shown as [UsageText].
func NewParser(target any, name, description string, options ...kong.Option) (*kong.Kong, error) {
	shared := []kong.Option{
		kong.Name(name),
		kong.Description(description),
		kong.Vars{"version": name + " " + version.String()},
		kong.ConfigureHelp(kong.HelpOptions{WrapUpperBound: helpWidth}),
	}
	return kong.New(target, slices.Concat(shared, exactly(), options)...)
}

// UsageText reports whether err is the fault of whoever called the program, for which it exits with
// [ExitUsage], and how to say so. Values are left out of what kong says: they may be secrets.
func UsageText(err error) (text string, ok bool) {
	if input, ok := errors.AsType[*fencerow.InputError](err); ok {
		return input.Error(), true
	}
	if errors.Is(err, fencerow.ErrDSNInvalid) {
		return dsnSettings + " is not a PostgreSQL connection string; in a URL, percent-encode what is special " +
			"in the password: @ is %40, / is %2F, # is %23, % is %25", true
	}
	if parse, ok := errors.AsType[*kong.ParseError](err); ok {
		return namingCommands(parse.Context, withoutValues(parse.Error())), true
	}
	return "", false
}

// namingCommands says of an argument that stands where a command is expected that it is none, and which there
// are unless one was meant plainly.
func namingCommands(parsed *kong.Context, text string) string {
	const argument = "unexpected argument"
	if parsed == nil || !strings.HasPrefix(text, argument) {
		return text
	}
	node := parsed.Selected()
	if node == nil {
		node = parsed.Model.Node
	}
	if len(node.Children) == 0 {
		return text
	}
	if text != argument {
		return "unknown command" + strings.TrimPrefix(text, argument)
	}
	names := make([]string, len(node.Children))
	for i, child := range node.Children {
		names[i] = child.Name
	}
	return "unknown command; there are " + strings.Join(names, ", ")
}

const hint = `, did you mean (?:one of )?"[a-z", -]+\?`

var (
	fromVariable = regexp.MustCompile(` \(from envar (FENCEROW_[A-Z_]+)=`)
	unexpected   = regexp.MustCompile(`(?s)^unexpected (flag argument|argument|token) .*?(|` + hint + `)$`)
	unknownFlag  = regexp.MustCompile(`^unknown flag --?[a-z][a-z-]{0,23}(|` + hint + `)$`)
	quotedValue  = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
)

// withoutValues takes out of a parser's error what may be a value that the user gave: the offending argument,
// what stands behind "but got", and the content of a variable. A hint at what may have been meant stays.
func withoutValues(text string) string {
	source := ""
	if m := fromVariable.FindStringSubmatchIndex(text); m != nil {
		source = " (from " + text[m[2]:m[3]] + ")"
		text = text[:m[0]]
	}
	if expected, got, found := strings.Cut(text, " but got "); found {
		return expected + advice(expected, got) + source
	}
	if m := unexpected.FindStringSubmatch(text); m != nil {
		return "unexpected " + m[1] + m[2]
	}
	if strings.HasPrefix(text, "unknown flag ") && !unknownFlag.MatchString(text) {
		return "unknown flag" + source // more than a mistyped name: a secret may have been pasted as one
	}
	if strings.HasPrefix(text, "expected ") || strings.HasPrefix(text, "unknown flag ") {
		return text + source // what is quoted there are names of commands and flags
	}
	return quotedValue.ReplaceAllLiteralString(text, "the value") + source
}

// advice says how what was expected is written, and not what was given.
func advice(expected, got string) string {
	flag, what, _ := strings.Cut(expected, ": ")
	switch {
	case strings.Contains(got, "; perhaps try --") && strings.HasPrefix(flag, "--"): // It was taken for a flag.
		return "; for a value that begins with - write " + flag + "=VALUE"
	case what == "expected duration":
		return ", such as 30s or 5m"
	}
	return ""
}

// asFlag names a setting in an error as the user knows it: batch_limit is --batch-limit and
// FENCEROW_BATCH_LIMIT.
func asFlag(err error) error {
	input, ok := errors.AsType[*fencerow.InputError](err)
	if !ok || strings.HasPrefix(input.Field, "-") || strings.HasPrefix(input.Field, variablePrefix) {
		return err
	}
	name := strings.ReplaceAll(strings.ReplaceAll(input.Field, " ", "_"), "-", "_")
	return &fencerow.InputError{
		Field:   "--" + strings.ReplaceAll(name, "_", "-") + " (" + variablePrefix + strings.ToUpper(name) + ")",
		Problem: input.Problem,
	}
}

const variablePrefix = "FENCEROW_"

func inputError(field, problem string) error {
	return asFlag(&fencerow.InputError{Field: field, Problem: problem})
}
