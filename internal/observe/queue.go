package observe

import (
	"io"
	"sync"
	"time"
)

// maxQueued bounds the records that wait to be written, in bytes: about twenty of the longest, and some ten
// thousand common ones.
const maxQueued = 4 << 20

// Queue is the writer of a log that must not hold up the work that it tells of: a reader that does not read
// blocks a goroutine of the queue's own. Records keep their order; those that find no room are dropped and
// counted. It is safe for concurrent use.
type Queue struct {
	w      io.Writer
	report func(dropped int64)
	wake   chan struct{} // its capacity is 1
	ended  chan struct{} // closed when all was written that ever will be

	mu      sync.Mutex
	waiting []byte
	dropped int64 // records since the start
	closed  bool
}

// NewQueue returns a queue before w, for a handler that writes each record at once. When there is room again
// after records were dropped, report is called with how many were since the start, on a goroutine of the
// queue's own; it is to write a record. The caller closes the queue.
func NewQueue(w io.Writer, report func(dropped int64)) *Queue {
	q := &Queue{w: w, report: report, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go q.run()
	return q
}

// Write queues one record, or drops it. It does not block and does not fail.
func (q *Queue) Write(record []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || len(q.waiting)+len(record) > maxQueued {
		q.dropped++
		return len(record), nil
	}
	q.waiting = append(q.waiting, record...)
	q.signal()
	return len(record), nil
}

func (q *Queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// run writes what waits, all of it at once, until the queue is closed and empty.
func (q *Queue) run() {
	defer close(q.ended)
	var writing []byte
	for reported := int64(0); ; {
		q.mu.Lock()
		q.waiting, writing = writing[:0], q.waiting
		dropped, closed := q.dropped, q.closed
		q.mu.Unlock()
		switch {
		case len(writing) > 0:
			// An error is nobody's business: there is no other place to tell it.
			_, _ = q.w.Write(writing)
			q.signal() // for what came meanwhile, or the end
		case closed:
			return
		}
		// A report that finds no room again is dropped itself, and so brings about another.
		if dropped != reported && !closed {
			reported = dropped
			q.report(dropped)
		}
		<-q.wake
	}
}

// Close has what waits written and reports whether that was done within a time. What is written to the queue
// afterwards is dropped.
func (q *Queue) Close(within time.Duration) bool {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.signal()
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case <-q.ended:
		return true
	case <-late.C:
		return false
	}
}
