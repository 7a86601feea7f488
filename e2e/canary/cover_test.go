package canary

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fourblocks2020/fencerow"
)

// harmless are the types whose constants are no failure. Those of every other type of text are what a failure
// can be shown as.
var harmless = []string{
	"AnswerClass", "Certainty", "Check", "ClaimResult", "Command", "EnqueueResult", "Format", "Kind", "Mode",
	"OutcomeKind", "ResolveResult", "Rule", "Scope", "SkipReason", "Status", "string",
}

// prefixes begin the names of constants without a type that are what a failure can be shown as.
var prefixes = []string{"code", "reason", "NotReady"}

func TestEveryCodeHasARow(t *testing.T) {
	t.Parallel()
	covered := map[string]bool{}
	for _, s := range scenes() {
		for _, r := range s.rows(t) {
			for _, code := range r.codes {
				covered[code] = true
			}
		}
	}
	known := codesOfTheSource(t)
	for _, reason := range fencerow.ReasonCodes() {
		known[string(reason)] = "ReasonCodes"
	}
	if len(known) < 90 {
		t.Fatalf("only %d codes were found in the source", len(known))
	}
	for code, where := range known {
		if !covered[code] {
			t.Errorf("no row shows %s (%s)", code, where)
		}
	}
	for code := range covered {
		if known[code] == "" {
			t.Errorf("a row stands for %s, which is no code", code)
		}
	}
}

// codesOfTheSource returns the values of the constants of the vocabularies and where they are declared.
func codesOfTheSource(t *testing.T) map[string]string {
	known := map[string]string{}
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		// What tests and measurements are made of.
		apart := slices.Contains([]string{"badinput", "bench", "faults", "pgtest"}, name)
		if entry.IsDir() && (strings.HasPrefix(name, ".") && len(name) > 2 || apart) {
			return fs.SkipDir
		}
		if entry.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, declaration := range file.Decls {
			if group, ok := declaration.(*ast.GenDecl); ok && group.Tok == token.CONST {
				addCodes(known, path, group)
			}
		}
		return nil
	})
	check(t, err)
	return known
}

func addCodes(known map[string]string, path string, group *ast.GenDecl) {
	for _, spec := range group.Specs {
		values, ok := spec.(*ast.ValueSpec)
		if !ok {
			continue
		}
		for i, name := range values.Names {
			if i >= len(values.Values) || !isCode(name.Name, values.Type) {
				continue
			}
			literal, ok := values.Values[i].(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				continue // another name of a code
			}
			value, err := strconv.Unquote(literal.Value)
			if err == nil && fencerow.ReasonCode(value).Valid() {
				known[value] = path
			}
		}
	}
}

// isCode reports whether a constant is what a failure can be shown as, by its type or its name.
func isCode(name string, of ast.Expr) bool {
	switch of := of.(type) {
	case *ast.Ident:
		return !slices.Contains(harmless, of.Name)
	case *ast.SelectorExpr:
		return !slices.Contains(harmless, of.Sel.Name)
	}
	return slices.ContainsFunc(prefixes, func(prefix string) bool {
		rest, ok := strings.CutPrefix(name, prefix)
		return ok && rest != "" && rest[0] >= 'A' && rest[0] <= 'Z'
	})
}
