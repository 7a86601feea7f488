package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/writer"
)

// storeRecords returns the records about a store that fails, each as "LEVEL event what reason".
func (b *bench) storeRecords() (found []string) {
	b.t.Helper()
	for _, level := range []slog.Level{slog.LevelWarn, slog.LevelInfo} {
		for _, r := range b.log.at(b.t, level) {
			event, _ := r["msg"].(string)
			alert, _ := r["alert"].(string)
			reason, _ := r["reason"].(string)
			if strings.HasPrefix(event, "store ") || strings.HasPrefix(alert, "store_") {
				found = append(found, strings.Join(strings.Fields(level.String()+" "+event+" "+alert+" "+reason), " "))
			}
		}
	}
	return found
}

func (b *bench) wantStoreRecords(want ...string) {
	b.t.Helper()
	if got := b.storeRecords(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		b.t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// failing is a writer whose polls fail from the second to the given one.
func failing(until int, err func() error) *scripted {
	return newScripted(func(n int) (writer.PollResult, error) {
		if n > 1 && n <= until {
			return writer.PollResult{}, err()
		}
		return writer.PollResult{}, nil
	})
}

func TestPollsThatFailAreToldOnceWithTheStoresCode(t *testing.T) {
	const down = "store_unavailable"
	told := []string{
		"WARN store failing " + down, "WARN alert store_failing " + down,
		"INFO store restored " + down, "INFO alert store_restored " + down,
	}
	other := make([]string, len(told))
	for i := range told {
		other[i] = strings.Replace(told[i], down, "ledger_writer_run_once_failed", 1)
	}
	for _, tt := range []struct {
		name  string
		until int
		err   func() error
		want  []string
	}{
		{"TwoInARowAreNot", 3, storeDown, nil},
		{"Three", 4, storeDown, told},
		{"Many", 9, storeDown, told},
		{"AnotherError", 9, func() error { return &sentinelError{} }, other},
		{"APanic", 9, func() error { panic(sentinel) }, other},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, failing(tt.until, tt.err), nil)
				b.runFor(12 * interval)
				b.wantStoreRecords(tt.want...)
				equal(t, "errors", len(b.log.at(t, slog.LevelError)), tt.until-1)
				if strings.Contains(b.log.text(), sentinel) {
					t.Errorf("the log shows the error's text:\n%s", b.log.text())
				}
			})
		})
	}
	t.Run("ItIsOverWhenNoWriterHasIt", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, failing(9, storeDown), func(cfg *Config) {
				cfg.Writers = append(cfg.Writers, failing(6, storeDown))
			})
			stop := b.start()
			pass(8*interval + interval/4) // the second's are good again
			b.wantStoreRecords(told[:2]...)
			pass(2 * interval)
			b.wantStoreRecords(told...)
			check(t, stop())
		})
	})
	t.Run("AtStartTheNoticeHasTheCodeToo", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, newScripted(idle), nil)
			b.store.fail(storeDown())
			stop := b.start()
			pass(interval / 2)
			sameRecord(t, "notice", b.log.at(t, slog.LevelWarn)[0], map[string]any{
				"level": "WARN", "msg": "notice", "instance_key": string(self), "reason": "store_not_ready", "code": down,
			})
			pass(4 * interval)
			b.store.fail(nil)
			pass(interval)
			b.wantStoreRecords(told...)
			check(t, stop())
		})
	})
	t.Run("AStopIsNoFailure", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, failing(3, storeDown), nil)
			stop := b.start()
			pass(2*interval + interval/2)
			check(t, stop())
			b.wantStoreRecords()
		})
	})
}

