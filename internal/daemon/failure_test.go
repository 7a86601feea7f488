package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/writer"
)

// sentinelError is an unexpected error whose text must not be shown.
type sentinelError struct{}

func (*sentinelError) Error() string { return sentinel }

func TestAFailedPollIsOneErrorRecordAndTheLoopGoesOn(t *testing.T) {
	tests := []struct {
		name    string
		fail    func() error
		excType string
	}{
		{"AnError", func() error { return &sentinelError{} }, "*daemon.sentinelError"},
		{"TheInnermostOfWrappedErrors",
			func() error { return fmt.Errorf("poll %s: %w", sentinel, &sentinelError{}) }, "*daemon.sentinelError"},
		{"AStoresError", storeDown, "*errors.errorString"},
		{"APanicWithAnError", func() error { panic(&sentinelError{}) }, "*daemon.sentinelError"},
		{"APanicWithText", func() error { panic(sentinel) }, "string"},
		{"APanicOfTheRuntime", func() error { return fmt.Errorf("%d", []int{}[len(sentinel)]) },
			"runtime.boundsError"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newScripted(func(n int) (writer.PollResult, error) {
					if n <= 2 {
						return writer.PollResult{}, tt.fail()
					}
					return writer.PollResult{}, nil
				})
				b := newBench(t, w, nil)
				b.runFor(3*interval + interval/2)
				equal(t, "polls", len(w.polledAt()), 4)
				errs := b.log.at(t, slog.LevelError)
				if len(errs) != 2 {
					t.Fatalf("got %d error records, want one for each failed poll: %v", len(errs), errs)
				}
				for _, record := range errs {
					sameRecord(t, "record", record, map[string]any{
						"level": "ERROR", "msg": "poll failed", "reason": "ledger_writer_run_once_failed",
						"instance_key": string(self), "exc_type": tt.excType,
					})
				}
				if strings.Contains(b.log.text(), sentinel) {
					t.Errorf("the log shows the error's text:\n%s", b.log.text())
				}
			})
		})
	}
}

func TestABusyStoreIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newScripted(func(int) (writer.PollResult, error) {
			return writer.PollResult{Skipped: writer.SkippedStoreBusy}, nil
		})
		b := newBench(t, w, nil)
		b.runFor(5*interval + interval/2)
		equal(t, "polls", len(w.polledAt()), 6)
		equal(t, "errors", len(b.log.at(t, slog.LevelError)), 0)
		_, failed, _ := b.d.polls()
		equal(t, "failed polls", failed, 0)
	})
}

func TestADatabaseThatIsDownAtStartIsTriedAtEachTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newScripted(idle)
		b := newBench(t, w, nil)
		b.store.fail(storeDown())
		stop := b.start()
		pass(4*interval + interval/2)
		equal(t, "tries", b.store.asked, 5)
		errs := b.log.at(t, slog.LevelError)
		if len(errs) != 1 {
			t.Fatalf("got %d error records, want one for all tries: %v", len(errs), errs)
		}
		sameRecord(t, "record", errs[0], map[string]any{
			"level": "ERROR", "msg": "start failed", "reason": "ledger_writer_start_failed",
			"instance_key": string(self), "exc_type": "*errors.errorString",
		})
		equal(t, "warnings: the notice, the record, the alert", len(b.log.at(t, slog.LevelWarn)), 3)
		equal(t, "polls", len(w.polledAt()), 0)
		why, _, _ := b.d.polls()
		equal(t, "readiness", why, NotReadyStarting)

		b.store.fail(&sentinelError{})
		pass(2 * interval)
		equal(t, "errors once there is another", len(b.log.at(t, slog.LevelError)), 2)

		b.store.fail(nil)
		pass(interval)
		equal(t, "polls", len(w.polledAt()), 1)
		why, failed, _ := b.d.polls()
		equal(t, "readiness", why, "")
		equal(t, "failed polls", failed, 0)
		if _, err := b.store.Hold(t.Context(), self); err != nil {
			t.Errorf("the instance is not registered: %v", err)
		}
		pass(interval)
		check(t, stop())
		equal(t, "tries", b.store.asked, 8)
		if strings.Contains(b.log.text(), sentinel) {
			t.Errorf("the log shows the error's text:\n%s", b.log.text())
		}
	})
}

func TestASchemaOfAnotherVersionEndsTheDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newScripted(idle)
		b := newBench(t, w, nil)
		b.store.fail(fencerow.NewError("check the schema version", fencerow.ErrStoreSchema, nil))
		err := b.d.Run(t.Context())
		if !errors.Is(err, fencerow.ErrStoreSchema) || !strings.Contains(err.Error(), "fencerow migrate up") {
			t.Errorf("got %v", err)
		}
		equal(t, "polls", len(w.polledAt()), 0)
		equal(t, "last event", b.log.at(t, slog.LevelInfo)[1]["msg"], any("stopping"))
	})
}

func TestASchemaThatChangesLaterIsAFailedPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newScripted(func(n int) (writer.PollResult, error) {
			if n == 1 {
				return writer.PollResult{}, nil
			}
			return writer.PollResult{}, fencerow.NewError("claim batch", fencerow.ErrStoreSchema, nil)
		})
		b := newBench(t, w, nil)
		b.runFor(2*interval + interval/2)
		equal(t, "polls", len(w.polledAt()), 3)
		equal(t, "errors", len(b.log.at(t, slog.LevelError)), 2)
	})
}

func TestAStoreThatStaysBusyIsOneWarningAndItsEndOneRecord(t *testing.T) {
	busy := writer.PollResult{Skipped: writer.SkippedStoreBusy}
	tests := []struct {
		name       string
		polls      []writer.PollResult // later ones find nothing due
		warnings   int
		storeFrees int
	}{
		{"TwoInARowAreNoNews", []writer.PollResult{busy, busy, {}, busy, busy}, 0, 0},
		{"ThreeInARow", []writer.PollResult{busy, busy, busy}, 1, 1},
		{"More", []writer.PollResult{busy, busy, busy, busy, busy, {}, busy, busy, {}}, 1, 1},
		{"Twice", []writer.PollResult{busy, busy, busy, {Claimed: 1}, busy, busy, busy, busy}, 2, 2},
		{"PollsThatDoNotAskTheStoreEndNothing",
			[]writer.PollResult{busy, busy, busy, {Skipped: writer.SkippedNoRoom}, busy, busy, busy}, 1, 1},
		{"AHoldIsAnAnswer",
			[]writer.PollResult{busy, busy, busy, {Skipped: writer.SkippedInstanceHeld}, busy, busy, busy}, 2, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newScripted(func(n int) (writer.PollResult, error) {
					if n <= len(tt.polls) {
						return tt.polls[n-1], nil
					}
					return writer.PollResult{}, nil
				})
				b := newBench(t, w, nil)
				b.runFor(10*interval + interval/2)
				equal(t, "warnings", len(b.log.at(t, slog.LevelWarn)), tt.warnings)
				frees := 0
				for _, record := range b.log.at(t, slog.LevelInfo) {
					if record["msg"] == "store free" {
						frees++
					}
				}
				equal(t, "records of its end", frees, tt.storeFrees)
			})
		})
	}
}
