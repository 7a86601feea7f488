package docs

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
)

func TestEveryFailureOfTheWebhookIsExplained(t *testing.T) {
	t.Parallel()
	sameSet(t, "failure of the webhook", listed(t, "operations.md", "### Failures of the webhook"),
		constants(t, "internal/observe", "WebhookFailure"))
}

func TestEveryClaimResultIsExplained(t *testing.T) {
	t.Parallel()
	sameSet(t, "claim result", firstColumn(t, section(t, read(t, "docs/interfaces.md"), "### Claim results")),
		constants(t, "internal/observe", "ClaimResult"))
}

// Each attribute of a record is named by a constant of observe, and each constant is documented.
func TestEveryAttributeOfARecordIsExplained(t *testing.T) {
	t.Parallel()
	_, parsed := files(t, "internal/observe", false)
	var inCode []string
	for path, file := range parsed {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for i, name := range n.Names {
					if strings.HasPrefix(name.Name, "key") && i < len(n.Values) {
						inCode = append(inCode, text(t, n.Values[i]))
					}
				}
			case *ast.CallExpr:
				if selected(n.Fun, "slog") == "" || !attributeMakers[selected(n.Fun, "slog")] {
					return true
				}
				if key, ok := n.Args[0].(*ast.Ident); !ok || !strings.HasPrefix(key.Name, "key") {
					t.Errorf("%s names an attribute by something else than a constant", path)
				}
			}
			return true
		})
	}
	log := section(t, read(t, "docs/interfaces.md"), "## Log")
	documented := []string{"instance_key"} // every record has it
	for _, row := range rows(log) {
		for _, name := range codes(row[len(row)-1]) {
			if !slices.Contains(documented, name) && !isCode(name) {
				documented = append(documented, name)
			}
		}
	}
	sameSet(t, "attribute", documented, inCode)
}

// attributeMakers are the functions of slog that make an attribute.
var attributeMakers = map[string]bool{
	"String": true, "Int": true, "Int64": true, "Uint64": true, "Float64": true, "Bool": true, "Time": true,
	"Duration": true, "Any": true, "Group": true,
}

// isCode tells values that the table names from attributes.
func isCode(name string) bool { return name == "none" || name == "target_resumed" }

func text(t *testing.T, e ast.Expr) string {
	t.Helper()
	literal, ok := e.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		t.Fatalf("%v is no literal text", e)
	}
	s, err := strconv.Unquote(literal.Value)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// selected returns X of an expression pkg.X, else nothing.
func selected(e ast.Expr, pkg string) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		if of, ok := s.X.(*ast.Ident); ok && of.Name == pkg {
			return s.Sel.Name
		}
	}
	return ""
}

// Every way of the standard library to write a record, or a line, past internal/observe.
//
// The linter forbids calls by their types; this forbids the names, in every file that is built, so that
// a handler made here and a logger made there do not slip through either.
func TestNothingButObserveWritesTheLog(t *testing.T) {
	t.Parallel()
	looked := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
		hidden := strings.HasPrefix(d.Name(), ".") && name != ".." && path != ".."
		if d.IsDir() && (hidden || name == "bench" || name == "tools" || d.Name() == "testdata") {
			return fs.SkipDir // modules of their own
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		looked++
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		for _, found := range writesPast(name, file) {
			t.Errorf("%s: only internal/observe writes the log, and only a command to standard streams: %s",
				name, found)
		}
		return nil
	})
	if err != nil || looked < 100 {
		t.Errorf("%d files were looked at: %v", looked, err)
	}
}

// allowedOfSlog are types that others than observe may name: they make no record.
var allowedOfSlog = []string{"Handler", "Leveler", "Level", "LogValuer", "Value", "StringValue"}

// allowedOfDebug are what others may name of runtime/debug: it prints nothing.
var allowedOfDebug = []string{"BuildInfo", "ReadBuildInfo", "SetGCPercent"}

