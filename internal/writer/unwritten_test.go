package writer

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// A store that lets claims be made and nothing be recorded is not well, although every poll is answered.
func TestPollsFailWhileOutcomesAreGivenUp(t *testing.T) {
	denied := fencerow.NewError("record outcomes", fencerow.ErrStorePermission, nil)
	// polls ticks once a second and counts the good and the failed ones.
	polls := func(t *testing.T, h *harness, seconds int) (good, failed int) {
		t.Helper()
		for range seconds {
			_, err := h.w.Poll(t.Context())
			switch {
			case err == nil:
				good++
			case errors.Is(err, fencerow.ErrStorePermission):
				failed++
			default:
				t.Fatal(err)
			}
			pass(time.Second)
		}
		return good, failed
	}
	refuse := func(h *harness, op string) *atomic.Bool {
		var refuses atomic.Bool
		refuses.Store(true)
		h.faults.before = map[string]func() error{op: func() error {
			if refuses.Load() {
				return denied
			}
			return nil
		}}
		return &refuses
	}
	bubble(t, "UntilOneIsRecorded", func(t *testing.T) {
		h := newHarness(t, nil)
		refuses := refuse(h, "RecordOutcomes")
		h.enqueue("e", 1)
		polls(t, h, 40)
		if good, failed := polls(t, h, 120); good != 0 || failed != 120 {
			t.Errorf("%d good polls, %d failed", good, failed)
		}
		refuses.Store(false)
		polls(t, h, 40)
		equal(t, "completed", h.counts()[fencerow.StatusCompleted], 1)
		if good, failed := polls(t, h, 5); failed != 0 {
			t.Errorf("afterwards %d good polls, %d failed", good, failed)
		}
		check(t, h.w.Shutdown(t.Context()))
	})
	bubble(t, "WhateverRetriesAreRecordedMeanwhile", func(t *testing.T) {
		h := newHarness(t, nil)
		h.w.unwritten.refused(denied, true, time.Hour)
		h.ledger.always(notReady)
		h.enqueue("e", 1)
		if good, failed := polls(t, h, 2); good != 0 || failed != 2 {
			t.Errorf("%d good polls, %d failed", good, failed)
		}
		h.ledger.always(delivered())
		polls(t, h, 20)
		if good, failed := polls(t, h, 2); failed != 0 {
			t.Errorf("afterwards %d good polls, %d failed", good, failed)
		}
		check(t, h.w.Shutdown(t.Context()))
	})
	bubble(t, "NotLongerThanThreeLeasesIfNothingIsToBeWritten", func(t *testing.T) {
		h := newHarness(t, nil)
		h.w.unwritten.refused(denied, true, h.w.cfg.unwrittenFor())
		if good, failed := polls(t, h, 95); good != 5 || failed != 90 {
			t.Errorf("%d good polls, %d failed", good, failed)
		}
	})
	bubble(t, "UntilAnythingIsWrittenIfOnlyAReleaseWasGivenUp", func(t *testing.T) {
		h := newHarness(t, nil)
		h.w.unwritten.refused(denied, false, time.Hour)
		h.ledger.always(notReady)
		polls(t, h, 1)
		h.enqueue("e", 1)
		polls(t, h, 2)
		if _, failed := polls(t, h, 2); failed != 0 {
			t.Errorf("%d failed polls", failed)
		}
		check(t, h.w.Shutdown(t.Context()))
	})
	bubble(t, "NotForADefectOfOurOwn", func(t *testing.T) {
		h := newHarness(t, nil)
		h.w.unwritten.refused(&fencerow.InputError{Field: "outcome", Problem: "is malformed"}, true, time.Hour)
		if _, failed := polls(t, h, 2); failed != 0 {
			t.Errorf("%d failed polls", failed)
		}
	})
}
