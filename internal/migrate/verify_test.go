package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
	"github.com/fourblocks2020/fencerow/sql"
	"github.com/fourblocks2020/fencerow/sql/schema"
)

func TestVerifyPassesAndLeavesNothing(t *testing.T) {
	t.Parallel()
	_, db := newRunnerOn(t)
	role := db.NewRole(t, nil)
	db.Exec(t, "ALTER ROLE "+role.Name+" CREATEDB")
	result, err := Verify(t.Context(), db.DSN(pgtest.As(role)))
	checks := []Check{CheckFiles, CheckFromEmpty, CheckFromRows}
	if err != nil || result.Latest != latest(t) || !slices.Equal(result.Checks, checks) {
		t.Fatalf("verify: %+v, %v", result, err)
	}
	mustHaveNoScratchOf(t, db, role)
}

// mustHaveNoScratchOf fails where a scratch database of role's is left.
func mustHaveNoScratchOf(t *testing.T, db *pgtest.Database, role pgtest.Role) {
	t.Helper()
	left := one[int](t, db.Connect(t), `
SELECT count(*)
FROM pg_database
WHERE datname LIKE 'fencerow\_verify\_%' AND datdba = $1::text::regrole`, role.Name)
	if left != 0 {
		t.Errorf("%d scratch databases are left", left)
	}
}

func TestVerifySaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	_, db := newRunnerOn(t)
	_, err := Verify(t.Context(), db.DSN(pgtest.As(db.NewRole(t, nil))))
	mustFail(t, err, fencerow.ErrStorePermission, 0, "")
	if failure, ok := errors.AsType[*Error](err); !ok || !strings.Contains(failure.Hint, "CREATEDB") {
		t.Errorf("verify as a role without CREATEDB: %v", err)
	}
}

func TestVerifyCancelledDropsItsScratch(t *testing.T) {
	t.Parallel()
	_, db := newRunnerOn(t)
	role := db.NewRole(t, nil)
	db.Exec(t, "ALTER ROLE "+role.Name+" CREATEDB")
	r := runnerFor(t, db.DSN(pgtest.As(role)))
	ctx, cancel := context.WithCancel(t.Context())
	err := r.inScratch(ctx, func(r *runner) error {
		cancel()
		_, err := r.up(ctx)
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("verify cancelled: %v", err)
	}
	mustHaveNoScratchOf(t, db, role)
}

func TestVerifyFindsAHistoryThatLeadsElsewhere(t *testing.T) {
	t.Parallel()
	const file = "002_own_claim_and_fence.sql"
	for name, edit := range map[string]struct{ from, to, problem string }{
		"AnotherSchema":  {"cash_balance numeric,", "cash_balance text,", "from empty"},
		"DownThatLeaves": {"DROP TABLE fencerow.ledger_slot;", "", "down to nothing"},
		"RowsThatChange": {
			"SELECT outbox_id, status,", "SELECT outbox_id, lower(status || 'X'),", "rows without owners",
		},
		"RowsThatGoMissing": {
			"FROM fencerow.ledger_outbox;\n", "FROM fencerow.ledger_outbox WHERE outbox_id > 0;\n",
			"rows without owners",
		},
		"DownThatForgets": {"l.attempt_count, next_retry_at", "0, next_retry_at", "down to rows without owners"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := withFiles(t)
			before := string(files[file].Data)
			after := strings.Replace(before, edit.from, edit.to, 1)
			if after == before {
				t.Fatal("nothing to edit")
			}
			files[file] = &fstest.MapFile{Data: []byte(after)}
			r, _ := newRunnerOn(t)
			r.files = files
			err := r.verifyFromEmpty(t.Context(), sql.Golden)
			if err == nil {
				other, _ := newRunnerOn(t)
				other.files = files
				err = other.verifyFromRows(t.Context(), sql.Golden)
			}
			if !errors.Is(err, fencerow.ErrHistoryInvalid) || !strings.Contains(err.Error(), edit.problem) {
				t.Errorf("verify: %v; want it to say %q", err, edit.problem)
			}
		})
	}
}

