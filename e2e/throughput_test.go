package e2e

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/ledger"
	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
	"github.com/fourblocks2020/fencerow/internal/migrate"
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
	database := pgtest.NewDatabase(b, schema)
	elapsed, wal := drain(b, database, database.DSN(), limit, target)
	b.ReportMetric(float64(b.N)/elapsed.Seconds(), "entries/s")
	b.ReportMetric(float64(wal)/float64(b.N), "WAL-B/entry")
}

// BenchmarkWalls compares the drain of a role that the walls between the instances bind with the same drain
// without walls: up/down is how much of the rate is left with them. Both run in each round, and chance says
// which begins; judge several with -count, run as the benchmark above.
func BenchmarkWalls(b *testing.B) {
	for _, limit := range []int{writer.DefaultBatchLimit, fencerow.MaxBatch} {
		b.Run(fmt.Sprintf("batch=%d", limit), func(b *testing.B) {
			up := rand.IntN(2) == 0
			taken := map[bool]time.Duration{}
			for range 2 {
				database := pgtest.NewDatabase(b, schema)
				taken[up], _ = drain(b, database, benchRole(b, database, up), limit, noopLedger{})
				up = !up
			}
			b.ReportMetric(float64(b.N)/taken[true].Seconds(), "entries/s-up")
			b.ReportMetric(float64(b.N)/taken[false].Seconds(), "entries/s-down")
			b.ReportMetric(taken[false].Seconds()/taken[true].Seconds(), "up/down")
		})
	}
}

// benchRole returns the connection string of a role that owns nothing, with the walls up or down.
func benchRole(b *testing.B, database *pgtest.Database, up bool) string {
	b.Helper()
	role := database.NewRole(b, nil)
	for _, grant := range []string{
		"USAGE ON SCHEMA fencerow", "USAGE ON ALL SEQUENCES IN SCHEMA fencerow",
		"SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA fencerow",
		"EXECUTE ON ALL FUNCTIONS IN SCHEMA fencerow",
	} {
		database.Exec(b, "GRANT "+grant+` TO "`+role.Name+`"`)
	}
	database.Exec(b, "INSERT INTO fencerow.ledger_role (role_name, instance_key) VALUES ($1, $2)",
		role.Name, benchInstance)
	if _, err := migrate.SetWalls(b.Context(), database.DSN(), up); err != nil {
		b.Fatal(err)
	}
	return database.DSN(pgtest.As(role))
}

const benchInstance = "bench"

// drain fills the database with b.N entries and measures how long they take to be delivered, and the WAL.
func drain(
	b *testing.B, database *pgtest.Database, dsn string, limit int, target fencerow.Ledger,
) (elapsed time.Duration, wal int64) {
	b.Helper()
	store, err := pgstore.Open(pgstore.Config{DSN: fencerow.NewSecret(dsn)})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	fill(b, store, benchInstance, b.N)
	database.Exec(b, "VACUUM ANALYZE")
	database.Exec(b, "CHECKPOINT")
	handler, err := observe.NewHandler(io.Discard, observe.FormatJSON, slog.LevelInfo)
	if err != nil {
		b.Fatal(err)
	}
	observer, err := observe.New(handler, benchInstance, observe.Alerting{})
	if err != nil {
		b.Fatal(err)
	}
	w, err := writer.New(store, target, observer, writer.Config{
		Instance: benchInstance, Worker: "bench", BatchLimit: limit,
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
	b.StartTimer() // a drain before this one may have stopped it
	result, err := w.Backfill(b.Context(), b.N)
	b.StopTimer()
	if err != nil || result.Outcomes[fencerow.OutcomeCompleted] != b.N {
		b.Fatalf("%+v, %v", result, err)
	}
	elapsed = b.Elapsed()
	err = conn.QueryRow(b.Context(),
		"SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), $1::text::pg_lsn)::bigint", before).Scan(&wal)
	if err != nil {
		b.Fatal(err)
	}
	return elapsed, wal
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
