package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
)

// nextMigration is one that today's programs can work with, although it changes what their statements read
// and write: a column that claims read gets another type, and claims and outcomes a new column each.
var nextMigration = fmt.Sprintf(`-- Oldest program: %[1]d
SET LOCAL lock_timeout = '5s';
CREATE DOMAIN fencerow.tally AS integer CONSTRAINT tally_bounds CHECK (VALUE >= 0);
ALTER TABLE fencerow.ledger_claim ADD COLUMN made_with integer NOT NULL DEFAULT %[1]d;
ALTER TABLE fencerow.ledger_pending ALTER COLUMN attempt_count TYPE fencerow.tally;
ALTER TABLE fencerow.ledger_outcome ADD COLUMN recorded_with integer NOT NULL DEFAULT %[1]d;
---- create above / drop below ----
SET LOCAL lock_timeout = '5s';
ALTER TABLE fencerow.ledger_claim DROP COLUMN made_with;
ALTER TABLE fencerow.ledger_pending ALTER COLUMN attempt_count TYPE fencerow.counter;
ALTER TABLE fencerow.ledger_outcome DROP COLUMN recorded_with;
DROP DOMAIN fencerow.tally;
`, latest)

// nextEdits make programs that are built for the migration: they write the new columns.
var nextEdits = []struct {
	file, pattern, with string
	times               int
}{
	{
		"internal/pgstore/store.go",
		`(M..SchemaVersion +fencerow\.SchemaVersion) = \d+\n`,
		fmt.Sprintf("${1} = %d\n", latest+1), 2,
	},
	{
		"internal/db/claim.sql.go",
		`(INSERT INTO fencerow\.ledger_claim \(\s+)(claim_token,[^)]*\)\s+SELECT\s+)(\$\d+::uuid,)`,
		fmt.Sprintf("${1}made_with, ${2}%d, ${3}", latest+1), 2,
	},
	{
		"internal/db/claim.sql.go",
		`(INSERT INTO fencerow\.ledger_outcome \(\s+)(outbox_id,[^)]*\)\s+SELECT\s+)(f\.outbox_id,)`,
		fmt.Sprintf("${1}recorded_with, ${2}%d, ${3}", latest+1), 1,
	},
}

// buildNext builds the programs of the next version, once, and returns where they are.
var buildNext = sync.OnceValues(func() (string, error) {
	directory := filepath.Join(programs, "next")
	root, err := filepath.Abs("..")
	if err != nil {
		return "", err
	}
	texts := map[string]string{fmt.Sprintf("sql/schema/%03d_note_worker_build.sql", latest+1): nextMigration}
	for _, e := range nextEdits {
		if texts[e.file] == "" {
			source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(e.file)))
			if err != nil {
				return "", err
			}
			texts[e.file] = string(source)
		}
		expr := regexp.MustCompile(e.pattern)
		if n := len(expr.FindAllString(texts[e.file], -1)); n != e.times {
			return "", fmt.Errorf("%s: %s matches %d times, not %d", e.file, e.pattern, n, e.times)
		}
		texts[e.file] = expr.ReplaceAllString(texts[e.file], e.with)
	}
	if err := os.Mkdir(directory, 0o700); err != nil {
		return "", err
	}
	replace := map[string]string{}
	for file, text := range texts {
		edited := filepath.Join(directory, filepath.Base(file))
		if err := os.WriteFile(edited, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(root, filepath.FromSlash(file))] = edited
	}
	document, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(directory, "overlay.json")
	if err := os.WriteFile(overlay, document, 0o600); err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-race", "-overlay", overlay, "-o", directory+string(filepath.Separator),
		"./cmd/fencerow", "./cmd/fencerowd")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the next version: %w\n%s", err, out)
	}
	return directory, nil
})

// next is the same world with the programs of the next version.
func (w *world) next(t testing.TB) *world {
	t.Helper()
	build, err := buildNext()
	check(t, err)
	next := *w
	next.build = build
	return &next
}
