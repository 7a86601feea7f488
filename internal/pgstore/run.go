package pgstore

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fourblocks2020/fencerow"
)

// maxRepeats bounds how often a transaction of the store's own is repeated: see isRepeatable.
const maxRepeats = 5

// run gives fn a connection and translates its error. The server bounds each statement by bound; run bounds
// the whole from the client's side, for a server or a network that does not answer at all. After an error
// that isRepeatable reports fn is called again.
func (s *Store) run(
	ctx context.Context,
	op string,
	bound time.Duration,
	fn func(context.Context, *pgx.Conn) error,
) error {
	for repeat := 0; ; repeat++ {
		err := s.runOnce(ctx, bound, fn)
		if err == nil {
			return nil
		}
		if repeat < maxRepeats && isRepeatable(err) && pause(ctx, repeat) == nil {
			continue
		}
		return s.translate(op, err)
	}
}

var (
	// errPoolExhausted says that no connection was free in time.
	errPoolExhausted = errors.New("pool exhausted")
	// errConnectionLost says that the connection was closed amid the call.
	errConnectionLost = errors.New("connection lost")
	// errHalfDone says that the first of two transactions was committed.
	errHalfDone = errors.New("half done")
)

func (s *Store) runOnce(
	ctx context.Context,
	bound time.Duration,
	fn func(context.Context, *pgx.Conn) error,
) error {
	acquireCtx, cancelAcquire := context.WithTimeout(ctx, s.timeout+s.timeout/4)
	conn, err := s.pool.Acquire(acquireCtx)
	cancelAcquire()
	if err != nil {
		// Every connection in use is one thing, a server that does not let us connect in time another.
		if stat := s.pool.Stat(); ctx.Err() == nil && acquireCtx.Err() != nil &&
			stat.AcquiredConns() == stat.MaxConns() {
			return errPoolExhausted
		}
		return errors.Join(errConnectionLost, err)
	}
	defer conn.Release()
	runCtx, cancelRun := context.WithTimeout(ctx, 4*bound)
	defer cancelRun()
	err = fn(runCtx, conn.Conn())
	if isStalePlan(err) {
		err = errors.Join(err, conn.Conn().DeallocateAll(runCtx))
	}
	if err == nil || !conn.Conn().IsClosed() {
		return err
	}
	if ctx.Err() == nil {
		// The server went away or was replaced; the other connections of the pool are most likely dead too.
		s.pool.Reset()
	}
	return errors.Join(errConnectionLost, err)
}

// isRepeatable reports a deadlock, a serialization failure or a stale plan; and, where half is done, a lock
// that was not had in time: a migration holds a table, and what is left is only to be read.
func isRepeatable(err error) bool {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return false
	}
	switch pgErr.Code {
	case "40P01", "40001":
		return true
	case "55P03":
		return errors.Is(err, errHalfDone)
	}
	return isStalePlan(err)
}

// isStalePlan reports that a statement which this session has prepared gives columns of other types now,
// because a migration has changed them ("cached plan must not change result type"). It was refused before it
// did anything. All statements of the session are then prepared anew, not this one alone: what else the
// migration has changed would each cost another repeat.
func isStalePlan(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == "0A000"
}

// pause waits a random time that grows with each repeat, at most about 50 ms.
func pause(ctx context.Context, repeat int) error {
	longest := int64(2*time.Millisecond) << repeat
	timer := time.NewTimer(time.Duration(rand.Int64N(longest))) //nolint:gosec // spreads retries, hides nothing
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// translate is the one place that turns an error of the driver into a code. A server that turned read-only,
// as one does in a failover, is left at once.
func (s *Store) translate(op string, err error) error {
	code := codeOf(err)
	if code == fencerow.ErrStoreReadOnly {
		s.pool.Reset()
	}
	return fencerow.NewError(op, code, err)
}

func codeOf(err error) fencerow.Code {
	var own *fencerow.Error
	var pgErr *pgconn.PgError
	switch {
	case errors.As(err, &own):
		return own.Code()
	case errors.Is(err, errPoolExhausted):
		return fencerow.ErrStoreBusy
	case errors.As(err, &pgErr):
		if _, ok := errors.AsType[*pgconn.ConnectError](err); ok && refusesSetting(pgErr.Code) {
			return fencerow.ErrStoreSetting
		}
		return codeOfState(pgErr.Code)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return fencerow.ErrStoreTimeout
	case errors.Is(err, errConnectionLost):
		return fencerow.ErrStoreUnavailable
	default:
		return fencerow.ErrStoreFailed
	}
}

// refusesSetting reports whether this SQLSTATE, met on connecting, refuses a setting of the DSN: a name that
// the server does not know or that is none, a value that it does not take, or a setting that no session may
// change.
func refusesSetting(state string) bool {
	switch state {
	case "42704", "42602", "22023", "55P02":
		return true
	}
	return false
}

// codeOfState maps SQLSTATEs: single ones first, then classes.
func codeOfState(state string) fencerow.Code {
	switch state {
	case "55P03":
		return fencerow.ErrStoreBusy
	case "57014":
		return fencerow.ErrStoreTimeout
	case "25006":
		return fencerow.ErrStoreReadOnly
	case "40001", "40P01":
		return fencerow.ErrStoreConflict
	case "26000", "42P05":
		return fencerow.ErrStoreStatement
	case "42501":
		return fencerow.ErrStorePermission
	case "3D000":
		return fencerow.ErrStoreUnavailable
	case "FR001":
		return fencerow.ErrEnqueueConflict
	}
	if len(state) != 5 {
		return fencerow.ErrStoreFailed
	}
	switch state[:2] {
	case "08", "57", "25":
		return fencerow.ErrStoreUnavailable
	case "28":
		return fencerow.ErrStoreCredentials
	case "3D", "3F", "42":
		return fencerow.ErrStoreSchema
	case "53", "54":
		return fencerow.ErrStoreFull
	case "22", "23":
		return fencerow.ErrStoreData
	}
	return fencerow.ErrStoreFailed
}
