package canary

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/daemon"
	"github.com/fourblocks2020/fencerow/internal/memstore"
	"github.com/fourblocks2020/fencerow/internal/migrate"
	"github.com/fourblocks2020/fencerow/internal/observe"
	"github.com/fourblocks2020/fencerow/internal/pgstore"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
	"github.com/fourblocks2020/fencerow/internal/slots"
	"github.com/fourblocks2020/fencerow/internal/writer"
)

// bareWorld is a world without a database.
func bareWorld(t testing.TB) *world {
	return &world{t: t, role: pgtest.Role{Name: "no role"}, db: &pgtest.Database{Name: "no database"}}
}

// evilStore fails or panics with secrets in the text, before anything else is done.
type evilStore struct {
	fencerow.Store
	// trouble is what claims and records meet; nil is none.
	claim, record func() error
}

func (s *evilStore) ClaimBatch(ctx context.Context, p fencerow.ClaimBatchParams) (*fencerow.Claim, error) {
	if s.claim != nil {
		return nil, s.claim()
	}
	return s.Store.ClaimBatch(ctx, p)
}

func (s *evilStore) ClaimOne(ctx context.Context, p fencerow.ClaimOneParams) (*fencerow.Claim, error) {
	if s.claim != nil {
		return nil, s.claim()
	}
	return s.Store.ClaimOne(ctx, p)
}

func (s *evilStore) RecordOutcomes(ctx context.Context, p fencerow.RecordParams) ([]fencerow.Verdict, error) {
	if s.record != nil {
		return nil, s.record()
	}
	return s.Store.RecordOutcomes(ctx, p)
}

// evilLedger answers in its own words, or panics with them.
type evilLedger func(fencerow.Delivery) fencerow.Answer

func (l evilLedger) Deliver(_ context.Context, d fencerow.Delivery) fencerow.Answer { return l(d) }

// buffer is a log. It is safe for concurrent use.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// bench is a daemon in this process, on either store.
type bench struct {
	w     *world
	log   buffer
	obs   *observe.Observer
	store both
	run   *daemon.Daemon
	write *writer.Writer
}

func newBench(w *world, store both, l fencerow.Ledger, format string) *bench {
	w.t.Helper()
	b := &bench{w: w, store: store}
	handler, err := observe.NewHandler(&b.log, observe.Format(format), slog.LevelDebug)
	check(w.t, err)
	b.obs, err = observe.New(handler, desk, observe.Alerting{})
	check(w.t, err)
	w.t.Cleanup(b.obs.CloseAlerts)
	b.write, err = writer.New(store, l, b.obs, writer.Config{
		Instance: desk, Worker: "canary", Lease: time.Second, DeliveryTimeout: 100 * time.Millisecond,
		BackoffBase: time.Millisecond, BackoffCap: time.Millisecond,
	})
	check(w.t, err)
	b.run, err = daemon.New(daemon.Config{
		Store: store, Slots: slots.NewBuilder(store, desk, "canary", slots.CountersOf(b.obs)),
		Writers: []daemon.Writer{b.write}, Observer: b.obs, Worker: "canary", Interval: 5 * time.Millisecond,
		Grace: time.Second, OpsListen: "127.0.0.1:0",
	})
	check(w.t, err)
	return b
}

// until runs the daemon until its log holds a text, and searches the log and the metrics.
func (b *bench) until(text string) {
	b.w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.run.Run(ctx) }()
	until(b.w.t, text, func() bool { return strings.Contains(b.log.String(), text) })
	cancel()
	check(b.w.t, <-ended)
	metrics, err := json.Marshal(b.obs.Metrics())
	check(b.w.t, err)
	b.w.see("the log", b.log.String())
	b.w.see("the metrics", string(metrics)+fmt.Sprintf("%+v", b.obs.Metrics()))
	for _, counters := range []slots.Reader{
		slots.CountersOf(b.obs), func() (observe.Metrics, error) { panic(hostile(panicText)) },
		func() (observe.Metrics, error) { return observe.Metrics{}, evilErrors()[0] },
	} {
		answer, refused := slots.NewBuilder(b.store, desk, "canary", counters).Answer(context.Background(), true)
		b.w.see("the answer about slots", string(answer)+string(refused))
	}
}

// evilTexts are errors and panics that hold secrets, in the ways in which they come.
func evilErrors() []error {
	text := hostile(databaseText) + hostile(password)
	inner := errors.New(text)
	return []error{
		inner, fmt.Errorf("%s: %w", text, inner), errors.Join(inner, inner), evilError{text},
		fencerow.NewError("claim batch", fencerow.ErrStoreFailed, inner),
		fmt.Errorf("%s: %w", text, fencerow.NewError("claim batch", fencerow.ErrStoreFailed, inner)),
	}
}

// evilError says the same in every way that a value can be shown.
type evilError struct{ Text string }

