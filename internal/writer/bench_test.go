package writer

import (
	"context"
	"io"
	"log/slog"
	"strconv"
	"testing"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/memstore"
	"github.com/fourblocks2020/fencerow/internal/observe"
)

type noopLedger struct{}

func (noopLedger) Deliver(context.Context, fencerow.Delivery) fencerow.Answer { return delivered() }

// BenchmarkWriter measures one entry from its claim to its recorded outcome, with a ledger that does nothing
// and the log as a daemon writes it. The memory store's share is in it.
func BenchmarkWriter(b *testing.B) {
	for _, limit := range []int{100, 1000} {
		b.Run("batch="+strconv.Itoa(limit), func(b *testing.B) { benchmarkWriter(b, limit) })
	}
}

func benchmarkWriter(b *testing.B, limit int) {
	store := memstore.New(memstore.Options{})
	handler, err := observe.NewHandler(io.Discard, observe.FormatJSON, slog.LevelInfo)
	check(b, err)
	obs, err := observe.New(handler, self, observe.Alerting{})
	check(b, err)
	cfg := testConfig()
	cfg.BatchLimit, cfg.Concurrency = limit, DefaultConcurrency
	w, err := New(store, noopLedger{}, obs, cfg)
	check(b, err)
	entries := make([]fencerow.NewEntry, limit)
	next := 0
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; done += limit {
		b.StopTimer()
		for i := range entries {
			next++
			entries[i] = fencerow.NewEntry{
				CorrelationID: fencerow.CorrelationID("entry-" + strconv.Itoa(next)), EntryKind: "fill",
				Payload: []byte(`{"n":1}`),
			}
		}
		_, err := store.EnqueueMany(b.Context(), fencerow.EnqueueParams{Instance: self, Entries: entries})
		check(b, err)
		b.StartTimer()
		_, err = w.RunOnce(b.Context())
		check(b, err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "entries/s")
}

// BenchmarkEmptyPoll measures a poll that finds nothing: the allocations are those of one context.
func BenchmarkEmptyPoll(b *testing.B) {
	store := memstore.New(memstore.Options{})
	handler, err := observe.NewHandler(io.Discard, observe.FormatJSON, slog.LevelInfo)
	check(b, err)
	obs, err := observe.New(handler, self, observe.Alerting{})
	check(b, err)
	w, err := New(store, noopLedger{}, obs, testConfig())
	check(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.RunOnce(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
