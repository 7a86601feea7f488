package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/observe"
	"github.com/fourblocks2020/fencerow/internal/writer"
)

// newGroup makes a daemon of these writers, whose ops listener has no socket.
func newGroup(t *testing.T, ws ...*scripted) *bench {
	t.Helper()
	b := newPipedBench(t, ws[0])
	for _, w := range ws[1:] {
		b.cfg.Writers = append(b.cfg.Writers, w)
	}
	var err error
	b.d, err = New(b.cfg)
	check(t, err)
	b.d.ops.listen = piped
	return b
}

// realGroup is a daemon of three writers on one memory store of n due entries, in a synctest bubble.
func realGroup(t *testing.T, n int, ledger ledgerFunc) *bench {
	t.Helper()
	b := newPipedBench(t, newScripted(idle))
	entries := make([]fencerow.NewEntry, n)
	for i := range entries {
		entries[i] = entry(fencerow.CorrelationID(fmt.Sprint("e-", i)))
	}
	_, err := b.store.EnqueueMany(t.Context(), fencerow.EnqueueParams{Instance: self, Entries: entries})
	check(t, err)
	b.cfg.Writers = nil
	for i := range 3 {
		w, err := writer.New(b.store, ledger, b.cfg.Observer, writer.Config{
			Instance: self, Worker: fencerow.WorkerID(fmt.Sprint("worker-", i)), BatchLimit: 10, Concurrency: 4,
		})
		check(t, err)
		b.cfg.Writers = append(b.cfg.Writers, w)
	}
	b.d, err = New(b.cfg)
	check(t, err)
	b.d.ops.listen = piped
	return b
}

func (b *bench) metrics() observe.Metrics { return b.cfg.Observer.Metrics() }

func TestWritersOfOneDaemon(t *testing.T) {
	t.Run("PollOnCadencesOfTheirOwnSpreadOverTheInterval", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			first, second := newScripted(idle), newScripted(idle)
			b := newGroup(t, first, second)
			stop := b.start()
			pass(3*interval - interval/4)
			got := [][]time.Duration{first.polledAt(), second.polledAt()}
			check(t, stop())
			want := [][]time.Duration{
				{0, interval, 2 * interval},
				{interval / 2, interval + interval/2, 2*interval + interval/2},
			}
			if !slices.EqualFunc(got, want, slices.Equal) {
				t.Errorf("polls at %v, want %v", got, want)
			}
		})
	})
	t.Run("FollowUpsAreThoseOfTheWriterThatAsks", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			first, second := newScripted(idle), newScripted(idle)
			second.wake <- struct{}{}
			b := newGroup(t, first, second)
			stop := b.start()
			pass(interval / 4)
			equal(t, "polls of the first", len(first.polledAt()), 1)
			equal(t, "polls of the second", len(second.polledAt()), 1)
			check(t, stop())
		})
	})
	t.Run("OneThatIsStuckMakesTheDaemonNotReadyAndThenNotHealthy", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			free := make(chan struct{})
			stuck := newScripted(func(int) (writer.PollResult, error) {
				<-free
				return writer.PollResult{}, nil
			})
			b := newGroup(t, newScripted(idle), stuck, newScripted(idle))
			stop := b.start()
			pass(interval)
			b.ready("")
			pass(3*interval + pollSlack)
			b.ready(NotReadyStale)
			equal(t, "health", b.get("/healthz").Code, http.StatusOK)
			pass(maxPoll)
			equal(t, "health", b.get("/healthz").Code, http.StatusServiceUnavailable)
			close(free)
			pass(2 * interval)
			b.ready("")
			equal(t, "health", b.get("/healthz").Code, http.StatusOK)
			check(t, stop())
		})
	})
	t.Run("OneThatFailsMakesTheDaemonNotReady", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			failing := newScripted(func(int) (writer.PollResult, error) {
				return writer.PollResult{}, errors.New("down")
			})
			b := newGroup(t, newScripted(idle), failing)
			stop := b.start()
			pass(3 * interval)
			doc := b.ready(NotReadyFailing)
			equal(t, "failed polls", doc.FailedPolls, 3)
			check(t, stop())
		})
	})
	t.Run("TheStoreIsNotBusyWhileItAnswersOneOfThem", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			busy := func(int) (writer.PollResult, error) {
				return writer.PollResult{Skipped: writer.SkippedStoreBusy}, nil
			}
			b := newGroup(t, newScripted(busy), newScripted(idle))
			b.runFor(10 * interval)
			equal(t, "warnings", len(b.log.at(t, slog.LevelWarn)), 0)

			b = newGroup(t, newScripted(busy), newScripted(busy))
			b.runFor(10 * interval)
			equal(t, "warnings when it answers none", len(b.log.at(t, slog.LevelWarn)), 1)
		})
	})
	t.Run("StopWithinOneGracePeriod", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			untilGrace := func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			}
			first, second := newScripted(idle), newScripted(idle)
			first.shutdown, second.shutdown = untilGrace, untilGrace
			b := newGroup(t, first, second)
			stop := b.start()
			pass(interval)
			began := time.Now()
			check(t, stop())
			equal(t, "stopping took", time.Since(began), b.cfg.Grace-lastWrites)
		})
	})
}