func (e evilError) Error() string                { return e.Text }
func (e evilError) LogValue() slog.Value         { return slog.StringValue(e.Text) }
func (e evilError) MarshalText() ([]byte, error) { return []byte(e.Text), nil }

// libraryScene is what the programs cannot be brought to: stores and ledgers that break their contracts.
func libraryScene(open func(*testing.T) (*world, realStore)) func(*testing.T) []row {
	return func(t *testing.T) []row {
		w, store := open(t)
		formats := []string{"text", "json"}
		next := 0
		enqueue := func() {
			next++
			e := fencerow.NewEntry{
				CorrelationID: fencerow.CorrelationID(fmt.Sprintf("library-%d", next)), EntryKind: "fill",
				Payload: fmt.Appendf(nil, `{"memo":%q}`, payload), SlotID: "slot-1",
			}
			_, err := store.EnqueueMany(w.t.Context(),
				fencerow.EnqueueParams{Instance: desk, Entries: []fencerow.NewEntry{e}})
			check(w.t, err)
		}
		drive := func(do func(format string)) func(testing.TB) *world {
			return func(t testing.TB) *world {
				w.row(t)
				for _, format := range formats {
					do(format)
				}
				return w
			}
		}
		return []row{
			{name: "store_error", shown: []string{"ledger_writer_run_once_failed"}, drive: drive(func(format string) {
				for _, evil := range evilErrors() {
					s := &evilStore{Store: store, claim: func() error { return evil }}
					newBench(w, both{s, store}, evilLedger(nil), format).until("poll failed")
				}
			})},
			{name: "store_panic", shown: []string{"ledger_writer_run_once_failed"}, drive: drive(func(format string) {
				text := hostile(panicText)
				for _, value := range []any{
					text, evilError{text}, errors.New(text), map[string]string{text: "x"}, []byte(text),
				} {
					s := &evilStore{Store: store, claim: func() error { panic(value) }}
					newBench(w, both{s, store}, evilLedger(nil), format).until("poll failed")
				}
			})},
			{name: "record_error", shown: []string{"record abandoned"}, drive: drive(func(format string) {
				enqueue()
				s := &evilStore{Store: store, record: func() error { return evilErrors()[1] }}
				newBench(w, both{s, store}, evilLedger(func(fencerow.Delivery) fencerow.Answer {
					return fencerow.Answer{Class: fencerow.AnswerPermanent, Certainty: fencerow.Answered,
						Scope: fencerow.ScopeEntry, Reason: fencerow.ReasonBadRequest}
				}), format).until("record abandoned")
				drain(w, store)
			})},
			{name: "delivery_panicked", codes: []string{"delivery_panicked"},
				shown: []string{reasonIs("delivery_panicked")}, drive: drive(func(format string) {
					enqueue()
					newBench(w, both{store, store}, evilLedger(func(d fencerow.Delivery) fencerow.Answer {
						panic(hostile(panicText) + string(d.Entry.Payload))
					}), format).until("delivery_panicked")
					drain(w, store)
				})},
			{name: "trust_window_ended", codes: []string{"trust_window_ended"},
				shown: []string{reasonIs("trust_window_ended")}, drive: drive(func(format string) {
					enqueue()
					newBench(w, both{store, store}, evilLedger(func(fencerow.Delivery) fencerow.Answer {
						return fencerow.Answer{Class: fencerow.AnswerRetryable, Certainty: fencerow.Unknown,
							Scope: fencerow.ScopeEntry, Reason: fencerow.ReasonTrustWindowEnded}
					}), format).until("trust_window_ended")
					drain(w, store)
				})},
			{name: "answer_of_text", shown: []string{reasonIs("answer_unreadable")}, drive: drive(func(format string) {
				enqueue()
				newBench(w, both{store, store}, evilLedger(func(fencerow.Delivery) fencerow.Answer {
					return fencerow.Answer{Class: fencerow.AnswerClass(hostile(providerText)),
						Reason: fencerow.ReasonCode(hostile(providerText)), LedgerRef: hostile(reference),
						Snapshot: &fencerow.Snapshot{SlotID: fencerow.SlotID(hostile(account)), Currency: hostile(account)}}
				}), format).until("answer_unreadable")
				drain(w, store)
			})},
		}
	}
}

// realStore is a store as the programs have it.
type realStore interface {
	fencerow.Store
	daemon.Store
}

// both is a store whose claims may be evil and whose other answers are those of a real one.
type both struct {
	fencerow.Store
	real daemon.Store
}

// Ready implements daemon.Store.
func (b both) Ready(ctx context.Context) (fencerow.SchemaVersion, error) {
	return b.real.Ready(ctx)
}

