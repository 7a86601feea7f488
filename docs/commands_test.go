package docs

import (
	"cmp"
	"fmt"
	"go/ast"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fourblocks2020/fencerow/internal/config"
)

// The example of README.md is compiled and run in package outbox.
func TestReadmeShowsTheExampleThatIsTested(t *testing.T) {
	t.Parallel()
	set, parsed := files(t, "outbox", true)
	for path, file := range parsed {
		for _, decl := range file.Decls {
			book, ok := decl.(*ast.FuncDecl)
			if !ok || book.Name.Name != "book" {
				continue
			}
			text := read(t, strings.TrimPrefix(filepath.ToSlash(path), "../"))
			source := text[set.Position(book.Pos()).Offset:set.Position(book.End()).Offset]
			if shown := block(t, read(t, "README.md"), "go"); strings.TrimSpace(shown) != source {
				t.Errorf("README.md shows\n%s\nand what is tested is\n%s", shown, source)
			}
			return
		}
	}
	t.Error("package outbox has no function book")
}

// generated returns doc with the text between the marks of a generated table replaced.
func generated(t *testing.T, doc, name, table string) string {
	t.Helper()
	begin, end := "<!-- generated: "+name+" -->\n", "<!-- end: "+name+" -->\n"
	before, rest, found := strings.Cut(doc, begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("there are no marks of the table %s", name)
	}
	return before + begin + table + end + after
}

