package writer

import (
	"context"
	"time"
)

// lastWrites is how long recording, releasing and looking for claims in doubt may still take after the
// deliveries ended, however much of the trust windows is left.
const lastWrites = 3 * time.Second

// Shutdown claims no more, releases what has not started, and lets running deliveries end while ctx lasts;
// then it cancels and releases them, marked uncertain where bytes may have been sent. It returns when no
// goroutine and, as far as the store answers, no lease is left. The error is ctx's if deliveries had to be
// cancelled. A second call waits like the first.
func (w *Writer) Shutdown(ctx context.Context) error {
	w.mu.Lock()
	w.stopping = true
	for b := range w.active {
		b.stop()
	}
	w.announceLocked()
	w.mu.Unlock()

	ended := make(chan struct{})
	go func() {
		w.running.Wait()
		close(ended)
	}()
	var err error
	select {
	case <-ended:
	case <-ctx.Done():
		err = ctx.Err()
		w.haltDeliveries()
	}
	last := time.AfterFunc(lastWrites, w.endLife)
	defer last.Stop()
	<-ended
	w.settleDoubts()
	w.giveBackCharges(maxOwed)
	return err
}

func (w *Writer) haltDeliveries() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for b := range w.active {
		b.halt()
	}
}
