package daemon

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/version"
	"github.com/fourblocks2020/fencerow/internal/writer"
)

// stopScene is a daemon with a real writer on a memory store of ten due entries, in a synctest bubble.
func stopScene(t *testing.T, ledger ledgerFunc) *bench {
	t.Helper()
	b := newBench(t, newScripted(idle), nil)
	var entries []fencerow.NewEntry
	for _, id := range "abcdefghij" {
		entries = append(entries, entry(fencerow.CorrelationID(id)))
	}
	_, err := b.store.EnqueueMany(t.Context(), fencerow.EnqueueParams{Instance: self, Entries: entries})
	check(t, err)
	w, err := writer.New(b.store, ledger, b.cfg.Observer, writer.Config{Instance: self, Worker: worker,
		Concurrency: 2})
	check(t, err)
	b.cfg.Writers = []Writer{w}
	b.d, err = New(b.cfg)
	check(t, err)
	return b
}

// left fails the test unless nothing is leased, and this many rows are pending, all due at once and no
// attempt used up.
func (b *bench) left(pending int) {
	b.t.Helper()
	claims, err := b.store.Claims(context.Background(), self)
	check(b.t, err)
	equal(b.t, "claims left", len(claims), 0)
	rows, err := b.store.ListPending(context.Background(), fencerow.ListPendingParams{Instance: self,
		Limit: 100})
	check(b.t, err)
	equal(b.t, "rows pending", len(rows), pending)
	for _, row := range rows {
		equal(b.t, "attempts of "+string(row.CorrelationID), row.Attempts, 0)
		equal(b.t, "due "+string(row.CorrelationID), row.Due, true)
	}
}

func TestStop(t *testing.T) {
	t.Run("DeliveriesInFlightEndAndTheRestIsReleased", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := stopScene(t, func(context.Context, fencerow.Delivery) fencerow.Answer {
				<-time.After(4 * time.Second)
				return delivered()
			})
			stop := b.start()
			pass(time.Second / 2)
			began := time.Now()
			check(t, stop())
			equal(t, "stopping took", time.Since(began), 3500*time.Millisecond)
			b.left(8)
			equal(t, "warnings", len(b.log.at(t, slog.LevelWarn)), 0)
		})
	})
	t.Run("DeliveriesThatDoNotEndInTimeAreReleasedAsUncertain", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := stopScene(t, func(ctx context.Context, _ fencerow.Delivery) fencerow.Answer {
				<-ctx.Done()
				return fencerow.Answer{
					Class: fencerow.AnswerRetryable, Certainty: fencerow.Unknown, Scope: fencerow.ScopeEntry,
					Reason: fencerow.ReasonDeliveryStopped,
				}
			})
			stop := b.start()
			pass(time.Second / 2)
			began := time.Now()
			check(t, stop())
			if took := time.Since(began); took > b.cfg.Grace {
				t.Errorf("stopping took %v of a grace of %v", took, b.cfg.Grace)
			}
			b.left(10)
			rows, err := b.store.ListPending(context.Background(), fencerow.ListPendingParams{Instance: self,
				Limit: 100})
			check(t, err)
			uncertain := 0
			for _, row := range rows {
				if row.Uncertain {
					uncertain++
				}
			}
			equal(t, "uncertain rows", uncertain, 2)
		})
	})
	t.Run("AClaimThatIsBeingMadeIsAwaitedAndGivenBack", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := stopScene(t, func(context.Context, fencerow.Delivery) fencerow.Answer {
				t.Error("a delivery began")
				return delivered()
			})
			slow := &slowClaims{Store: b.store, began: make(chan struct{}), proceed: make(chan struct{})}
			w, err := writer.New(slow, ledgerFunc(nil), b.cfg.Observer, writer.Config{Instance: self, Worker: worker})
			check(t, err)
			b.cfg.Writers = []Writer{w}
			b.d, err = New(b.cfg)
			check(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- b.d.Run(ctx) }()
			<-slow.began
			cancel()
			synctest.Wait()
			close(slow.proceed)
			check(t, <-ended)
			b.left(10)
		})
	})
	t.Run("WithinTheGracePeriodAlsoFromADatabaseThatHangs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, newScripted(idle), nil)
			b.store.hang()
			stop := b.start()
			pass(interval)
			began := time.Now()
			check(t, stop())
			equal(t, "stopping took", time.Since(began), 0)
			equal(t, "errors", len(b.log.at(t, slog.LevelError)), 0)
		})
	})
	t.Run("SaysSoInTheLog", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newPipedBench(t, newScripted(idle))
			b.runFor(interval)
			var events []any
			for _, record := range b.log.at(t, slog.LevelInfo) {
				events = append(events, record["msg"])
				equal(t, "worker", record["worker"], any(string(worker)))
			}
			if len(events) != 2 || events[0] != "started" || events[1] != "stopping" {
				t.Errorf("got events %v", events)
			}
			equal(t, "version", b.log.at(t, slog.LevelInfo)[0]["version"], any(version.String()))
			equal(t, "address", b.log.at(t, slog.LevelInfo)[0]["ops_listen"], any("127.0.0.1:0"))
		})
	})
}

// slowClaims answers a batch claim only when the test says so.
type slowClaims struct {
	fencerow.Store
	began, proceed chan struct{}
}

func (s *slowClaims) ClaimBatch(ctx context.Context, p fencerow.ClaimBatchParams) (*fencerow.Claim, error) {
	claim, err := s.Store.ClaimBatch(ctx, p)
	close(s.began)
	<-s.proceed
	return claim, err
}
