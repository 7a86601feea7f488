// Package docs holds no code. Its tests keep what is written here equal to what the code says: tables of
// codes, settings, columns, packages and invariants, the SQL and Go that a reader would copy, and the links.
package docs

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the generated tables")

// read returns a file of the repository.
func read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// section returns what stands under a heading, up to the next one of the same or a higher level.
func section(t testing.TB, doc, heading string) string {
	t.Helper()
	level := strings.IndexByte(heading, ' ')
	_, rest, found := strings.Cut("\n"+doc, "\n"+heading+"\n")
	if !found {
		t.Fatalf("there is no heading %q", heading)
	}
	end := regexp.MustCompile(`(?m)^#{1,` + strconv.Itoa(level) + `} `).FindStringIndex(rest)
	if end == nil {
		return rest
	}
	return rest[:end[0]]
}

// rows returns the body of every table in text, cell by cell.
func rows(text string) [][]string {
	var found [][]string
	inBody := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case !strings.HasPrefix(line, "|"):
			inBody = false
		case strings.Trim(line, "|-: ") == "":
			inBody = true
		case inBody:
			cells := strings.Split(strings.Trim(line, "|"), " | ")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			found = append(found, cells)
		}
	}
	return found
}

var quoted = regexp.MustCompile("`([^`]+)`")

// codes returns what stands in backticks.
func codes(cell string) []string {
	var all []string
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		all = append(all, m[1])
	}
	return all
}

// firstColumn returns the codes in the first column of the tables in text. A row without one, a code in two
// rows, or an empty cell fails the test.
func firstColumn(t testing.TB, text string) []string {
	t.Helper()
	var all []string
	for _, row := range rows(text) {
		names := codes(row[0])
		if len(names) == 0 {
			t.Errorf("a row without a name in its first column: %v", row)
		}
		for _, name := range names {
			if slices.Contains(all, name) {
				t.Errorf("%s has two rows", name)
			}
		}
		if slices.Contains(row, "") {
			t.Errorf("a row with an empty cell: %v", row)
		}
		all = append(all, names...)
	}
	return all
}

// listed returns the first column under a heading of a page.
func listed(t testing.TB, page, heading string) []string {
	t.Helper()
	return firstColumn(t, section(t, read(t, "docs/"+page), heading))
}

// sameSet fails the test unless the documented names are those of the code.
func sameSet(t testing.TB, what string, documented, inCode []string) {
	t.Helper()
	if len(inCode) == 0 {
		t.Errorf("%s: none was found in the code", what)
	}
	for _, name := range inCode {
		if !slices.Contains(documented, name) {
			t.Errorf("%s %s is not documented", what, name)
		}
	}
	for _, name := range documented {
		if !slices.Contains(inCode, name) {
			t.Errorf("%s %s is documented and does not exist", what, name)
		}
	}
}

// block returns the first fenced block of a language.
func block(t testing.TB, text, language string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, "```"+language+"\n")
	if !found {
		t.Fatalf("there is no block of %s", language)
	}
	body, _, _ := strings.Cut(rest, "```\n")
	return body
}

// files parses the Go files of a folder; those of tests only if asked for.
func files(t testing.TB, folder string, tests bool) (*token.FileSet, map[string]*ast.File) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("..", folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	set, parsed := token.NewFileSet(), map[string]*ast.File{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") && !tests {
			continue
		}
		if parsed[path], err = parser.ParseFile(set, path, nil, parser.ParseComments); err != nil {
			t.Fatal(err)
		}
	}
	return set, parsed
}

// constants returns the values of the string constants that a folder declares with one of the types.
func constants(t testing.TB, folder string, types ...string) []string {
	t.Helper()
	_, parsed := files(t, folder, false)
	var values []string
	for _, path := range slices.Sorted(maps.Keys(parsed)) {
		ast.Inspect(parsed[path], func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || spec.Type == nil || !slices.Contains(types, typeName(spec.Type)) {
				return true
			}
			for _, value := range spec.Values {
				if literal, ok := value.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					text, err := strconv.Unquote(literal.Value)
					if err != nil {
						t.Fatal(err)
					}
					values = append(values, text)
				}
			}
			return true
		})
	}
	return values
}

// typeName returns the name of a type without its package.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}
