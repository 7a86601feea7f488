package pgstore

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/db"
)

// The only SQL outside sql/queries. BEGIN names the isolation level: under a role or server default of
// repeatable read a plain BEGIN lets two claimers commit the same rows.
const (
	begin    = "BEGIN ISOLATION LEVEL READ COMMITTED"
	commit   = "COMMIT"
	rollback = "ROLLBACK"
)

// planAge is how long a session keeps the plans that it has made. A plan that was made while a table was
// almost empty goes on reading all of it when it is full: a hundred outcomes took seconds beside 300,000
// pending rows. The server itself looks again when the table is analyzed, which may be a minute later. Making
// them all anew costs a few milliseconds.
const planAge = 2 * time.Second

// texts are how transactions begin and, in tests only, how statements are rewritten: a test takes a guard
// away and shows that the suite notices.
type texts struct {
	begin   string
	rewrite func(sql string) string // nil outside tests
}

// call is one statement of a pipeline: a generated method, called twice. The first time its statement is
// queued and its answer is errQueued; the second time it reads the answer. It must not depend on the answers
// of others.
type call func(ctx context.Context, q *db.Queries) error

// errQueued is what a statement answers while it is only being queued.
var errQueued = errors.New("queued")

// transact runs calls in one transaction and then the calls of after, if there are any, in a second one, all
// in one round trip on a connection of the pool. The bounds of a transaction go before its calls. See
// [Store.run] for what is repeated and what an error is; a transaction that was committed is never repeated,
// and an error after it never says that nothing was done.
func (s *Store) transact(
	ctx context.Context, op string, bound time.Duration, calls []call, after ...call,
) error {
	parts := [][]call{append([]call{s.bounds(bound)}, calls...)}
	if len(after) > 0 {
		parts = append(parts, append([]call{s.bounds(bound)}, after...))
	}
	whole := len(parts)
	err := s.run(ctx, op, bound, func(ctx context.Context, conn *pgx.Conn) error {
		committed, err := s.transactions(ctx, conn, parts)
		if parts = parts[committed:]; err != nil && len(parts) < whole {
			err = errors.Join(errHalfDone, err)
		}
		return err
	})
	if len(parts) < whole && errors.Is(err, fencerow.ErrStoreBusy) {
		return fencerow.NewError(op, fencerow.ErrStoreTimeout, err)
	}
	return err
}

// transactions runs each part in a transaction of its own, all in one round trip, and returns how many are
// known to be committed.
func (s *Store) transactions(ctx context.Context, conn *pgx.Conn, parts [][]call) (committed int, err error) {
	queue := &queue{rewrite: s.texts.rewrite}
	queries := db.New(queue)
	if s.plansAreOld(conn) {
		// Behind BEGIN, so that a pooler cannot lead it to another session.
		parts = slices.Clone(parts)
		parts[0] = append([]call{planAnew}, parts[0]...)
	}
	for _, part := range parts {
		queue.batch.Queue(s.texts.begin)
		for _, c := range part {
			if err := c(ctx, queries); !errors.Is(err, errQueued) {
				return 0, err
			}
		}
		queue.batch.Queue(commit)
	}
	results := conn.SendBatch(ctx, &queue.batch)
	committed, err = readAll(ctx, results, parts)
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	if err != nil && !conn.IsClosed() && conn.PgConn().TxStatus() != 'I' {
		// A statement failed before COMMIT, so the transaction is still open on the server.
		if _, rollbackErr := conn.Exec(ctx, rollback); rollbackErr != nil {
			return committed, errors.Join(err, rollbackErr)
		}
	}
	return committed, err
}

// plansAreOld reports whether a session should make its plans anew, and notes that it does.
func (s *Store) plansAreOld(conn *pgx.Conn) bool {
	const key = "fencerow: when the plans were dropped"
	noted := conn.PgConn().CustomData()
	if at, known := noted[key].(time.Time); known && time.Since(at) < s.planAge {
		return false
	}
	noted[key] = time.Now()
	return true
}

func planAnew(ctx context.Context, q *db.Queries) error { return q.TransactionPlanAnew(ctx) }

// readAll reads the answers of each part, and returns how many parts were answered to the end.
func readAll(ctx context.Context, results pgx.BatchResults, parts [][]call) (int, error) {
	queries := db.New(answers{results})
	for i, part := range parts {
		if _, err := results.Exec(); err != nil {
			return i, err
		}
		for _, c := range part {
			if err := c(ctx, queries); err != nil {
				return i, err
			}
		}
		if _, err := results.Exec(); err != nil {
			return i, err
		}
	}
	return len(parts), nil
}

// bounds is the first statement of every transaction. The wait for a lock must end before the statement does,
// or it would be reported as a slow statement instead of a busy row.
func (s *Store) bounds(bound time.Duration) call {
	ms := func(d time.Duration) string { return strconv.FormatInt(max(d.Milliseconds(), 1), 10) + "ms" }
	return func(ctx context.Context, q *db.Queries) error {
		_, err := q.TransactionBounds(ctx, db.TransactionBoundsParams{
			StatementTimeout: ms(bound),
			LockTimeout:      ms(bound - bound/5),
			IdleTimeout:      ms(bound),
		})
		return err
	}
}

// queries runs single statements, each outside a transaction.
func (s *Store) queries(conn *pgx.Conn) *db.Queries {
	if s.texts.rewrite == nil {
		return db.New(conn)
	}
	return db.New(rewriting{conn, s.texts.rewrite})
}

type rewriting struct {
	*pgx.Conn
	rewrite func(string) string
}

func (r rewriting) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return r.Conn.Query(ctx, r.rewrite(sql), args...)
}

func (r rewriting) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return r.Conn.QueryRow(ctx, r.rewrite(sql), args...)
}

// queue is a database handle that only queues.
type queue struct {
	batch   pgx.Batch
	rewrite func(string) string
}

func (q *queue) add(sql string, args []any) {
	if q.rewrite != nil {
		sql = q.rewrite(sql)
	}
	q.batch.Queue(sql, args...)
}

func (q *queue) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	q.add(sql, args)
	return pgconn.CommandTag{}, errQueued
}

func (q *queue) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	q.add(sql, args)
	return nil, errQueued
}

func (q *queue) QueryRow(_ context.Context, sql string, args ...any) pgx.Row {
	q.add(sql, args)
	return queuedRow{}
}

type queuedRow struct{}

func (queuedRow) Scan(...any) error { return errQueued }

// answers is a database handle that reads the answers of a queue in its order.
type answers struct {
	results pgx.BatchResults
}

func (a answers) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return a.results.Exec()
}

func (a answers) Query(context.Context, string, ...any) (pgx.Rows, error) { return a.results.Query() }

func (a answers) QueryRow(context.Context, string, ...any) pgx.Row { return a.results.QueryRow() }
