package pgstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fourblocks2020/fencerow"
)

// The schema versions that this program knows. It works with a later one too, if that one's schema says so:
// see [Store.Ready].
const (
	MinSchemaVersion fencerow.SchemaVersion = 10
	MaxSchemaVersion fencerow.SchemaVersion = 10
)

// DefaultTimeout bounds a statement, a wait for a lock and an idle transaction: 2 s, well below the default
// lease of 30 s.
const DefaultTimeout = 2 * time.Second

// viewTimeout bounds the statements of views, which count and list and hold no lock.
const viewTimeout = 60 * time.Second

// Config configures a store.
type Config struct {
	// DSN is a libpq connection string or URL. It is parsed and forgotten.
	DSN fencerow.Secret
	// Current, unless it is nil, returns the DSN as it is now. It is called for each connection that is made,
	// which takes its user and password, and nothing else, so that new ones count without a restart. While it
	// fails, or returns what is no DSN, those that were good last are taken. It must be safe for concurrent use.
	Current func() (fencerow.Secret, error)
	// MaxConns bounds the pool; zero means 8.
	MaxConns int32
	// Timeout is 100 ms to 1 min; zero means [DefaultTimeout]. A claim uses a fifteenth of its lease where that
	// is shorter.
	Timeout time.Duration
	// ApplicationName is shown in pg_stat_activity; empty means "fencerow".
	ApplicationName string
}

// Store is a [fencerow.Store] on PostgreSQL. It is safe for concurrent use, and so are several stores in
// several processes on one database.
type Store struct {
	pool    *pgxpool.Pool
	timeout time.Duration
	texts   texts
	// floorAge is how long a floor may be used before the next scan from the start.
	floorAge time.Duration
	// planAge is [planAge] outside tests.
	planAge time.Duration

	// highestEpoch is the highest epoch that this process has seen; the next claim's is above it, also if a
	// failover lost that claim.
	highestEpoch atomic.Int64

	mu        sync.Mutex
	instances map[fencerow.InstanceKey]*instanceState
}

var _ fencerow.Store = (*Store)(nil)

// Open makes a store. It opens no connection: a database that is down is met by the first call. The error is
// a [*fencerow.InputError] or of code ErrDSNInvalid; neither shows any part of the DSN.
func Open(cfg Config) (*Store, error) {
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.Timeout < 100*time.Millisecond || cfg.Timeout > time.Minute {
		return nil, &fencerow.InputError{Field: "store timeout", Problem: "must be 100ms to 1m"}
	}
	if cfg.DSN.IsZero() {
		return nil, &fencerow.InputError{Field: "dsn", Problem: "is missing; give a PostgreSQL connection string"}
	}
	poolConfig, err := pgxpool.ParseConfig(cfg.DSN.Reveal())
	if err != nil {
		return nil, fencerow.NewError("parse the DSN", fencerow.ErrDSNInvalid, err)
	}
	if poolConfig.MaxConns = cfg.MaxConns; cfg.MaxConns == 0 {
		poolConfig.MaxConns = 8
	}
	if cfg.ApplicationName == "" {
		cfg.ApplicationName = "fencerow"
	}
	poolConfig.ConnConfig.RuntimeParams["application_name"] = cfg.ApplicationName
	if cfg.Current != nil {
		poolConfig.BeforeConnect = currentCredentials(cfg.Current)
	}
	return open(poolConfig, cfg.Timeout)
}

// currentCredentials gives each connection the user and the password that the DSN has when it is made.
func currentCredentials(
	current func() (fencerow.Secret, error),
) func(context.Context, *pgx.ConnConfig) error {
	var good atomic.Pointer[pgx.ConnConfig]
	return func(_ context.Context, conn *pgx.ConnConfig) error {
		if dsn, err := current(); err == nil {
			if parsed, err := pgx.ParseConfig(dsn.Reveal()); err == nil {
				good.Store(parsed)
			}
		}
		if last := good.Load(); last != nil {
			conn.User, conn.Password = last.User, last.Password
		}
		return nil
	}
}

func open(poolConfig *pgxpool.Config, timeout time.Duration) (*Store, error) {
	poolConfig.ConnConfig.ConnectTimeout = timeout
	poolConfig.ConnConfig.DefaultQueryExecMode = safeMode(poolConfig.ConnConfig.DefaultQueryExecMode)
	// What the role's defaults may say otherwise, and the driver's text formats rest on. A pooler passes both
	// on.
	poolConfig.ConnConfig.RuntimeParams["datestyle"] = "ISO"
	poolConfig.ConnConfig.RuntimeParams["standard_conforming_strings"] = "on"
	// A ping before use would double the round trips of an idle poll. A connection that turns out dead fails its
	// call, and the pool is then emptied.
	poolConfig.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	pool, err := pgxpool.NewWithConfig(context.Background(), poolConfig)
	if err != nil {
		return nil, fencerow.NewError("open the pool", fencerow.ErrDSNInvalid, err)
	}
	return &Store{
		pool:      pool,
		timeout:   timeout,
		floorAge:  time.Second,
		planAge:   planAge,
		texts:     texts{begin: begin},
		instances: map[fencerow.InstanceKey]*instanceState{},
	}, nil
}

// closeWait bounds Close.
const closeWait = 5 * time.Second

// Close closes the connections; it waits for calls in flight. A server that does not answer is waited for no
// longer than five seconds.
func (s *Store) Close() {
	closed := make(chan struct{})
	go func() {
		s.pool.Close()
		close(closed)
	}()
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
	}
}

// instanceState is what a process remembers of an instance: hints, never truth.
type instanceState struct {
	mu sync.Mutex
	// quiet says that the last claim left nothing due behind, so that the next poll looks before it claims.
	quiet bool
	// floor is a due time below which the last scan from the start, at scannedAt, left nothing behind.
	floor     time.Time
	scannedAt time.Time
	// most bounds the rows of the next claim after one whose entries could not be read in time; zero is no
	// bound.
	most int
}

func (s *Store) instance(key fencerow.InstanceKey) *instanceState {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.instances[key]
	if state == nil {
		state = &instanceState{quiet: true}
		s.instances[key] = state
	}
	return state
}

// Register implements [fencerow.Store].
func (s *Store) Register(ctx context.Context, instance fencerow.InstanceKey) error {
	if err := instance.Validate(); err != nil {
		return err
	}
	return s.run(ctx, "register the instance", s.timeout, func(ctx context.Context, conn *pgx.Conn) error {
		return s.queries(conn).InstanceRegister(ctx, string(instance))
	})
}

// Ready implements [fencerow.Store]. A schema that is newer than this program is asked for the oldest program
// that can work with it, in a statement of its own and after the version: it is that version's answer, or a
// later one's.
func (s *Store) Ready(ctx context.Context) (fencerow.SchemaVersion, error) {
	const op = "check the schema version"
	var version, oldest int32
	err := s.run(ctx, op, s.timeout, func(ctx context.Context, conn *pgx.Conn) (err error) {
		q := s.queries(conn)
		if version, err = q.SchemaVersion(ctx); err == nil && newer(version) {
			oldest, err = q.SchemaOldestProgram(ctx)
		}
		return err
	})
	found := fencerow.SchemaVersion(version)
	if err != nil {
		return found, err
	}
	if found < MinSchemaVersion || newer(version) && oldest > int32(MaxSchemaVersion) {
		return found, fencerow.NewError(op, fencerow.ErrStoreSchema, nil)
	}
	return found, nil
}

func newer(version int32) bool { return version > int32(MaxSchemaVersion) }