func TestWritersThatDeliver(t *testing.T) {
	t.Run("NeverHoldTheSameRowAndCountTogether", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			const entries = 200
			var mu sync.Mutex
			running, sent := map[fencerow.OutboxID]bool{}, map[fencerow.OutboxID]int{}
			epochs := map[fencerow.ClaimEpoch]bool{}
			b := realGroup(t, entries, func(_ context.Context, d fencerow.Delivery) fencerow.Answer {
				mu.Lock()
				if running[d.Entry.OutboxID] {
					t.Errorf("%s is delivered by two", d.Entry.CorrelationID)
				}
				running[d.Entry.OutboxID] = true
				sent[d.Entry.OutboxID]++
				epochs[d.Epoch] = true
				mu.Unlock()
				<-time.After(100 * time.Millisecond)
				mu.Lock()
				defer mu.Unlock()
				running[d.Entry.OutboxID] = false
				return delivered()
			})
			stop := b.start()
			pass(interval)
			claims, err := b.store.Claims(t.Context(), self)
			check(t, err)
			workers := map[fencerow.WorkerID]bool{}
			for _, claim := range claims {
				workers[claim.Worker] = true
			}
			equal(t, "workers at once", len(workers), 3)
			pass(time.Minute)
			check(t, stop())
			for id, times := range sent {
				if times != 1 {
					t.Errorf("entry %d was sent %d times", id, times)
				}
			}
			equal(t, "entries sent", len(sent), entries)
			equal(t, "completed", b.metrics().Outcomes.Completed, entries)
			equal(t, "claims", b.metrics().Claims.ClaimedBatches, int64(len(epochs)))
			b.left(0)
		})
	})
	t.Run("ProcessSingleEntriesToo", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := realGroup(t, 1, func(context.Context, fencerow.Delivery) fencerow.Answer { return delivered() })
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/process/e-0", http.NoBody)
			r.Host = "127.0.0.1:8311"
			w := httptest.NewRecorder()
			b.d.ops.handler().ServeHTTP(w, r)
			var doc ProcessResult
			check(t, json.Unmarshal(w.Body.Bytes(), &doc))
			equal(t, "status", w.Code, http.StatusOK)
			equal(t, "outcome", doc.Outcome, fencerow.OutcomeCompleted)
			b.runFor(interval)
			equal(t, "completed", b.metrics().Outcomes.Completed, 1)
		})
	})
	t.Run("StopAndGiveBackWhatTheyHold", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := realGroup(t, 60, func(ctx context.Context, _ fencerow.Delivery) fencerow.Answer {
				<-ctx.Done()
				return fencerow.Answer{
					Class: fencerow.AnswerRetryable, Certainty: fencerow.Unknown, Scope: fencerow.ScopeEntry,
					Reason: fencerow.ReasonDeliveryStopped,
				}
			})
			stop := b.start()
			pass(interval)
			began := time.Now()
			check(t, stop())
			if took := time.Since(began); took > b.cfg.Grace {
				t.Errorf("stopping took %v of a grace of %v", took, b.cfg.Grace)
			}
			b.left(60)
		})
	})
}