// The tables of settings are what the programs' own help says; `go test ./docs -update` writes them.
func TestSettingsAreThoseOfTheHelp(t *testing.T) {
	t.Parallel()
	const path = "docs/operations.md"
	doc := read(t, path)
	want := generated(t, doc, "settings", sharedSettings(t))
	want = generated(t, want, "command settings", commandSettings(t))
	switch {
	case want == doc:
	case *update:
		if err := os.WriteFile(filepath.Join("..", path), []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	default:
		t.Error("the tables of settings are not those of the help; run go test ./docs -update")
	}
}

// sharedSettings renders the groups of settings that the programs have in common.
func sharedSettings(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| Variable | Flag | Default | What it says |\n|---|---|---|---|\n")
	b.WriteString("| `" + config.DSNVariable + "` | none |  | " +
		"PostgreSQL connection string, a secret. Required, unless a file is named. |\n")
	b.WriteString("| `" + config.AlertURLVariable + "` | none |  | " +
		"Where alerts are posted beside the log, a secret. Without it, or a file named, they are only logged. |\n")
	for _, group := range []any{
		config.Instance{}, config.Database{}, config.Ledger{}, config.Writer{}, config.Daemon{}, config.Log{},
		config.NATS{}, config.Alerts{},
		config.OpsClient{},
	} {
		of := reflect.TypeOf(group)
		for i := range of.NumField() {
			tag := of.Field(i).Tag
			variable, flag := tag.Get("env"), tag.Get("name")
			if of == reflect.TypeOf(config.OpsClient{}) && variable == "FENCEROW_OPS_TOKEN_FILE" {
				continue // one variable, for who requires the token and for who sends it
			}
			if variable == "" || flag == "" || tag.Get("help") == "" {
				t.Errorf("%s.%s lacks a variable, a flag or a help text", of.Name(), of.Field(i).Name)
			}
			fallback := ""
			if tag.Get("default") != "" {
				fallback = "`" + tag.Get("default") + "`"
			}
			b.WriteString("| `" + variable + "` | `--" + flag + "` | " + fallback + " | " + tag.Get("help") + " |\n")
		}
	}
	return b.String()
}

var (
	flagStart   = regexp.MustCompile(`(?m)^ {2,6}(?:-[a-z], )?(--[a-z-]+)(=\S+)?`)
	ownVariable = regexp.MustCompile(`\(?\$(FENCEROW_[A-Z_]+)\)`)
)

// commandSettings renders the settings that only single commands have.
func commandSettings(t *testing.T) string {
	t.Helper()
	shared := sharedSettings(t)
	type setting struct{ flag, help string }
	settings, commands := map[string]setting{}, map[string][]string{}
	help := helpTexts(t)
	for _, command := range slices.Sorted(maps.Keys(help)) {
		text := help[command]
		starts := flagStart.FindAllStringSubmatchIndex(text, -1)
		for i, m := range starts {
			end := len(text)
			if i+1 < len(starts) {
				end = starts[i+1][0]
			}
			flag, rest := text[m[2]:m[3]], strings.Join(strings.Fields(text[m[1]:end]), " ")
			variable := ownVariable.FindStringSubmatchIndex(rest)
			if variable == nil {
				continue
			}
			name := rest[variable[2]:variable[3]]
			if strings.Contains(shared, "`"+flag+"`") && strings.Contains(shared, "`"+name+"`") {
				continue
			}
			settings[name] = setting{flag, strings.TrimSpace(rest[:variable[0]]) + "."}
			commands[name] = append(commands[name], command)
		}
	}
	var b strings.Builder
	b.WriteString("| Variable | Flag | Commands | What it says |\n|---|---|---|---|\n")
	names := slices.SortedFunc(maps.Keys(settings), func(x, y string) int {
		return cmp.Or(cmp.Compare(slices.Min(commands[x]), slices.Min(commands[y])), cmp.Compare(x, y))
	})
	for _, name := range names {
		of := slices.Sorted(slices.Values(commands[name]))
		which := "`" + strings.Join(slices.Compact(of), "`, `") + "`"
		if slices.Contains(of, "") {
			which = "all"
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", name, settings[name].flag, which, settings[name].help)
	}
	return b.String()
}

// helpTexts returns the committed help by command; the program's own has an empty name.
func helpTexts(t *testing.T) map[string]string {
	t.Helper()
	const folder = "cmd/fencerow/testdata/help"
	entries, err := os.ReadDir(filepath.Join("..", folder))
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, entry := range entries {
		name := strings.ReplaceAll(strings.TrimSuffix(entry.Name(), ".txt"), "_", " ")
		if name == "fencerow" {
			name = ""
		}
		texts[name] = read(t, folder+"/"+entry.Name())
	}
	if len(texts) < 10 {
		t.Fatalf("only %d help texts were found", len(texts))
	}
	return texts
}

// documents returns README.md and every page of this folder.
func documents(t *testing.T) []string {
	t.Helper()
	all := []string{"README.md", "CHANGELOG.md"}
	for _, pattern := range []string{"*.md", "adr/*.md"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			all = append(all, "docs/"+filepath.ToSlash(path))
		}
	}
	return all
}

var (
	commandUse = regexp.MustCompile("(?m)(?:^|`|&& |\\| |\\$ )fencerow ([a-z][a-z-]*)(?: ([a-z]+))?")
	makeUse    = regexp.MustCompile("(?m)(?:^|`)make ([a-z][a-z-]*)")
)

// A command that a page tells to run exists.
func TestCommandsThatAreToldExist(t *testing.T) {
	t.Parallel()
	help := helpTexts(t)
	makefile := read(t, "Makefile")
	used := 0
	for _, path := range documents(t) {
		text := read(t, path)
		for _, m := range commandUse.FindAllStringSubmatch(text, -1) {
			used++
			_, one := help[m[1]]
			_, two := help[m[1]+" "+m[2]]
			group := m[2] == "" && slices.ContainsFunc(slices.Collect(maps.Keys(help)), func(name string) bool {
				return strings.HasPrefix(name, m[1]+" ")
			})
			if !one && !two && !group {
				t.Errorf("%s: there is no command fencerow %s %s", path, m[1], m[2])
			}
		}
		for _, m := range makeUse.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(makefile, "\n"+m[1]+":") {
				t.Errorf("%s: there is no target %s", path, m[1])
			}
		}
	}
	if used < 10 {
		t.Errorf("only %d uses of a command were found", used)
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fenced  = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
)

func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	for _, path := range documents(t) {
		text := fenced.ReplaceAllString(read(t, path), "")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, anchor, hasAnchor := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := path
			if target != "" {
				file = filepath.ToSlash(filepath.Join(filepath.Dir(path), target))
			}
			if _, err := os.Stat(filepath.Join("..", file)); err != nil {
				t.Errorf("%s: %s leads nowhere", path, m[1])
				continue
			}
			if hasAnchor && !slices.Contains(anchors(read(t, file)), anchor) {
				t.Errorf("%s: %s has no such heading", path, m[1])
			}
		}
	}
}

// anchors returns how links name the headings of a page.
func anchors(text string) []string {
	var all []string
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		name := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		all = append(all, strings.ReplaceAll(name, " ", "-"))
	}
	return all
}

// Every decision is listed, and its file has the parts that such a record has.
func TestDecisionsAreListedAndWhole(t *testing.T) {
	t.Parallel()
	list := read(t, "docs/adr/README.md")
	paths, err := filepath.Glob("adr/[0-9]*.md")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no record was found (%v)", err)
	}
	for i, path := range paths {
		name := filepath.Base(path)
		text := read(t, "docs/adr/"+name)
		if !strings.Contains(list, "]("+name+")") {
			t.Errorf("%s is not listed", name)
		}
		if number := fmt.Sprintf("%04d-", i+1); !strings.HasPrefix(name, number) {
			t.Errorf("%s: the number should be %s", name, number)
		}
		for _, part := range []string{"## Context", "## Decision", "## Consequences"} {
			if strings.TrimSpace(section(t, text, part)) == "" {
				t.Errorf("%s: %s is empty", name, part)
			}
		}
	}
}
