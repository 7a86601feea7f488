package writer

import (
	"context"
	"sync"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/observe"
)

// ErrStopping says that the writer was shut down; nothing was claimed.
const ErrStopping fencerow.Code = "writer_stopping"

// Writer delivers the entries of one instance. All methods are safe for concurrent use. It runs goroutines
// only while rows are in flight; one that is idle needs no closing.
type Writer struct {
	cfg    Config
	store  fencerow.Claimer
	ledger fencerow.Ledger
	obs    *observe.Observer
	health health
	wake   chan struct{} // capacity 1
	// unwritten is a leaf: nothing else is locked under it.
	unwritten unwritten

	// life carries every call of the store. It ends only when a shutdown has run out of time.
	life    context.Context
	endLife context.CancelFunc

	// running counts calls that may start goroutines, and the goroutines. It rises from zero only while mu is
	// held and stopping is not set, so that a shutdown can wait for it.
	running sync.WaitGroup

	mu       sync.Mutex
	stopping bool
	active   map[*batch]struct{}
	queue    []*batch // with unstarted rows, in the order of delivery
	workers  int
	inFlight int // rows claimed, or about to be, and not settled
	reserved int // of those, the ones about to be claimed
	more     bool
	moreOf   *batch        // the claim that said that there is more; nil if more needs none
	pace     time.Duration // of one delivery, recently; zero if unknown
	changed  chan struct{} // closed and replaced when rows are settled or the target's state changes
	doubts   []doubt
}

// New returns a writer. A configuration that cannot hold is refused with an [*fencerow.InputError], before
// anything is used.
func New(store fencerow.Claimer, ledger fencerow.Ledger, obs *observe.Observer, cfg Config) (*Writer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	switch {
	case store == nil:
		return nil, &fencerow.InputError{Field: "store", Problem: "is missing"}
	case ledger == nil:
		return nil, &fencerow.InputError{Field: "ledger", Problem: "is missing"}
	case obs == nil:
		return nil, &fencerow.InputError{Field: "observer", Problem: "is missing"}
	case obs.Instance() != cfg.Instance:
		return nil, &fencerow.InputError{Field: "observer", Problem: "is of another instance"}
	}
	w := &Writer{
		cfg: cfg.withDefaults(), store: store, ledger: ledger, obs: obs, health: health{obs: obs},
		wake: make(chan struct{}, 1), active: map[*batch]struct{}{}, changed: make(chan struct{}),
	}
	w.life, w.endLife = context.WithCancel(context.Background())
	return w, nil
}

// Wake signals when a poll is worth while before the next tick: the last claim said that there is more, a
// delivery of it started, and there is room. The channel is never closed.
func (w *Writer) Wake() <-chan struct{} { return w.wake }

// enter registers a call that may claim; leave ends it.
func (w *Writer) enter() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopping {
		return false
	}
	w.running.Add(1)
	return true
}

func (w *Writer) leave() { w.running.Done() }

// start puts a claim to work: its recorder, its place in the queue and, within the bound, more workers. A
// claim that came too late, when the target is already on hold or the writer stops, is given back by its
// recorder. The caller is inside enter and leave.
func (w *Writer) start(b *batch, first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active[b] = struct{}{}
	if b.claim.More {
		w.more, w.moreOf = true, b
	}
	w.running.Go(func() { w.record(b) })
	b.holds = w.health.holds.Load() // before asking for the hold: one that begins in between differs
	if why, _ := w.health.hold(time.Now()); w.stopping || why != "" && !b.exempt {
		b.stop()
		return
	}
	if first {
		w.queue = append([]*batch{b}, w.queue...)
	} else {
		w.queue = append(w.queue, b)
	}
	for range min(w.cfg.Concurrency-w.workers, len(b.claim.Entries)) {
		w.workers++
		w.running.Go(w.work)
	}
}

// nextBatch returns the first claim with unstarted rows, or nil; then the calling worker has to end.
func (w *Writer) nextBatch() *batch {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) > 0 {
		if _, startable := w.queue[0].unfinished(); startable {
			return w.queue[0]
		}
		w.queue[0] = nil
		w.queue = w.queue[1:]
	}
	w.workers--
	return nil
}

// settle notes that rows of b came to their end.
func (w *Writer) settle(b *batch, rows int, t tally) {
	b.mu.Lock()
	b.done += rows
	b.tally.add(t)
	b.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inFlight -= rows
	w.announceLocked()
}

// retire ends a batch whose recorder ends.
func (w *Writer) retire(b *batch) {
	b.halt()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.active, b)
	close(b.settled)
	w.announceLocked()
}

// announceLocked wakes whoever waits for room, and the daemon if a poll is worth while.
func (w *Writer) announceLocked() {
	close(w.changed)
	w.changed = make(chan struct{})
	w.wakeLocked()
}

// wakeLocked wakes the daemon if a poll is worth while. A claim of which nothing has started does not call
// for another one: it may end as it began.
func (w *Writer) wakeLocked() {
	if w.moreOf != nil && !w.moreOf.started() {
		return
	}
	if !w.more || w.stopping || w.roomLocked() < w.worthWhileLocked() {
		return
	}
	if why, _ := w.health.hold(time.Now()); why != "" {
		return
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// targetHeld gives back what has not started: the target is down.
func (w *Writer) targetHeld() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for b := range w.active {
		if !b.exempt {
			b.stop()
		}
		b.signal() // results set aside may have found their fate
	}
	w.announceLocked()
}

// healthChanged tells recorders and pollers that a hold or a streak ended.
func (w *Writer) healthChanged() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for b := range w.active {
		b.signal()
	}
	w.announceLocked()
}
