package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/sql"
)

// awaitBlocked waits until a migration waits for another session.
func awaitBlocked(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	await(t, conn, `
SELECT EXISTS (
    SELECT
    FROM pg_stat_activity
    WHERE datname = current_database()
        AND application_name = 'fencerow migrate'
        AND cardinality(pg_blocking_pids(pid)) > 0
)`)
}

func TestTwentyProcessesAtOnceMigrateOnce(t *testing.T) {
	t.Parallel()
	r, db := newRunnerOn(t)
	const processes = 20
	outputs := make([]string, processes)
	var all sync.WaitGroup
	for i := range processes {
		all.Go(func() {
			var output, talk bytes.Buffer
			command := exec.CommandContext(t.Context(), os.Args[0])
			command.Env = append(os.Environ(), envUp+"="+db.DSN())
			command.Stdout, command.Stderr = &output, &talk
			if err := command.Run(); err != nil {
				t.Errorf("a process failed: %v: %s", err, talk.String())
			}
			outputs[i] = strings.TrimSpace(output.String())
		})
	}
	all.Wait()
	var first, others int
	for _, output := range outputs {
		switch output {
		case fmt.Sprint(0, latest(t)):
			first++
		case fmt.Sprint(latest(t), latest(t)):
			others++
		}
	}
	if first != 1 || others != processes-1 {
		t.Errorf("%d processes migrated and %d found it done: %q", first, others, outputs)
	}
	mustMatch(t, r, sql.Golden)
}

func TestWaitForTheMigrationLockIsBounded(t *testing.T) {
	t.Parallel()
	r, db := newRunnerOn(t)
	holder := db.Connect(t)
	if !one[bool](t, holder, lockSQL) {
		t.Fatal("the lock is not free")
	}
	t.Run("ByItsOwnLimit", func(t *testing.T) {
		r.wait = time.Millisecond
		if _, err := r.up(t.Context()); !errors.Is(err, fencerow.ErrMigrationLocked) {
			t.Errorf("up beside a migration: %v", err)
		}
	})
	t.Run("ByTheCaller", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := Up(ctx, db.DSN())
		if !errors.Is(err, fencerow.ErrMigrationLocked) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("up beside a migration: %v", err)
		}
	})
	t.Run("StatusWaitsForNobody", func(t *testing.T) {
		mustBeAt(t, db.DSN(), 0)
	})
}

// cancelAfter cancels a context when the n-th statement of a session has ended.
type cancelAfter struct {
	left   atomic.Int32
	cancel context.CancelFunc
}

func (c *cancelAfter) TraceQueryStart(
	ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData,
) context.Context {
	return ctx
}

func (c *cancelAfter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {
	if c.left.Add(-1) == 0 {
		c.cancel()
	}
}

func TestCancelledAfterAnyStatementUpFinishesLater(t *testing.T) {
	t.Parallel()
	r, db := newRunnerOn(t)
	mustTo(t, r, 0)
	whole := false
	for n := int32(1); !whole; n++ {
		ctx, cancel := context.WithCancel(t.Context())
		tracer := &cancelAfter{cancel: cancel}
		tracer.left.Store(n)
		cancelled := runnerFor(t, db.DSN())
		cancelled.config.Tracer = tracer
		_, err := cancelled.up(ctx)
		whole = tracer.left.Load() > 0 // it ended before the n-th statement
		cancel()
		if whole {
			if err != nil {
				t.Fatalf("the whole of it: %v", err)
			}
			if n < 15 {
				t.Errorf("it was cancelled at %d statements only", n)
			}
		} else if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled after statement %d: %v", n, err)
		}
		if _, err := r.up(t.Context()); err != nil {
			t.Fatalf("up after a cancellation at statement %d: %v", n, err)
		}
		mustMatch(t, r, sql.Golden)
		mustTo(t, r, 0)
	}
}

func TestCancelledInsideAStatementUpFinishesLater(t *testing.T) {
	t.Parallel()
	r, db := newRunnerOn(t)
	mustTo(t, r, 1)
	db.Exec(t, hostileSQL)
	before := mustLines(t, r, contentBeforeSQL)
	reader := begin(t, db, "SELECT count(*) FROM fencerow.ledger_outbox")
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := r.up(ctx)
		failed <- err
	}()
	awaitBlocked(t, db.Connect(t))
	cancel()
	err := <-failed
	mustFail(t, err, fencerow.ErrMigrationFailed, 2, "57014")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	run(t, reader, "COMMIT")
	mustUp(t, r, Change{1, latest(t)})
	mustMatch(t, r, sql.Golden)
	mustHold(t, r, contentAfterSQL, before)
}

func TestALockThatIsNotHadInTimeIsBusy(t *testing.T) {
	t.Parallel()
	r, db := newRunnerOn(t)
	mustTo(t, r, 1)
	reader := begin(t, db, "SELECT count(*) FROM fencerow.ledger_outbox")
	_, err := r.up(t.Context())
	mustFail(t, err, fencerow.ErrStoreBusy, 2, "55P03")
	run(t, reader, "COMMIT")
	mustUp(t, r, Change{1, latest(t)})
}
