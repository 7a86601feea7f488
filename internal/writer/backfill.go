package writer

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/fourblocks2020/fencerow"
)

const (
	// busyPause and maxBusy bound how long a backfill waits for a busy store.
	busyPause = 100 * time.Millisecond
	maxBusy   = 50
	// maxUnstarted bounds the claims in a row of which no delivery started. One or two can wait behind slow
	// deliveries until their windows have passed.
	maxUnstarted = 3
)

// StoppedNothingStarted ends a backfill: of what it claimed last nothing could start inside its trust window,
// and was given back.
const StoppedNothingStarted = "nothing_started"

// BackfillResult says what a backfill did. Outcomes has every kind, also those of which there were none.
type BackfillResult struct {
	Claimed, Lost int
	Outcomes      map[fencerow.OutcomeKind]int
	// Stopped is empty if the backfill ended because nothing was due any more or the limit was reached, and the
	// target is not on hold. Otherwise it is a [SkipReason], the reason of the target's hold, or
	// [StoppedNothingStarted].
	Stopped string
}

// Backfill has each of the writers of an instance do its part of a [Writer.Backfill], side by side: with a
// limit, an even share of it, and without, whatever it can claim. The result sums up all of them. What ended
// the first that did not end because nothing was due, and the error of the first that has one, stand for
// those of the others.
func Backfill(ctx context.Context, writers []*Writer, limit int) (BackfillResult, error) {
	if limit > 0 {
		writers = writers[:min(len(writers), limit)] // A share of 0 would be no limit.
	}
	results, errs := make([]BackfillResult, len(writers)), make([]error, len(writers))
	var working sync.WaitGroup
	for i, w := range writers {
		share := limit / len(writers)
		if i < limit%len(writers) {
			share++
		}
		working.Go(func() { results[i], errs[i] = w.Backfill(ctx, share) })
	}
	working.Wait()
	sum, err := results[0], errs[0]
	for i := 1; i < len(results); i++ {
		sum.add(results[i])
		err = cmp.Or(err, errs[i])
	}
	return sum, err
}

func (r *BackfillResult) add(other BackfillResult) {
	r.Claimed += other.Claimed
	r.Lost += other.Lost
	r.Stopped = cmp.Or(r.Stopped, other.Stopped)
	for kind, n := range other.Outcomes {
		r.Outcomes[kind] += n
	}
}

// Backfill claims and delivers until nothing is due, or until it has claimed limit rows (0: no limit), and
// waits for the last. It stops when the target goes on hold. Whatever it returns with, also an error, the
// result says what was done.
func (w *Writer) Backfill(ctx context.Context, limit int) (BackfillResult, error) {
	f := backfill{w: w, limit: limit}
	f.res.Outcomes = map[fencerow.OutcomeKind]int{}
	for _, kind := range fencerow.OutcomeKinds() {
		f.res.Outcomes[kind] = 0
	}
	if limit < 0 {
		return f.res, &fencerow.InputError{Field: "limit", Problem: "must not be negative"}
	}
	err := f.run(ctx)
	for len(f.batches) > 0 {
		if waitErr := f.awaitOldest(ctx); err == nil {
			err = waitErr
		}
	}
	if why, _ := w.health.hold(time.Now()); f.res.Stopped == "" {
		f.res.Stopped = string(why) // The rows claimed last found out.
	}
	if w.enter() {
		w.giveBackCharges(maxOwed)
		w.leave()
	}
	return f.res, err
}

// backfill is one Backfill at work.
type backfill struct {
	w        *Writer
	limit    int
	res      BackfillResult
	batches  []*batch // claimed and not yet summed up, oldest first
	released int      // rows given back since the last claim: there is more although a poll found nothing
	busy     int
	// unstarted counts the last claims of which no delivery started.
	unstarted int
}

func (f *backfill) run(ctx context.Context) error {
	for f.limit == 0 || f.res.Claimed < f.limit {
		room := f.w.room()
		if why, _ := f.w.health.hold(time.Now()); why != "" {
			f.res.Stopped = string(why)
			return nil
		}
		size := f.w.cfg.BatchLimit
		if f.limit > 0 {
			size = min(size, f.limit-f.res.Claimed)
		}
		res, b, err := f.w.poll(ctx, size)
		if err != nil {
			return err
		}
		if b != nil {
			f.res.Claimed += res.Claimed
			f.batches = append(f.batches, b)
			f.released, f.busy = 0, 0
			if err := f.reap(ctx); err != nil {
				return err
			}
			if f.unstarted >= maxUnstarted {
				f.res.Stopped = StoppedNothingStarted
				return nil
			}
			continue
		}
		if more, err := f.pause(ctx, res, room); err != nil || !more {
			return err
		}
	}
	return nil
}

// pause waits for what a poll without rows has to wait for and reports whether to go on.
func (f *backfill) pause(ctx context.Context, res PollResult, room <-chan struct{}) (more bool, err error) {
	switch res.Skipped {
	case "":
		for len(f.batches) > 0 {
			if err := f.awaitOldest(ctx); err != nil {
				return false, err
			}
		}
		return f.released > 0 && ctx.Err() == nil, nil
	case SkippedNoRoom:
		if len(f.batches) > 0 {
			return true, f.awaitOldest(ctx)
		}
		select {
		case <-room:
			return true, nil
		case <-ctx.Done():
		}
	case SkippedStoreBusy:
		if f.busy++; f.busy > maxBusy {
			return false, fencerow.ErrStoreBusy
		}
		timer := time.NewTimer(busyPause)
		defer timer.Stop()
		select {
		case <-timer.C:
			return true, nil
		case <-ctx.Done():
		}
	case SkippedInstanceHeld, SkippedTargetHeld, SkippedStopping:
		f.res.Stopped = string(res.Skipped)
		return false, nil
	}
	f.res.Stopped = string(SkippedStopping)
	return false, nil
}

// reap sums up the oldest claims as far as they are settled.
func (f *backfill) reap(ctx context.Context) error {
	for len(f.batches) > 0 {
		select {
		case <-f.batches[0].settled:
		default:
			return nil
		}
		if err := f.awaitOldest(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (f *backfill) awaitOldest(ctx context.Context) error {
	f.w.await(ctx, f.batches...)
	f.unstarted++
	if f.batches[0].started() {
		f.unstarted = 0
	}
	t := f.batches[0].sum()
	f.batches = f.batches[1:]
	f.res.Lost += t.lost
	f.released += t.released
	for kind, n := range t.outcomes {
		f.res.Outcomes[kind] += n
	}
	return t.err
}

// room returns a channel that is closed when rows in flight make room.
func (w *Writer) room() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}
