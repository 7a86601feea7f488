package migrate

import (
	"context"
	_ "embed" // for the statements
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fourblocks2020/fencerow/sql"
	"github.com/fourblocks2020/fencerow/sql/schema"
)

var (
	//go:embed sql/dump.sql
	dumpSQL string
	//go:embed sql/hostile.sql
	hostileSQL string
	//go:embed sql/content_before.sql
	contentBeforeSQL string
	//go:embed sql/content_after.sql
	contentAfterSQL string
)

const (
	dumpHeader = "-- The schema that the history leads to, normalised. " +
		"Written by go test ./internal/migrate -update.\n\n"
	// firstWithOwners is the migration that gives entries an owner. What a database held before it must come
	// through unchanged.
	firstWithOwners = 2
)

// Check names one thing that [Verify] looks at. The vocabulary is closed.
type Check string

// The checks, in their order.
const (
	CheckFiles     Check = "files"      // numbers, down parts, lock timeouts, tern's lines, hashes
	CheckFromEmpty Check = "from_empty" // an empty database goes up, down and up again
	CheckFromRows  Check = "from_rows"  // the same with rows from before entries had owners, which stay
)

// Verification says what was found in order.
type Verification struct {
	Latest int     // the newest version of the history
	Checks []Check // all that Verify makes, since the first failure ends it
}

// Verify checks the history that is built into this binary: its files against the committed hashes, and what
// they do against the committed dump. For that it creates databases on the DSN's server, named
// fencerow_verify_ and a random number, and drops them; the DSN's own database is not touched. The role needs
// CREATEDB. The error is a [*HistoryError] where the history is at fault.
func Verify(ctx context.Context, dsn string) (Verification, error) {
	r, err := newRunner(dsn)
	if err != nil {
		return Verification{}, err
	}
	steps, err := listSteps(r.files)
	if err != nil {
		return Verification{}, err
	}
	if problems := checkHistory(r.files, schema.Hashes); len(problems) > 0 {
		return Verification{}, invalidHistory(problems...)
	}
	if err := r.inScratch(ctx, func(r *runner) error { return r.verifyFromEmpty(ctx, sql.Golden) }); err != nil {
		return Verification{}, err
	}
	if err := r.inScratch(ctx, func(r *runner) error { return r.verifyFromRows(ctx, sql.Golden) }); err != nil {
		return Verification{}, err
	}
	return Verification{Latest: len(steps), Checks: []Check{CheckFiles, CheckFromEmpty, CheckFromRows}}, nil
}

// verifyFromEmpty goes up, down to nothing, and up again.
func (r *runner) verifyFromEmpty(ctx context.Context, golden string) error {
	if _, err := r.downTo(ctx, 0); err != nil { // prepares, no more
		return err
	}
	empty, err := r.dump(ctx)
	if err != nil {
		return err
	}
	if err := r.upAndCompare(ctx, golden, "from empty"); err != nil {
		return err
	}
	if _, err := r.downTo(ctx, 0); err != nil {
		return err
	}
	if err := r.compare(ctx, empty, "down to nothing"); err != nil {
		return err
	}
	return r.upAndCompare(ctx, golden, "up again from nothing")
}

// verifyFromRows goes up with rows from before entries had owners, down to where they were, and up again.
func (r *runner) verifyFromRows(ctx context.Context, golden string) error {
	if err := r.to(ctx, firstWithOwners-1); err != nil {
		return err
	}
	old, err := r.dump(ctx)
	if err != nil {
		return err
	}
	if err := r.exec(ctx, hostileSQL); err != nil {
		return err
	}
	content, err := r.lines(ctx, contentBeforeSQL)
	if err != nil {
		return err
	}
	for _, when := range []string{"from rows without owners", "up again with rows without owners"} {
		if err := r.upAndCompare(ctx, golden, when); err != nil {
			return err
		}
		if err := r.compareContent(ctx, contentAfterSQL, content, when); err != nil {
			return err
		}
		if _, err := r.downTo(ctx, firstWithOwners-1); err != nil {
			return err
		}
		if err := r.compare(ctx, old, "down to rows without owners"); err != nil {
			return err
		}
		if err := r.compareContent(ctx, contentBeforeSQL, content, "down to rows without owners"); err != nil {
			return err
		}
	}
	return nil
}

// to migrates to any version, up or down.
func (r *runner) to(ctx context.Context, version int) error {
	return r.locked(ctx, "migrate", func(s *session) error {
		_, err := s.migrate(ctx, version)
		return err
	})
}

func (r *runner) upAndCompare(ctx context.Context, golden, when string) error {
	if _, err := r.up(ctx); err != nil {
		return err
	}
	return r.compare(ctx, golden, when)
}

func (r *runner) compare(ctx context.Context, want, when string) error {
	have, err := r.dump(ctx)
	if err != nil {
		return err
	}
	if line, differs := firstDifference(want, have); differs {
		return invalidHistory(fmt.Sprintf("the schema %s differs from what it must be, at line %d", when, line))
	}
	return nil
}

func (r *runner) compareContent(ctx context.Context, query string, want []string, when string) error {
	have, err := r.lines(ctx, query)
	if err != nil {
		return err
	}
	if !slices.Equal(have, want) {
		return invalidHistory("the rows without owners are not what they were " + when)
	}
	return nil
}

// firstDifference returns the number of the first line, from 1, in which two texts differ.
func firstDifference(a, b string) (line int, differs bool) {
	if a == b {
		return 0, false
	}
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for line = range min(len(as), len(bs)) {
		if as[line] != bs[line] {
			return line + 1, true
		}
	}
	return min(len(as), len(bs)) + 1, true
}

// dump returns the schema as normalised text.
func (r *runner) dump(ctx context.Context) (string, error) {
	objects, err := r.lines(ctx, dumpSQL)
	if err != nil {
		return "", err
	}
	return dumpHeader + strings.Join(objects, "\n\n") + "\n", nil
}

// lines returns the text of each row that query gives.
func (r *runner) lines(ctx context.Context, query string) ([]string, error) {
	s, err := r.connect(ctx, "verify the history")
	if err != nil {
		return nil, err
	}
	defer s.close()
	rows, err := s.conn.Query(ctx, query)
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	return lines, nil
}

func (r *runner) exec(ctx context.Context, statements string) error {
	s, err := r.connect(ctx, "verify the history")
	if err != nil {
		return err
	}
	defer s.close()
	if _, err := s.conn.Exec(ctx, statements); err != nil {
		return s.failed(ctx, err)
	}
	return nil
}
