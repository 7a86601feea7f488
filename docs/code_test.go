package docs

import (
	"go/ast"
	"go/token"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fourblocks2020/fencerow"
)

const module = "github.com/fourblocks2020/fencerow"

func TestEveryReasonIsExplained(t *testing.T) {
	t.Parallel()
	var inCode []string
	for _, code := range fencerow.ReasonCodes() {
		inCode = append(inCode, string(code))
	}
	sameSet(t, "reason", listed(t, "operations.md", "### Reasons of an outcome"), inCode)
}

func TestEveryErrorCodeIsExplained(t *testing.T) {
	t.Parallel()
	inCode := constants(t, ".", "Code")
	for _, folder := range []string{
		"internal/writer", "internal/daemon", "internal/slots", "internal/slots/natsrpc",
	} {
		inCode = append(inCode, constants(t, folder, "Code")...)
	}
	sameSet(t, "error code", listed(t, "operations.md", "### Error codes"), inCode)
}

func TestEveryNoticeAlertAndAnswerIsExplained(t *testing.T) {
	t.Parallel()
	const page = "operations.md"
	sameSet(t, "notice", listed(t, page, "### Notices"), constants(t, "internal/observe", "Notice"))
	sameSet(t, "alert", listed(t, page, "### Alerts"), constants(t, "internal/observe", "AlertEvent"))
	sameSet(t, "refusal", listed(t, page, "### Why a claim was refused or lost"),
		constants(t, ".", "RefusedWhy", "LostReason"))
}

// Every record of the log goes through one method of observe, whose second argument names the event.
func TestEveryLogEventIsExplained(t *testing.T) {
	t.Parallel()
	_, parsed := files(t, "internal/observe", false)
	var inCode []string
	for _, file := range parsed {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || typeName(call.Fun) != "write" || len(call.Args) < 2 {
				return true
			}
			literal, ok := call.Args[1].(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			name, err := strconv.Unquote(literal.Value)
			if err == nil && !slices.Contains(inCode, name) {
				inCode = append(inCode, name)
			}
			return true
		})
	}
	var documented []string
	for _, row := range rows(section(t, read(t, "docs/operations.md"), "### Log events")) {
		for _, name := range codes(row[0]) {
			if !slices.Contains(documented, name) {
				documented = append(documented, name)
			}
		}
	}
	sameSet(t, "log event", documented, inCode)
}

var metric = regexp.MustCompile(`json:"([a-z_]+_total)"`)

func counters(t testing.TB) []string {
	t.Helper()
	var all []string
	for _, m := range metric.FindAllStringSubmatch(read(t, "internal/observe/metrics.go"), -1) {
		all = append(all, m[1])
	}
	return all
}

func TestEveryCounterIsExplained(t *testing.T) {
	t.Parallel()
	sameSet(t, "counter", listed(t, "runtime-flows.md", "## Operator metrics"), counters(t))
}

var tableColumn = regexp.MustCompile(`(?m)^    ([a-z_]+) [^,]`)

func TestEveryColumnIsExplained(t *testing.T) {
	t.Parallel()
	model := section(t, read(t, "docs/architecture.md"), "## Data model")
	tables := 0
	for _, part := range strings.Split(read(t, "sql/schema.golden.sql"), "CREATE TABLE fencerow.")[1:] {
		name, body, _ := strings.Cut(part, " (\n")
		body, _, _ = strings.Cut(body, "\n)")
		if !strings.HasPrefix(name, "ledger_") {
			continue
		}
		tables++
		var columns []string
		for _, m := range tableColumn.FindAllStringSubmatch(body, -1) {
			columns = append(columns, m[1])
		}
		sameSet(t, name+"."+"column", firstColumn(t, section(t, model, "### "+name)), columns)
	}
	if documented := strings.Count(model, "\n### ledger_"); documented != tables {
		t.Errorf("%d tables are documented, %d exist", documented, tables)
	}
}

// The table of packages is what go list says: which there are, and which of them each imports.
func TestArrowsBetweenPackagesAreAsDocumented(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	arrows := map[string][]string{}
	var names []string
	for line := range strings.Lines(string(out)) {
		paths := strings.Fields(line)
		name := shortName(paths[0])
		names = append(names, name)
		for _, path := range paths[1:] {
			if path == module || strings.HasPrefix(path, module+"/") {
				arrows[name] = append(arrows[name], shortName(path))
			}
		}
	}
	table := section(t, read(t, "docs/architecture.md"), "## Packages")
	sameSet(t, "package", firstColumn(t, table), names)
	for _, row := range rows(table) {
		for _, name := range codes(row[0]) {
			sameSet(t, "arrow from "+name+" to", append(codes(row[2]), "nothing"), append(arrows[name], "nothing"))
		}
	}
	for name, imports := range arrows {
		for _, to := range imports {
			if strings.HasPrefix(to, "cmd/") || to == "internal/storetest" && !strings.HasPrefix(name, to) ||
				to == "internal/pgtest" || to == "internal/db" && name != "internal/pgstore" {
				t.Errorf("%s must not import %s", name, to)
			}
		}
	}
}

