package e2e

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/ledger"
	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
	"github.com/fourblocks2020/fencerow/internal/observe"
	"github.com/fourblocks2020/fencerow/internal/pgstore"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
	"github.com/fourblocks2020/fencerow/internal/writer"
)

// BenchmarkDrain measures entries from their claim to their recorded outcome: a writer as the daemon runs it,
// on a real PostgreSQL, with the log written to nowhere. One iteration is one entry; run it with -benchtime
// 100000x and FENCEROW_TEST_FSYNC=1. The WAL is that of the drain alone.
func BenchmarkDrain(b *testing.B) {
	for _, limit := range []int{writer.DefaultBatchLimit, fencerow.MaxBatch} {
		b.Run(fmt.Sprintf("noop/batch=%d", limit), func(b *testing.B) { benchmarkDrain(b, limit, noopLedger{}) })
	}
	for _, limit := range []int{writer.DefaultBatchLimit, fencerow.MaxBatch} {
		b.Run(fmt.Sprintf("http/batch=%d", limit), func(b *testing.B) {
			server := httptest.NewServer(ledgerstub.New(ledgerstub.Options{}))
			defer server.Close()
			client, err := ledger.New(ledger.Config{
				URL: server.URL + ledgerstub.EntriesPath, Concurrency: writer.DefaultConcurrency,
			})
			if err != nil {
				b.Fatal(err)
			}
			defer client.Close()
			benchmarkDrain(b, limit, client)
		})
	}
}

type noopLedger struct{}

func (noopLedger) Deliver(context.Context, fencerow.Delivery) fencerow.Answer {
	return fencerow.Answer{
		Class:     fencerow.AnswerDelivered,
		Certainty: fencerow.Answered,
		Scope:     fencerow.ScopeEntry,
	}
}

func benchmarkDrain(b *testing.B, limit int, target fencerow.Ledger) {
	const instance = "bench"
	database := pgtest.NewDatabase(b, schema)
	store, err := pgstore.Open(pgstore.Config{DSN: fencerow.NewSecret(database.DSN())})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	fill(b, store, instance, b.N)
	database.Exec(b, "VACUUM ANALYZE")
	database.Exec(b, "CHECKPOINT")
	handler, err := observe.NewHandler(io.Discard, observe.FormatJSON, slog.LevelInfo)
	if err != nil {
		b.Fatal(err)
	}
	observer, err := observe.New(handler, instance, observe.Alerting{})
	if err != nil {
		b.Fatal(err)
	}
	w, err := writer.New(store, target, observer, writer.Config{
		Instance: instance, Worker: "bench", BatchLimit: limit,
	})
	if err != nil {
		b.Fatal(err)
	}
	conn := database.Connect(b)
	var before string
	if err := conn.QueryRow(b.Context(), "SELECT pg_current_wal_lsn()::text").Scan(&before); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	result, err := w.Backfill(b.Context(), b.N)
	b.StopTimer()
	if err != nil || result.Outcomes[fencerow.OutcomeCompleted] != b.N {
		b.Fatalf("%+v, %v", result, err)
	}
	var wal int64
	err = conn.QueryRow(
		b.Context(),
		"SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), $1::text::pg_lsn)::bigint",
		before,
	).Scan(
		&wal,
	)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "entries/s")
	b.ReportMetric(float64(wal)/float64(b.N), "WAL-B/entry")
}

// fill enqueues n entries with a payload of about 300 bytes.
func fill(b *testing.B, store fencerow.Store, instance fencerow.InstanceKey, n int) {
	b.Helper()
	payload := []byte(`{"pad":"` + strings.Repeat("x", 290) + `"}`)
	start := time.Now()
	for first := 0; first < n; first += fencerow.MaxBatch {
		entries := make([]fencerow.NewEntry, min(fencerow.MaxBatch, n-first))
		for i := range entries {
			entries[i] = fencerow.NewEntry{
				CorrelationID: fencerow.CorrelationID(fmt.Sprint("entry-", first+i)), EntryKind: "fill", SlotID: "slot-1",
				CashDelta: decimal.New(-1250, -2), Currency: "EUR", Payload: payload,
			}
		}
		if _, err := store.EnqueueMany(
			b.Context(),
			fencerow.EnqueueParams{Instance: instance, Entries: entries},
		); err != nil {
			b.Fatal(err)
		}
	}
	b.Logf("enqueued %.0f entries/s", float64(n)/time.Since(start).Seconds())
}
