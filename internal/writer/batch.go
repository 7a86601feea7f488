package writer

import (
	"context"
	"sync"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// batch is one claim at work. Each of its rows goes from unstarted to running to settled, or is given back.
type batch struct {
	claim  *fencerow.Claim
	window window
	// exempt batches are started while the target is on hold: probes and targeted claims.
	exempt bool
	// holds is health.holds when the batch was put to work; once it is another, no row starts any more.
	holds uint64
	// ctx ends with the trust window, by its own timer or by expire, or is cancelled by halt when the worker
	// stops.
	ctx          context.Context
	expire, halt func()

	arrived   chan struct{} // capacity 1: there may be something for the recorder
	delivered chan struct{} // closed when no row is unstarted or running any more
	settled   chan struct{} // closed when every row is recorded, released, lost or abandoned

	mu      sync.Mutex
	begun   bool
	next    int // rows before it were started, or given back
	running int
	ready   []result
	aside   []result // ambiguous results of a streak that may yet turn out to be the target's fault
	giveUp  []fencerow.ReleaseRow
	awaited int // of those ready, how many a worker waits to see written
	// taken and written count the groups that the recorder took and wrote; groupWritten is closed with the next.
	taken, written int
	groupWritten   chan struct{}
	busy           time.Duration // spent in deliveries since the recorder last looked
	ended          int           // deliveries since the recorder last looked
	done           int           // rows settled
	tally          tally
}

// result is what one delivery came to.
type result struct {
	row     int
	outcome fencerow.Outcome
	// lapse is set if the outcome depends on whether others fail the same way.
	lapse *lapse
	// release asks for the row to be given back instead of recorded.
	release bool
}

// tally sums up a batch for whoever waits for it.
type tally struct {
	outcomes map[fencerow.OutcomeKind]int
	lost     int
	released int
	// The last row settled; for a targeted claim the only one.
	outcome fencerow.OutcomeKind
	reason  string
	wasLost bool
	err     error // why rows were abandoned
}

func (t *tally) add(u tally) {
	for kind, n := range u.outcomes {
		t.outcomes[kind] += n
	}
	t.lost += u.lost
	t.released += u.released
	t.outcome, t.reason, t.wasLost = u.outcome, u.reason, u.wasLost
	if t.err == nil {
		t.err = u.err
	}
}

func newBatch(claim *fencerow.Claim, win window, left time.Duration, exempt bool) *batch {
	stop, end := context.WithCancelCause(context.Background())
	ctx, cancel := context.WithTimeoutCause(stop, left, fencerow.ErrTrustWindowEnded)
	return &batch{
		claim:     claim,
		window:    win,
		exempt:    exempt,
		ctx:       ctx,
		expire:    func() { end(fencerow.ErrTrustWindowEnded) },
		halt:      func() { end(context.Canceled); cancel() },
		arrived:   make(chan struct{}, 1),
		delivered: make(chan struct{}),
		settled:   make(chan struct{}),

		groupWritten: make(chan struct{}),
		ready:        make([]result, 0, len(claim.Entries)),
		tally:        tally{outcomes: map[fencerow.OutcomeKind]int{}},
	}
}

// take starts the next row, unless the window no longer lets it; then all unstarted rows are given back.
// first says that it is the first of its claim to start.
func (b *batch) take(now instant) (row int, first, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == len(b.claim.Entries) {
		return 0, false, false
	}
	if !b.window.maySend(now) {
		b.stopLocked()
		return 0, false, false
	}
	first = !b.begun
	b.begun = true
	b.next++
	b.running++
	return b.next - 1, first, true
}

// finish hands the result of a running row to the recorder.
//
// A worker whose delivery was slow waits until its result is written, so that a crash sends again no more
// entries than deliveries run at once. A fast ledger would be slowed by that: what it answered while the
// recorder gathered a group or wrote the one before is sent again too.
func (b *batch) finish(r result, took time.Duration) {
	waits := took >= slowDelivery && !r.release && r.lapse == nil
	b.mu.Lock()
	taken := b.taken
	if waits {
		b.awaited++
	}
	b.finishLocked(r, took)
	b.mu.Unlock()
	if waits {
		b.awaitWritten(taken)
	}
}

// patient reports whether what is ready may wait for more: few workers wait for it ([othersPerWaiter]), it is
// no [fullGroup] yet, and rows are still to start. While none is, the claim is about to end, and its last
// record ends it.
func (b *batch) patient() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	ready, all := len(b.ready), len(b.claim.Entries)
	few := b.awaited*othersPerWaiter <= min(ready, b.running)
	return few && ready*fullGroup < all && b.next < all
}

// slowDelivery is from when on a delivery takes long enough that waiting for its record beside it costs
// little.
const slowDelivery = 5 * time.Millisecond

// awaitWritten waits until a group was written that was taken after the given number of groups, or the batch
// is settled.
func (b *batch) awaitWritten(taken int) {
	for {
		b.mu.Lock()
		written, changed := b.written, b.groupWritten
		b.mu.Unlock()
		if written > taken {
			return
		}
		select {
		case <-changed:
		case <-b.settled:
			return
		}
	}
}

// noteWritten lets those go on whose results were in the groups taken so far.
func (b *batch) noteWritten() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.written = b.taken
	close(b.groupWritten)
	b.groupWritten = make(chan struct{})
}

func (b *batch) finishLocked(r result, took time.Duration) {
	switch {
	case r.release:
		row := fencerow.ReleaseRow{OutboxID: r.outcome.OutboxID, Uncertain: r.outcome.Uncertain}
		b.giveUp = append(b.giveUp, row)
	case r.lapse != nil:
		b.aside = append(b.aside, r)
	default:
		b.ready = append(b.ready, r)
	}
	b.running--
	b.busy += took
	b.ended++
	b.noteProgressLocked()
}

// stop gives back the rows that have not started.
func (b *batch) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopLocked()
}

func (b *batch) stopLocked() {
	if b.next == len(b.claim.Entries) {
		return
	}
	for _, e := range b.claim.Entries[b.next:] {
		b.giveUp = append(b.giveUp, fencerow.ReleaseRow{OutboxID: e.OutboxID})
	}
	b.next = len(b.claim.Entries)
	b.noteProgressLocked()
}

func (b *batch) noteProgressLocked() {
	b.signal()
	if b.running == 0 && b.next == len(b.claim.Entries) {
		close(b.delivered)
	}
}

func (b *batch) signal() {
	select {
	case b.arrived <- struct{}{}:
	default:
	}
}

// unfinished returns how many rows are unstarted or running, and whether any is unstarted.
func (b *batch) unfinished() (n int, startable bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	unstarted := len(b.claim.Entries) - b.next
	return unstarted + b.running, unstarted > 0
}

// started reports whether any delivery of the claim has started.
func (b *batch) started() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.begun
}

func (b *batch) sum() tally {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tally
}
