// Package migrate brings a database's schema to the version that this binary was built with, and back.
//
// The history is a list of tern migrations (sql/schema), embedded in the binary. Each call opens a connection
// of its own, never one of a pool: the migration lock belongs to the session. Connect to the server itself; a
// pooler that gives each transaction another session cannot hold the lock, and one that does not know the
// settings asked for here refuses the connection.
//
// # Many at once
//
// One session advisory lock a database lets one process at a time prepare and migrate; every other waits for
// it, for a minute at most. It waits by asking again, not inside the server: a session that waits inside
// holds a snapshot, for which CREATE INDEX CONCURRENTLY, run by the holder of the lock, would wait in turn.
//
// # Interrupted
//
// Every migration but those that build indexes concurrently is one transaction together with the version that
// it leads to. The others drop what a failed build left before they build, and the version moves only after
// all of their statements: running Up again finishes what was interrupted. A context that ends cancels the
// running statement on the server before the call returns.
//
// # Errors
//
// Each error is an [*Error] (or a fencerow.InputError): a code, the number of the migration and the SQLSTATE.
// Neither the DSN, nor SQL, nor the server's own text is in it.
package migrate

import (
	"context"
	"io/fs"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/sql/schema"
)

// lockWait bounds how long a process waits for another one's migration.
const lockWait = time.Minute

// Change says which version a call found, and which one it left.
type Change struct{ From, To int }

// Step is one migration of the history.
type Step struct {
	Number int
	Name   string // as its file, without .sql
}

// Status compares a database with this binary's history.
type Status struct {
	Current int    // 0 where nothing was migrated yet
	Latest  int    // the newest version this binary knows
	Pending []Step // in the order in which Up would run them
	// Oldest is the oldest program, by the version that it was built for, that works with the schema at Latest.
	Oldest int
}

// Newer reports whether the database is ahead of this binary, which then must not touch it.
func (s Status) Newer() bool { return s.Current > s.Latest }

// Up runs every migration that the database lacks; with none it changes nothing. It is safe to call from many
// processes at once.
func Up(ctx context.Context, dsn string) (Change, error) {
	r, err := newRunner(dsn)
	if err != nil {
		return Change{}, err
	}
	return r.up(ctx)
}

// DownTo undoes every migration above version, the newest first. Entries are never given up: the migration
// that made owned ones possible is undone only where there are none, else the code is
// fencerow.ErrOwnedEntries, and the one that made the outbox only where it is empty, else it is
// fencerow.ErrEntries. What a producer from before ownership commits meanwhile is not seen: stop it first.
func DownTo(ctx context.Context, dsn string, version int) (Change, error) {
	r, err := newRunner(dsn)
	if err != nil {
		return Change{}, err
	}
	return r.downTo(ctx, version)
}

// ReadStatus reads the database's version. It changes nothing and waits for nobody.
func ReadStatus(ctx context.Context, dsn string) (Status, error) {
	r, err := newRunner(dsn)
	if err != nil {
		return Status{}, err
	}
	return r.status(ctx)
}

// runner is one call: where to, which history, and how long to wait.
type runner struct {
	config *pgx.ConnConfig
	files  fs.FS
	wait   time.Duration
}

func newRunner(dsn string) (*runner, error) {
	config, err := configure(dsn)
	if err != nil {
		return nil, err
	}
	return &runner{config: config, files: schema.Files, wait: lockWait}, nil
}

func (r *runner) up(ctx context.Context) (change Change, err error) {
	err = r.locked(ctx, "migrate up", func(s *session) error {
		change, err = s.migrate(ctx, s.latest())
		return err
	})
	return change, err
}

func (r *runner) downTo(ctx context.Context, version int) (change Change, err error) {
	steps, err := listSteps(r.files)
	if err != nil {
		return Change{}, err
	}
	if version < 0 || version > len(steps) {
		return Change{}, &fencerow.InputError{Field: "version", Problem: "must be from 0 to " +
			strconv.Itoa(len(steps)) + ", the newest version"}
	}
	err = r.locked(ctx, "migrate down", func(s *session) error {
		current, err := s.version(ctx)
		if err != nil {
			return err
		}
		if version > current {
			return &fencerow.InputError{Field: "version", Problem: "must not be above the current version"}
		}
		if err := s.refuseIfLost(ctx, current, version); err != nil {
			return err
		}
		change, err = s.migrate(ctx, version)
		return err
	})
	return change, err
}

func (r *runner) status(ctx context.Context) (Status, error) {
	steps, err := listSteps(r.files)
	if err != nil {
		return Status{}, err
	}
	s, err := r.connect(ctx, "read the schema version")
	if err != nil {
		return Status{}, err
	}
	defer s.close()
	current, err := s.version(ctx)
	if err != nil {
		return Status{}, err
	}
	last, err := fs.ReadFile(r.files, steps[len(steps)-1].Name+".sql")
	if err != nil {
		return Status{}, invalidHistory("the last migration cannot be read")
	}
	return Status{
		Current: current, Latest: len(steps), Pending: steps[min(max(current, 0), len(steps)):],
		Oldest: statedOldest(string(last)),
	}, nil
}