func TestCheckOfTheFilesFindsEachFault(t *testing.T) {
	t.Parallel()
	if problems := checkHistory(schema.Files, schema.Hashes); len(problems) > 0 {
		t.Fatalf("the committed history: %q", problems)
	}
	const (
		lock    = "SET LOCAL lock_timeout = '5s';\n"
		part    = lock + "SELECT 1;\n"
		states  = oldestProgram + "6\n"
		good    = states + part + separatorLine + "\n" + part
		session = "SET lock_timeout = '5s';\n"
		drop    = "DROP INDEX CONCURRENTLY fencerow.x;\n"
		noTx    = noTxLine + "\n"
	)
	down := func(text string) string { return states + part + separatorLine + "\n" + text }
	next := fmt.Sprintf("%03d_do_it.sql", latest(t)+1)
	for name, test := range map[string]struct{ file, body, problem string }{
		"Good":             {next, good, ""},
		"GoodOutsideOfTx":  {next, down(noTx + session + drop), ""},
		"NoWayBack":        {next, states + part + "-- No way back: it is gone.\n", ""},
		"Gap":              {"099_do_it.sql", good, "is expected"},
		"Repeated":         {"003_do_it.sql", good, "is expected"},
		"NumberZero":       {"000_do_it.sql", good, "is expected"},
		"BadName":          {strings.ToUpper(next[:8]) + "X.sql", good, "is not named"},
		"Template":         {next, good + "-- {{ now }}\n", "{{"},
		"NoDown":           {next, part, "neither a down part"},
		"EmptyReason":      {next, part + "-- No way back: \n", "neither a down part"},
		"TwoDowns":         {next, good + separatorLine + "\n" + part, "more than one down part"},
		"AlmostMagic":      {next, strings.Replace(good, "---- create", "--- create", 1), "resembles"},
		"IndentedLine":     {next, strings.Replace(good, "---- create", " ---- create", 1), "resembles"},
		"CarriageReturn":   {next, strings.Replace(good, "below ----\n", "below ----\r\n", 1), "resembles"},
		"AlmostNoTx":       {next, "---- tern: disable_tx ----\n" + good, "resembles"},
		"NoLockUp":         {next, strings.Replace(good, lock, "", 1), "no lock_timeout in its up part"},
		"NoOldestProgram":  {next, strings.TrimPrefix(good, states), "state its oldest program"},
		"OldestTwice":      {next, states + good, "state its oldest program"},
		"OldestInDownPart": {next, strings.TrimPrefix(good, states) + states, "state its oldest program"},
		"OldestFalls":      {next, strings.Replace(good, ": 6", ": 5", 1), "state its oldest program"},
		"OldestNoNumber":   {next, strings.Replace(good, ": 6", ": six", 1), "state its oldest program"},
		"OldestToCome":     {next, strings.Replace(good, ": 6", ": 99", 1), "state its oldest program"},
		"OldestRises":      {next, strings.Replace(good, ": 6", fmt.Sprint(": ", latest(t)+1), 1), ""},
		"NoLockDown":       {next, down("SELECT 1;\n"), "no lock_timeout in its down part"},
		"ConcurrentInTx":   {next, down(lock + drop), "turn tern's transaction off in its down part"},
		"NoTxForNothing":   {next, down(noTx + session), "turn tern's transaction off in its down part"},
		"LocalOutsideOfTx": {next, down(noTx + lock + drop), "no lock_timeout in its down part"},
	} {
		t.Run(name, func(t *testing.T) {
			files := withFiles(t)
			files[test.file] = &fstest.MapFile{Data: []byte(test.body)}
			hashes, err := formatHashes(files)
			if err != nil {
				hashes = schema.Hashes
			}
			problems := strings.Join(checkHistory(files, hashes), "\n")
			if test.problem == "" && problems != "" || !strings.Contains(problems, test.problem) {
				t.Errorf("problems: %q; want %q", problems, test.problem)
			}
		})
	}
}

func TestCheckOfTheHashesFindsEachFault(t *testing.T) {
	t.Parallel()
	lines := strings.SplitAfter(strings.TrimSpace(schema.Hashes)+"\n", "\n")
	for name, test := range map[string]struct{ list, problem string }{
		"Edited":    {strings.Replace(schema.Hashes, schema.Hashes[:8], "00000000", 1), "was edited"},
		"Missing":   {strings.Join(lines[1:], ""), "001_create_outbox.sql is not in the list"},
		"Gone":      {schema.Hashes + schema.Hashes[:64] + "  004_gone.sql\n", "004_gone.sql is in the list"},
		"Malformed": {"x\n" + schema.Hashes, "malformed"},
		"Repeated":  {schema.Hashes + lines[0], "repeated"},
	} {
		t.Run(name, func(t *testing.T) {
			problems := strings.Join(checkHistory(schema.Files, test.list), "\n")
			if !strings.Contains(problems, test.problem) {
				t.Errorf("problems: %q; want %q", problems, test.problem)
			}
		})
	}
	t.Run("EditedFile", func(t *testing.T) {
		files := withFiles(t)
		const file = "001_create_outbox.sql"
		files[file].Data = append(slices.Clone(files[file].Data), '\n')
		problems := checkHistory(files, schema.Hashes)
		if len(problems) != 1 || !strings.Contains(problems[0], "was edited") {
			t.Errorf("problems: %q", problems)
		}
	})
}