// shortName is a package's folder; the root's is called fencerow.
func shortName(path string) string {
	if path == module {
		return "fencerow"
	}
	return strings.TrimPrefix(path, module+"/")
}

// What delivers never sees a database handle.
func TestWriterAndLedgerSeeNoDatabase(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("go", "list", "-deps",
		"./internal/writer", "./internal/ledger", "./internal/observe", "./internal/daemon")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.FieldsSeq(string(out)) {
		if path == "database/sql" || strings.Contains(path, "jackc/") || strings.HasSuffix(path, "/pgstore") {
			t.Errorf("they depend on %s", path)
		}
	}
}

// Each invariant of doc.go has a row; what a row names exists.
func TestInvariantsAreTracedToWhatExists(t *testing.T) {
	t.Parallel()
	table := section(t, read(t, "docs/protocol.md"), "## Invariants, and where they are kept")
	var documented, inCode []string
	for _, m := range regexp.MustCompile(`(?m)^//   - (I\d+) `).FindAllStringSubmatch(read(t, "doc.go"), -1) {
		inCode = append(inCode, m[1])
	}
	statements := regexp.MustCompile(`(?m)^-- name: (\w+) `)
	known := counters(t)
	sqlFiles, err := filepath.Glob("../sql/queries/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range sqlFiles {
		for _, m := range statements.FindAllStringSubmatch(read(t, strings.TrimPrefix(path, "../")), -1) {
			known = append(known, m[1])
		}
	}
	golden := read(t, "sql/schema.golden.sql")
	for _, row := range rows(table) {
		if len(row) != 4 {
			t.Fatalf("a row of %d cells: %v", len(row), row)
		}
		number, _, _ := strings.Cut(row[0], " ")
		documented = append(documented, number)
		for _, name := range codes(row[1]) {
			if !slices.Contains(known, name) && !strings.Contains(golden, name) {
				t.Errorf("%s: there is no statement, constraint or function %s", number, name)
			}
		}
		for _, name := range codes(row[3]) {
			if !strings.HasSuffix(name, "_total") || !slices.Contains(known, name) {
				t.Errorf("%s: there is no counter %s", number, name)
			}
		}
		checkTests(t, number, row[2])
	}
	sameSet(t, "invariant", documented, inCode)
}

// Each way to fail that the page lists names its tests, and the numbers of a room leave none out.
func TestWhatFailedElsewhereIsTracedToTestsThatExist(t *testing.T) {
	t.Parallel()
	page := section(t, read(t, "docs/reliability.md"), "## What failed elsewhere")
	last := map[string]int{}
	for _, row := range rows(page) {
		if len(row) != 4 || slices.Contains(row, "") {
			t.Fatalf("a row of other than four cells, or with an empty one: %v", row)
		}
		room := strings.TrimRight(row[0], "0123456789")
		last[room]++
		if want := room + strconv.Itoa(last[room]); row[0] != want {
			t.Errorf("a row is called %s, want %s", row[0], want)
		}
		checkTests(t, row[0], row[3])
	}
	if rooms := strings.Count(page, "\n### "); rooms == 0 || len(last) != rooms {
		t.Errorf("the rows are of %d rooms, of which %d have a heading", len(last), rooms)
	}
}

// checkTests demands that a cell names tests, and that they exist.
func checkTests(t *testing.T, number, cell string) {
	t.Helper()
	tests := codes(cell)
	if len(tests) == 0 {
		t.Errorf("%s names no test", number)
	}
	for _, name := range tests {
		checkTest(t, number, name)
	}
}

// checkTest demands that a test exists: FOLDER:TestName, FOLDER:TestName/Subtest, or storetest:Case. Of a
// subtest's name, what follows a slash in it may be left out.
func checkTest(t *testing.T, number, name string) {
	t.Helper()
	folder, test, _ := strings.Cut(name, ":")
	top, sub, _ := strings.Cut(test, "/")
	if !strings.HasPrefix(top, "Test") && !strings.HasPrefix(top, "Fuzz") {
		top, sub = "", top
	}
	// All files: the cases of storetest stand in files that are no tests.
	paths, err := filepath.Glob(filepath.Join("..", folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	hasTop, hasSub := top == "", sub == ""
	for _, path := range paths {
		text := read(t, strings.TrimPrefix(path, "../"))
		hasTop = hasTop || strings.Contains(text, "\nfunc "+top+"(")
		hasSub = hasSub || strings.Contains(text, strconv.Quote(sub)) ||
			strings.Contains(text, strconv.Quote(sub+"/"))
	}
	if !hasTop || !hasSub {
		t.Errorf("%s: there is no test %s", number, name)
	}
}