// drain has a ledger that behaves take what is left, so that rows do not meet each other's entries.
func drain(w *world, store realStore) {
	w.t.Helper()
	booked := evilLedger(func(fencerow.Delivery) fencerow.Answer {
		return fencerow.Answer{
			Class: fencerow.AnswerDelivered, Certainty: fencerow.Answered, Scope: fencerow.ScopeEntry,
		}
	})
	b := newBench(w, both{store, store}, booked, "json")
	until(w.t, "an empty outbox", func() bool {
		_, err := b.write.RunOnce(w.t.Context())
		check(w.t, err)
		counts, err := store.Counts(w.t.Context(), desk)
		check(w.t, err)
		return counts.ByStatus[fencerow.StatusPending] == 0
	})
	w.see("the log", b.log.String())
}

func memoryScene(t *testing.T) []row {
	return libraryScene(func(t *testing.T) (*world, realStore) {
		return bareWorld(t), memstore.New(memstore.Options{})
	})(t)
}

func storeScene(t *testing.T) []row {
	return libraryScene(func(t *testing.T) (*world, realStore) {
		w := newWorld(t)
		store, err := pgstore.Open(pgstore.Config{DSN: fencerow.NewSecret(w.settings["DSN"])})
		check(t, err)
		t.Cleanup(store.Close)
		return w, store
	})(t)
}

// everyForm renders a value in each way that Go offers.
func everyForm(w *world, value any) {
	w.t.Helper()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		w.see("the form "+verb, fmt.Sprintf(verb, value))
	}
	w.see("Sprint", fmt.Sprint(value, []any{value}, struct{ V any }{value}))
	for _, v := range []any{value, struct{ V any }{value}, []any{value}} {
		text, err := json.Marshal(v)
		check(w.t, err)
		w.see("JSON", string(text))
	}
	var log bytes.Buffer
	for _, handler := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		check(w.t, handler.Handle(context.Background(), func() slog.Record {
			r := slog.NewRecord(time.Now(), slog.LevelInfo, "x", 0)
			r.AddAttrs(slog.Any("value", value), slog.Any("in", []any{value}))
			return r
		}()))
	}
	w.see("slog", log.String())
}

// formScene renders errors themselves.
func formScene(*testing.T) []row {
	return []row{
		alertRow(),
		{name: "counters", codes: []string{"ledger_outbox_metrics_unavailable"}, drive: func(t testing.TB) *world {
			w := bareWorld(t)
			for _, evil := range evilErrors() {
				for _, read := range []slots.Reader{
					func() (observe.Metrics, error) { return observe.Metrics{}, evil },
					func() (observe.Metrics, error) { panic(evil) },
				} {
					builder := slots.NewBuilder(memstore.New(memstore.Options{}), desk, "canary", read)
					line, _ := builder.Answer(t.Context(), true)
					w.see("an answer about slots", string(line))
				}
			}
			return w
		}},
		{name: "every_error", shown: []string{"store_failed"}, drive: func(t testing.TB) *world {
			w := bareWorld(t)
			for _, evil := range evilErrors() {
				e := fencerow.NewError("claim batch", fencerow.ErrStoreFailed, evil)
				everyForm(w, e)
				everyForm(w, fmt.Errorf("outer: %w", e))
				w.see("the type", fencerow.InnermostType(evil))
			}
			for _, dsn := range badDSNs() {
				if store, err := pgstore.Open(pgstore.Config{DSN: fencerow.NewSecret(dsn)}); err != nil {
					everyForm(w, err)
				} else {
					store.Close()
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				if _, err := migrate.ReadStatus(ctx, dsn); err != nil {
					everyForm(w, err)
				}
				cancel()
			}
			return w
		}},
		// A minute, a defect of a release, or a broken listener would be needed to meet these. They are codes
		// beside which nothing can be said.
		{name: "bare_codes", codes: []string{"migration_locked", "migration_irreversible", "history_invalid",
			"log_unread", "polls_stuck", "internal", "ops_listener_failed", "webhook_address_blocked",
			"ops_request_panicked",
		}, drive: func(t testing.TB) *world {
			w := bareWorld(t)
			for _, code := range []fencerow.Code{fencerow.ErrMigrationLocked, fencerow.ErrMigrationIrreversible,
				fencerow.ErrHistoryInvalid, "log_unread", "polls_stuck", "internal"} {
				everyForm(w, fencerow.NewError("do", code, errors.New(hostile(databaseText))))
			}
			store := memstore.New(memstore.Options{})
			b := newBench(w, both{store, store}, evilLedger(nil), "text")
			b.obs.Notify(observe.NoticeOpsFailed)
			for _, value := range []any{hostile(panicText), evilErrors()[1], evilErrors()[3]} {
				b.obs.RequestPanicked(value)
			}
			b.obs.WebhookFailed(observe.WebhookAddressBlocked)
			w.see("the log", b.log.String())
			return w
		}},
	}
}