// writesPast returns what a file uses that it must not.
func writesPast(name string, file *ast.File) []string {
	observe := strings.HasPrefix(name, "internal/observe/")
	command := strings.HasPrefix(name, "cmd/") || strings.Contains(name, "/cmd/") ||
		strings.HasPrefix(name, "scripts/") || strings.HasPrefix(name, "internal/pgtest/") // for tests only
	var found []string
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		logs := path == "log" || path == "log/slog" || path == "log/syslog" || path == "runtime/debug"
		switch {
		case err != nil, !logs:
		case spec.Name != nil:
			found = append(found, path+" under another name")
		case path == "log/syslog":
			found = append(found, path)
		}
	}
	discards := discardingLoggers(file)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			switch of, _ := n.X.(*ast.Ident); {
			case of == nil || of.Obj != nil: // a variable of this file
			case of.Name == "debug" && !slices.Contains(allowedOfDebug, n.Sel.Name):
				found = append(found, "debug."+n.Sel.Name)
			case of.Name == "slog" && !observe && !slices.Contains(allowedOfSlog, n.Sel.Name):
				found = append(found, "slog."+n.Sel.Name)
			case of.Name == "log" && !discards[n]:
				found = append(found, "log."+n.Sel.Name)
			case of.Name == "os" && !command && (n.Sel.Name == "Stderr" || n.Sel.Name == "Stdout"):
				found = append(found, "os."+n.Sel.Name)
			case of.Name == "fmt" && !command && strings.HasPrefix(n.Sel.Name, "Print"):
				found = append(found, "fmt."+n.Sel.Name)
			}
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok && (id.Name == "print" || id.Name == "println") && id.Obj == nil {
				found = append(found, id.Name)
			}
		}
		return true
	})
	return found
}

// discardingLoggers returns the uses of package log that write nowhere: a logger made for a library that
// wants one, and the standard logger turned off.
func discardingLoggers(file *ast.File) map[*ast.SelectorExpr]bool {
	found := map[*ast.SelectorExpr]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 || selected(call.Args[0], "io") != "Discard" {
			return true
		}
		if f, ok := call.Fun.(*ast.SelectorExpr); ok && (f.Sel.Name == "New" || f.Sel.Name == "SetOutput") {
			found[f] = true
		}
		return true
	})
	return found
}

// The test above finds each of the ways.
func TestEachWayPastObserveIsFound(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`import "log/slog"; func f() { slog.Info("x") }`,
		`import "log/slog"; var l = slog.New(nil)`,
		`import "log/slog"; func f() { slog.SetDefault(nil) }`,
		`import "log/slog"; var h = slog.NewJSONHandler(nil, nil)`,
		`import "log/slog"; func f(l *slog.Logger) { l.Info("x") }`,
		`import other "log/slog"; func f() { other.Info("x") }`,
		`import . "log"; func f() { Println("x") }`,
		`import "log"; func f() { log.Print("x") }`,
		`import "log"; func f() { log.Default().Print("x") }`,
		`import ("log"; "os"); var l = log.New(os.Stderr, "", 0)`,
		`import ("fmt"; "os"); func f() { fmt.Fprintln(os.Stderr, "x") }`,
		`import "os"; func f() { os.Stdout.WriteString("x") }`,
		`import "fmt"; func f() { fmt.Println("x") }`,
		`import "log/syslog"; var w, _ = syslog.New(0, "x")`,
		`import "runtime/debug"; func f() { debug.PrintStack() }`,
		`func f() { println("x") }`,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package p; "+body, 0)
		if err != nil {
			t.Fatal(err)
		}
		if found := writesPast("internal/writer/x.go", file); len(found) == 0 {
			t.Errorf("%s is not found", body)
		}
	}
	file, err := parser.ParseFile(token.NewFileSet(), "x.go",
		`package p; import ("io"; "log"; "log/slog"); var l = log.New(io.Discard, "", 0); var h slog.Handler`, 0)
	if found := writesPast("internal/daemon/x.go", file); err != nil || len(found) != 0 {
		t.Errorf("what writes nothing is found: %v, %v", found, err)
	}
}
