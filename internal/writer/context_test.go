package writer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// A delivery's context says what one of package context with the same deadline would, whether or not anybody
// waited for its end before.
func TestContextOfADelivery(t *testing.T) {
	const timeout, window = 10 * time.Second, 30 * time.Second
	tests := []struct {
		name    string
		left    time.Duration // of the trust window
		happens func(b *batch, c *deliveryContext)
		err     error // nil: it goes on
		cause   error // what context.Cause says beyond that
	}{
		{name: "GoesOn", left: window, happens: func(*batch, *deliveryContext) {}},
		{name: "GoesOnUntilItsDeadline", left: window,
			happens: func(*batch, *deliveryContext) { pass(timeout - 1) }},
		{name: "EndsAtItsDeadline", left: window, happens: func(*batch, *deliveryContext) { pass(timeout) },
			err: context.DeadlineExceeded, cause: context.DeadlineExceeded},
		{name: "EndsWithTheWindow", left: timeout / 2,
			happens: func(*batch, *deliveryContext) { pass(timeout / 2) },
			err:     context.DeadlineExceeded, cause: fencerow.ErrTrustWindowEnded},
		{name: "EndsWhenTheWindowIsFoundToHaveEnded", left: window,
			happens: func(b *batch, _ *deliveryContext) { b.expire() },
			err:     context.Canceled, cause: fencerow.ErrTrustWindowEnded},
		{name: "EndsWhenTheWorkerStops", left: window, happens: func(b *batch, _ *deliveryContext) { b.halt() },
			err: context.Canceled, cause: context.Canceled},
		{name: "IsOverAfterTheDelivery", left: window, happens: func(_ *batch, c *deliveryContext) { c.end() },
			err: context.Canceled, cause: context.Canceled},
		{name: "AStopAfterItsDeadlineChangesNothing", left: window,
			happens: func(b *batch, c *deliveryContext) {
				pass(timeout)
				_ = c.Err() // somebody looked
				b.halt()
			}, err: context.DeadlineExceeded, cause: context.DeadlineExceeded},
	}
	for _, tt := range tests {
		for _, waited := range []bool{false, true} {
			name := tt.name
			if waited {
				name += "AlsoForWhoeverWaits"
			}
			bubble(t, name, func(t *testing.T) {
				h := newHarness(t, nil)
				b := newBatch(&fencerow.Claim{}, h.w.openWindow(), tt.left, false)
				defer b.halt()
				c := h.w.newContext(b, time.Now().Add(timeout))
				defer c.end()
				deadline, ok := c.Deadline()
				equal(t, "has a deadline", ok, true)
				equal(t, "deadline", time.Until(deadline), min(timeout, tt.left))
				derived := make(chan error, 1)
				if waited {
					child, cancel := context.WithCancel(c)
					defer cancel()
					context.AfterFunc(child, func() { derived <- context.Cause(child) })
				}
				tt.happens(b, c)
				synctest.Wait()
				if err := c.Err(); !errors.Is(err, tt.err) {
					t.Errorf("error: got %v, want %v", err, tt.err)
				}
				if cause := context.Cause(c); !errors.Is(cause, tt.cause) {
					t.Errorf("cause: got %v, want %v", cause, tt.cause)
				}
				select {
				case <-c.Done():
					equal(t, "done", true, tt.err != nil)
				default:
					equal(t, "done", false, tt.err != nil)
				}
				if waited && tt.err != nil {
					if cause := <-derived; !errors.Is(cause, tt.cause) {
						t.Errorf("cause of a derived context: got %v, want %v", cause, tt.cause)
					}
				}
			})
		}
	}
}

// A ledger that answers at once pays for one object, and none of it is a timer.
func TestContextThatNobodyWaitsForMakesNoTimer(t *testing.T) {
	h := newHarness(t, nil)
	b := newBatch(&fencerow.Claim{}, h.w.openWindow(), time.Minute, false)
	defer b.halt()
	deadline := time.Now().Add(time.Minute)
	objects := testing.AllocsPerRun(100, func() {
		c := h.w.newContext(b, deadline)
		if c.Err() != nil {
			t.Error("it ended")
		}
		c.end()
	})
	if objects > 1 {
		t.Errorf("%v objects are made", objects)
	}
}
