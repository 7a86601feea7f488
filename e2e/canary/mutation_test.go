package canary

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

// mutationVariable names the mutation that is in force in programs that were built with all of them.
const mutationVariable = "CANARY_MUTATION"

// mutation takes one redaction away. In the mutated source, mutated(NAME) reports whether it is in force.
type mutation struct {
	name, file string
	// from stands in the file exactly once.
	from, to string
	// rows notice it, each by finding a secret.
	rows []string
}

func mutations() []mutation {
	return []mutation{
		{"error_text", "error.go", "	e := &Error{code: code, op: op,",
			"	if mutated(`error_text`) && cause != nil {\n		op += cause.Error()\n	}\n	e := &Error{code: code, op: op,",
			[]string{"database/store_failed", "forms/every_error"}},
		{"loop_error", "internal/observe/daemon.go",
			"		return fencerow.InnermostType(err)\n",
			"		if mutated(`loop_error`) {\n			return err.Error()\n		}\n		return fencerow.InnermostType(err)\n",
			[]string{"memstore/store_error", "pgstore/store_error"}},
		{"loop_panic", "internal/observe/daemon.go", `	return fmt.Sprintf("%T", cause)`,
			"	format := `%T`\n	if mutated(`loop_panic`) {\n		format = `%v`\n	}\n" +
				"	return fmt.Sprintf(format, cause)",
			[]string{"memstore/store_panic", "pgstore/store_panic"}},
		{"reason_text", "internal/observe/safe.go", "	if r.Valid() {", "	if r.Valid() || mutated(`reason_text`) {",
			[]string{"forms/alerts"}},
		{"usage_values", "internal/config/usage.go", "	source := \"\"",
			"	if mutated(`usage_values`) {\n		return text\n	}\n	source := \"\"",
			[]string{"commands/invalid_input", "configuration/every_variable"}},
		{"migration_text", "internal/migrate/failure.go", "		return fencerow.ErrMigrationFailed, server.Code, \"\"",
			"		if mutated(`migration_text`) {\n" +
				"			return fencerow.ErrMigrationFailed, server.Code, server.Message\n		}\n" +
				"		return fencerow.ErrMigrationFailed, server.Code, \"\"",
			[]string{"migrations/migration_failed"}},
		{"parameter_name", "internal/daemon/process.go", "		case !slices.Contains(names, name):",
			"		case mutated(`parameter_name`) && !slices.Contains(names, name):\n" +
				"			return nil, &fencerow.InputError{Field: name, Problem: `is unknown`}\n" +
				"		case !slices.Contains(names, name):",
			[]string{"ops/requests"}},
		{"line_text", "cmd/fencerow/line.go", "		return e, usage(\"the line\", \"is not a JSON object\")",
			"		if mutated(`line_text`) {\n			return e, usage(`the line`, `%q is not a JSON object`, line)\n		}\n" +
				"		return e, usage(\"the line\", \"is not a JSON object\")",
			[]string{"commands/invalid_input"}},
		{"secret_path", "internal/config/file.go", "	line, ok := secretfile.ReadLine(path)",
			"	line, ok := secretfile.ReadLine(path)\n	if mutated(`secret_path`) && !ok {\n" +
				"		return fencerow.Secret{}, inputError(field, path+` cannot be read`)\n	}",
			[]string{"configuration/every_variable"}},
		{"webhook_address", "internal/webhook/send.go", "		return failure(err)",
			"		if mutated(`webhook_address`) {\n" +
				"			return observe.WebhookFailure(s.url.Reveal()) + failure(err)\n		}\n" +
				"		return failure(err)",
			[]string{"webhook/webhook_unreachable"}},
		{"payload_unasked", "cmd/fencerow/document.go", "	if withPayload {",
			"	if withPayload || mutated(`payload_unasked`) {", []string{"commands/every_command"}},
	}
}

// pollPanics makes each poll panic, with a secret. It takes nothing away: see checkPanics.
var pollPanics = mutation{"poll_panics", "internal/writer/poll.go",
	"	res, _, err := w.poll(ctx, w.cfg.BatchLimit)",
	"	if mutated(`poll_panics`) {\n		panic(`" + string(panicText) + "`)\n	}\n" +
		"	res, _, err := w.poll(ctx, w.cfg.BatchLimit)", nil}

const mutatedFunction = `package %s

import "os"

func mutated(name string) bool { return os.Getenv(%q) == name }
`

var packageClause = regexp.MustCompile(`(?m)^package (\w+)$`)