func TestAHoldIsToldByReadinessAndMakesNobodyLessReady(t *testing.T) {
	t.Run("OfTheTarget", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newScripted(idle)
			b := newPipedBench(t, w)
			stop := b.start()
			pass(interval / 2)
			if doc := b.ready(""); doc.TargetHeld != nil || doc.InstanceHeld || doc.NATSConnected != nil {
				t.Errorf("got %+v", doc)
			}
			began := w.start.Add(interval / 2)
			b.d.obs.TargetFailed(0)
			b.d.obs.TargetHeld("throttled")
			pass(interval)
			doc := b.ready("")
			if doc.TargetHeld == nil || doc.TargetHeld.Reason != "throttled" || !doc.TargetHeld.Since.Equal(began) {
				t.Errorf("got %+v", doc.TargetHeld)
			}
			b.d.obs.TargetResumed()
			if doc := b.ready(""); doc.TargetHeld != nil {
				t.Errorf("got %+v", doc.TargetHeld)
			}
			check(t, stop())
		})
	})
	t.Run("OfTheInstanceOnTheChange", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			const held, claimed = writer.SkippedInstanceHeld, ""
			script := []writer.SkipReason{claimed, held, held, writer.SkippedStoreBusy, held, claimed, claimed}
			b := newPipedBench(t, newScripted(func(n int) (writer.PollResult, error) {
				return writer.PollResult{Skipped: script[min(n, len(script))-1]}, nil
			}))
			stop := b.start()
			for _, want := range []bool{false, true, true, true, true, false, false} {
				synctest.Wait()
				equal(t, "held", b.ready("").InstanceHeld, want)
				pass(interval)
			}
			check(t, stop())
			var events []string
			for _, r := range b.log.at(t, slog.LevelInfo) {
				if event, _ := r["msg"].(string); strings.HasPrefix(event, "instance ") {
					events = append(events, event)
				}
			}
			equal(t, "records", strings.Join(events, ", "), "instance held, instance resumed")
		})
	})
	t.Run("NATS", func(t *testing.T) {
		for _, connected := range []bool{true, false} {
			b := newBench(t, newScripted(idle), func(cfg *Config) {
				withOps(cfg)
				cfg.Responder = connection(connected)
			})
			if _, doc := b.readiness(); doc.NATSConnected == nil || *doc.NATSConnected != connected {
				t.Errorf("connected: %v, told: %v", connected, doc.NATSConnected)
			}
		}
	})
}

// connection is a responder that is connected, or not.
type connection bool

func (connection) Run(context.Context) {}

func (c connection) Connected() bool { return bool(c) }

func TestATokenFileThatCannotBeReadIsNoticedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	check(t, os.WriteFile(path, []byte("first\n"), 0o600))
	b := newBench(t, newScripted(idle), func(cfg *Config) {
		withOps(cfg)
		cfg.OpsTokenFile = path
	})
	ask := func(want int) {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", http.NoBody)
		r.Host = "127.0.0.1:8311"
		r.Header.Set("Authorization", "Bearer first")
		w := httptest.NewRecorder()
		b.d.ops.handler().ServeHTTP(w, r)
		equal(t, "status", w.Code, want)
	}
	ask(http.StatusServiceUnavailable) // not started
	for range 2 {
		check(t, os.Remove(path))
		for range 3 {
			ask(http.StatusUnauthorized)
		}
		check(t, os.WriteFile(path, []byte("first\n"), 0o600))
		ask(http.StatusServiceUnavailable)
	}
	notices := b.log.at(t, slog.LevelWarn)
	equal(t, "notices, one each time that it went away", len(notices), 2)
	sameRecord(t, "notice", notices[0], map[string]any{
		"level": "WARN", "msg": "notice", "instance_key": string(self), "reason": "token_file_unreadable",
		"setting": "ops_token_file",
	})
}

func TestAFailureOfTheStoreKeepsItsCode(t *testing.T) {
	for err, want := range map[error]fencerow.Code{
		storeDown(): fencerow.ErrStoreUnavailable, errors.New(sentinel): "", errPanicked: "",
	} {
		equal(t, "code", storeCode(err), want)
	}
}
