package migrate

import (
	"context"
	_ "embed" // for the statements
	"io/fs"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"
	tern "github.com/jackc/tern/v2/migrate"

	"github.com/fourblocks2020/fencerow"
)

const (
	versionTable   = "fencerow.schema_version"
	prepareFile    = "prepare.sql"
	connectTimeout = 10 * time.Second
	// lockPause is how long a process waits before it asks for the migration lock again.
	lockPause = 50 * time.Millisecond
	// cancelGrace is how long the server may take to end a statement that was cancelled.
	cancelGrace = 5 * time.Second
	closeGrace  = 5 * time.Second
)

// The migrations that made the outbox, and that gave entries owners.
const (
	outboxCame = 1
	ownersCame = 2
)

var (
	//go:embed sql/lock.sql
	lockSQL string
	//go:embed sql/known.sql
	knownSQL string
	//go:embed sql/version.sql
	versionSQL string
	//go:embed sql/owned.sql
	ownedSQL string
	//go:embed sql/entries.sql
	entriesSQL string
)

// Settings of the session. They travel with the connection's start, since tern resets what is set later. The
// DSN may say otherwise, but not the role's defaults, which are made for other work: a statement may take as
// long as it must (an index of a large table), but neither a lock nor a silent client may hold up producers.
var settings = map[string]string{
	"application_name":                    "fencerow migrate",
	"default_transaction_isolation":       "read committed",
	"idle_in_transaction_session_timeout": "10s",
	"lock_timeout":                        "5s",
	"statement_timeout":                   "0",
}

func configure(dsn string) (*pgx.ConnConfig, error) {
	parsed, err := pgxpool.ParseConfig(dsn) // Parameters of a pool are allowed, as for every command.
	if err != nil {
		return nil, &Error{inner: fencerow.NewError("parse the DSN", fencerow.ErrDSNInvalid, err)}
	}
	config := parsed.ConnConfig
	given := config.RuntimeParams
	config.RuntimeParams = maps.Clone(settings)
	maps.Copy(config.RuntimeParams, given)
	// Every name in the history is qualified; what is not comes from the server itself, never from somebody's
	// schema. The dump prints names as these two say.
	config.RuntimeParams["search_path"] = "pg_catalog"
	config.RuntimeParams["quote_all_identifiers"] = "off"
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	// A statement that is cancelled has ended on the server when the call returns: nothing goes on behind it.
	config.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: cancelGrace}
	}
	return config, nil
}

// session is one connection of its own.
type session struct {
	conn *pgx.Conn
	op   string // what it is for, in error texts
	tern *tern.Migrator
	step int // the migration that runs or ran last; 0 before the first
}

func (r *runner) connect(ctx context.Context, op string) (*session, error) {
	s := &session{op: op}
	conn, err := pgx.ConnectConfig(ctx, r.config)
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	s.conn = conn
	return s, nil
}

// close ends the session, and with it a transaction that is open and the migration lock.
func (s *session) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	_ = s.conn.Close(ctx) // the server sees the end of the connection either way
}

// locked calls do with a session that holds the migration lock, in a database that is prepared.
func (r *runner) locked(ctx context.Context, op string, do func(*session) error) error {
	s, err := r.connect(ctx, op)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.lock(ctx, r.wait); err != nil {
		return err
	}
	// Before anything is written: a newer binary may have changed how a database is prepared.
	steps, err := listSteps(r.files)
	if err != nil {
		return err
	}
	current, err := s.version(ctx)
	if err != nil {
		return err
	}
	if current > len(steps) {
		return s.newer()
	}
	if err := s.prepare(ctx, r.files); err != nil {
		return err
	}
	return do(s)
}

// lock waits for the migration lock.
func (s *session) lock(ctx context.Context, wait time.Duration) error {
	end := time.NewTimer(wait)
	defer end.Stop()
	for {
		var got bool
		err := s.conn.QueryRow(ctx, lockSQL).Scan(&got)
		switch {
		case ctx.Err() != nil:
			return s.lockedOut(ctx.Err())
		case err != nil:
			return s.failed(ctx, err)
		case got:
			return nil
		}
		select {
		case <-ctx.Done():
			return s.lockedOut(ctx.Err())
		case <-end.C:
			return s.lockedOut(nil)
		case <-time.After(lockPause):
		}
	}
}

// prepare makes the schema and the version table where they are missing.
func (s *session) prepare(ctx context.Context, files fs.FS) error {
	statements, err := fs.ReadFile(files, prepareFile)
	if err != nil {
		return invalidHistory("prepare.sql is missing")
	}
	if _, err := s.conn.Exec(ctx, string(statements)); err != nil {
		return s.failed(ctx, err)
	}
	if s.tern, err = tern.NewMigrator(ctx, s.conn, versionTable); err != nil {
		return s.failed(ctx, err)
	}
	if err := s.tern.LoadMigrations(files); err != nil {
		return invalidHistory("the migrations do not load")
	}
	s.tern.OnStart = func(number int32, _, _, _ string) { s.step = int(number) }
	return nil
}

// refuseIfLost refuses to go below the migration that brought owners while owned entries exist, and below the
// one that made the outbox while it holds any entry. The step of the owners would refuse by itself, but only
// after the ones above it were undone; the other drops the table.
func (s *session) refuseIfLost(ctx context.Context, current, target int) error {
	for _, lost := range []struct {
		came    int
		query   string
		refusal func() error
	}{
		{ownersCame, ownedSQL, s.owned},
		{outboxCame, entriesSQL, s.unowned},
	} {
		if current < lost.came || target >= lost.came {
			continue
		}
		var exist bool
		if err := s.conn.QueryRow(ctx, lost.query).Scan(&exist); err != nil {
			return s.failed(ctx, err)
		}
		if exist {
			return lost.refusal()
		}
	}
	return nil
}

func (s *session) latest() int { return len(s.tern.Migrations) }

// version reads the database's version: 0 where there is no history yet.
func (s *session) version(ctx context.Context) (int, error) {
	var known bool
	if err := s.conn.QueryRow(ctx, knownSQL).Scan(&known); err != nil {
		return 0, s.failed(ctx, err)
	}
	if !known {
		return 0, nil
	}
	var version int
	if err := s.conn.QueryRow(ctx, versionSQL).Scan(&version); err != nil {
		return 0, s.failed(ctx, err)
	}
	return version, nil
}

func (s *session) migrate(ctx context.Context, target int) (Change, error) {
	current, err := s.version(ctx)
	if err != nil {
		return Change{}, err
	}
	if err := s.tern.MigrateTo(ctx, int32(target)); err != nil {
		return Change{}, s.failed(ctx, err)
	}
	return Change{From: current, To: target}, nil
}