// writeOverlay writes the mutated files and returns the go command's description of where they belong.
func writeOverlay(t *testing.T, directory string) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	check(t, err)
	sources, packages := map[string]string{}, map[string]string{}
	for _, m := range append(mutations(), pollPanics) {
		path := filepath.Join(root, filepath.FromSlash(m.file))
		if sources[path] == "" {
			source, err := os.ReadFile(path)
			check(t, err)
			sources[path] = string(source)
			packages[filepath.Dir(path)] = packageClause.FindStringSubmatch(string(source))[1]
		}
		if n := strings.Count(sources[path], m.from); n != 1 {
			t.Fatalf("%s: what it takes away stands in %s %d times, not once:\n%s", m.name, m.file, n, m.from)
		}
		sources[path] = strings.Replace(sources[path], m.from, m.to, 1)
	}
	for folder, name := range packages {
		sources[filepath.Join(folder, "mutated.go")] = fmt.Sprintf(mutatedFunction, name, mutationVariable)
	}
	replace := map[string]string{}
	for path, source := range sources {
		file := filepath.Join(directory, fmt.Sprintf("%d.go", len(replace)))
		check(t, os.WriteFile(file, []byte(source), 0o600))
		replace[path] = file
	}
	document, err := json.Marshal(map[string]any{"Replace": replace})
	check(t, err)
	overlay := filepath.Join(directory, "overlay.json")
	check(t, os.WriteFile(overlay, document, 0o600))
	return overlay
}

// All mutations are built into one copy of the programs and of this test, and put in force one at a time.
func TestTheCanaryNoticesEachRedactionThatIsTakenAway(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	overlay := writeOverlay(t, directory)
	canary := filepath.Join(directory, "canary.test")
	for _, args := range [][]string{
		{"build", "-overlay", overlay, "-o", directory, "./cmd/fencerow", "./cmd/fencerowd"},
		{"test", "-overlay", overlay, "-c", "-o", canary, "./e2e/canary"},
	} {
		if out, err := goBuild(args...); err != nil {
			t.Fatalf("go %v: %s", args, out)
		}
	}
	server := pgtest.NewDatabase(t, nil).Server()
	run := func(name string, rows []string) string {
		scenes, names := map[string]bool{}, []string{}
		for _, r := range rows {
			scene, row, _ := strings.Cut(r, "/")
			scenes[scene] = true
			names = append(names, row)
		}
		pattern := "^TestNothingSecretIsShown$/^(" + strings.Join(keys(scenes), "|") + ")$/^(" +
			strings.Join(names, "|") + ")$"
		cmd := exec.Command(canary, "-test.v", "-test.run="+pattern, "-test.timeout=2m")
		cmd.Env = append(os.Environ(), mutationVariable+"="+name, programsVariable+"="+directory,
			"TREX_POSTGRESQL_TEST_DSN="+server)
		out, _ := cmd.CombinedOutput() // what it prints says more than its status
		return string(out)
	}
	var all []string
	for _, m := range mutations() {
		all = append(all, m.rows...)
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			out := run(m.name, m.rows)
			for _, r := range m.rows {
				if !strings.Contains(out, "--- FAIL: TestNothingSecretIsShown/"+r+" ") ||
					!strings.Contains(out, " shows zqx") {
					t.Errorf("%s did not notice:\n%.3000s", r, out)
				}
			}
		})
	}
	t.Run(pollPanics.name, func(t *testing.T) {
		t.Parallel()
		checkPanics(t, directory)
	})
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		out := run("none", all)
		for _, r := range all {
			if !strings.Contains(out, "--- PASS: TestNothingSecretIsShown/"+r+" ") {
				t.Errorf("%s finds something although nothing was taken away:\n%.3000s", r, out)
			}
		}
	})
}

var panicRecord = regexp.MustCompile(`^\{"time":"[^"]+","level":"ERROR","msg":"poll failed",` +
	`"instance_key":"desk-1",` +
	`"reason":"ledger_writer_run_once_failed","exc_type":"string"\}$`)

// checkPanics has every poll of a daemon panic: each is one record without the value of the panic and without
// a stack, and the loop goes on.
func checkPanics(t *testing.T, mutants string) {
	w := newWorld(t)
	w.mutants, w.mutation = mutants, pollPanics.name
	w.settings["LEDGER_URL"], w.settings["LEDGER_INTERVAL_SEC"] = "http://127.0.0.1:9/", "0.05"
	w.settings["LOG_FORMAT"] = "json"
	d := w.start(nil)
	const polls = 5
	until(t, "polls that panic", func() bool { return strings.Count(d.text(), "poll failed") >= polls })
	w.sweep()
	d.stop()
	lines := strings.Split(strings.TrimSpace(d.text()), "\n")
	lines = slices.DeleteFunc(lines, func(line string) bool { // the third in a row is told besides
		return strings.Contains(line, `"msg":"store failing"`) || strings.Contains(line, `"alert":"store_failing"`)
	})
	for _, line := range lines[1 : 1+polls] {
		if !panicRecord.MatchString(line) {
			t.Errorf("the record of a poll that panicked: %s", line)
		}
	}
}

func keys(set map[string]bool) (sorted []string) {
	for key := range set {
		sorted = append(sorted, key)
	}
	slices.Sort(sorted)
	return sorted
}
