package writer

import (
	"context"
	"sync"
	"time"
)

// deliveryContext is what one delivery, or one read-back, is given. It ends with the claim's trust window, at
// the deadline of its own, or when the delivery is over. It looks at the clocks whenever it is asked for its
// error: a ledger asks just before it sends, and after a suspension the timers have not fired yet.
//
// The context that has a timer is made when it is first needed: when somebody waits for the end, or when it
// has come. A ledger that answers at once needs neither, and a timer is most of what its delivery costs.
type deliveryContext struct {
	w        *Writer
	b        *batch
	deadline time.Time

	mu     sync.Mutex
	timed  context.Context // nil until it is needed
	cancel context.CancelFunc
	over   bool
}

func (w *Writer) newContext(b *batch, deadline time.Time) *deliveryContext {
	return &deliveryContext{w: w, b: b, deadline: deadline}
}

// end says that the delivery is over.
func (c *deliveryContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.timed != nil {
		c.cancel()
	}
}

func (c *deliveryContext) timedLocked() context.Context {
	if c.timed == nil {
		c.timed, c.cancel = context.WithDeadline(c.b.ctx, c.deadline)
		if c.over {
			c.cancel()
		}
	}
	return c.timed
}

// Deadline implements [context.Context].
func (c *deliveryContext) Deadline() (time.Time, bool) {
	if window, ok := c.b.ctx.Deadline(); ok && window.Before(c.deadline) {
		return window, true
	}
	return c.deadline, true
}

// Done implements [context.Context].
func (c *deliveryContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.timedLocked().Done()
}

// Err implements [context.Context].
func (c *deliveryContext) Err() error {
	c.w.watchWindow(c.b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timed == nil && !c.over && c.b.ctx.Err() == nil && time.Now().Before(c.deadline) {
		return nil
	}
	return c.timedLocked().Err()
}

// Value implements [context.Context]. There are no values but those by which package context finds out what
// ends a context, and why.
func (c *deliveryContext) Value(key any) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.timedLocked().Value(key)
}
