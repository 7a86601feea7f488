package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/writer"
)

// get asks the handler, without a socket.
func (b *bench) get(target string) *httptest.ResponseRecorder {
	b.t.Helper()
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, target, http.NoBody)
	r.Host = "127.0.0.1:8311"
	w := httptest.NewRecorder()
	b.d.ops.handler().ServeHTTP(w, r)
	return w
}

func (b *bench) readiness() (status int, doc Readiness) {
	b.t.Helper()
	w := b.get("/readyz")
	check(b.t, json.Unmarshal(w.Body.Bytes(), &doc))
	return w.Code, doc
}

// ready fails the test unless readiness has the reason; empty means ready.
func (b *bench) ready(reason string) Readiness {
	b.t.Helper()
	status, doc := b.readiness()
	want := http.StatusOK
	if reason != "" {
		want = http.StatusServiceUnavailable
	}
	equal(b.t, "status", status, want)
	equal(b.t, "ready", doc.Ready, reason == "")
	equal(b.t, "reason", doc.Reason, reason)
	return doc
}

func TestReadiness(t *testing.T) {
	t.Run("TellsHowItStands", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newPipedBench(t, newScripted(idle))
			b.ready(NotReadyStarting)
			stop := b.start()
			pass(2*interval + interval/4)
			doc := b.ready("")
			equal(t, "instance", doc.Instance, self)
			equal(t, "worker", doc.Worker, worker)
			equal(t, "last poll", *doc.LastPollAgeSec, 0.25)
			equal(t, "oldest due", *doc.OldestDueAgeSec, 0)
			check(t, stop())
			b.ready(NotReadyStopping)
		})
	})
	t.Run("EndsWithTheThirdFailedPollAndReturnsWithAGoodOne", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newScripted(func(n int) (writer.PollResult, error) {
				if n > 1 && n < 6 {
					return writer.PollResult{}, errors.New("down")
				}
				return writer.PollResult{}, nil
			})
			b := newPipedBench(t, w)
			stop := b.start()
			for _, reason := range []string{"", "", "", NotReadyFailing, NotReadyFailing, "", ""} {
				synctest.Wait()
				b.ready(reason)
				pass(interval)
			}
			check(t, stop())
		})
	})
	t.Run("EndsWhenNoPollHasBeenGoodForLong", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newScripted(func(n int) (writer.PollResult, error) {
				if n > 1 {
					return writer.PollResult{Skipped: writer.SkippedStoreBusy}, nil
				}
				return writer.PollResult{}, nil
			})
			b := newPipedBench(t, w)
			stop := b.start()
			pass(3*interval + pollSlack)
			b.ready("")
			pass(interval)
			b.ready(NotReadyStale)
			check(t, stop())
		})
	})
	t.Run("NamesTheStoresCodeAndNothingElse", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newPipedBench(t, newScripted(idle))
			stop := b.start()
			pass(interval / 2)
			b.store.fail(storeDown())
			doc := b.ready(string(fencerow.ErrStoreUnavailable))
			if doc.OldestDueAgeSec != nil {
				t.Errorf("the oldest due row is %v old, although nobody knows", *doc.OldestDueAgeSec)
			}
			b.store.fail(errors.New(sentinel))
			pass(readyFresh)
			b.ready(string(fencerow.ErrStoreFailed))
			b.store.fail(nil)
			pass(readyFresh)
			b.ready("")
			check(t, stop())
		})
	})
	t.Run("ProbesDoNotBecomeLoad", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newPipedBench(t, newScripted(idle))
			for range 100 {
				b.readiness()
			}
			equal(t, "questions to the database", b.store.asked, 1)
			pass(readyFresh)
			b.readiness()
			equal(t, "questions to the database", b.store.asked, 2)
		})
	})
	t.Run("MeasuresTheOldestDueRow", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newPipedBench(t, newScripted(idle))
			stop := b.start()
			_, err := b.store.EnqueueMany(t.Context(), fencerow.EnqueueParams{
				Instance: self, Entries: []fencerow.NewEntry{entry("first")},
			})
			check(t, err)
			pass(90*time.Second + interval/2)
			equal(t, "oldest due", *b.ready("").OldestDueAgeSec, 90.5)
			check(t, stop())
		})
	})
}

func TestHealthEndsOnlyWhenTheLoopIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		w := newScripted(func(n int) (writer.PollResult, error) {
			if n > 1 {
				<-stuck
			}
			return writer.PollResult{}, errors.New("down")
		})
		b := newPipedBench(t, w)
		equal(t, "status before the start", b.get("/healthz").Code, http.StatusOK)
		stop := b.start()
		pass(maxPoll)
		equal(t, "status while a poll takes long", b.get("/healthz").Code, http.StatusOK)
		pass(2 * interval)
		equal(t, "status once it is stuck", b.get("/healthz").Code, http.StatusServiceUnavailable)
		close(stuck)
		pass(interval)
		equal(t, "status after that", b.get("/healthz").Code, http.StatusOK)
		check(t, stop())
	})
}

func entry(id fencerow.CorrelationID) fencerow.NewEntry {
	return fencerow.NewEntry{CorrelationID: id, EntryKind: "fill", Payload: json.RawMessage(`{"n":1}`)}
}
