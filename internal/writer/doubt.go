package writer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fourblocks2020/fencerow"
)

const (
	// minDoubtTime is the least time for which a claim without an answer is looked for.
	minDoubtTime = 15 * time.Second
	// maxDoubts bounds the claims looked for; the oldest is left to its lease.
	maxDoubts = 64
)

// doubt is a claim of which it is not known whether it was made.
type doubt struct {
	token fencerow.ClaimToken
	until time.Time
}

// doubtTime is how long a claim without an answer is looked for. The server may still be about to commit it.
// Its timeouts are a fraction of the lease each, so that with a long one they can add up to more than the
// minimum.
func (c Config) doubtTime() time.Duration { return max(minDoubtTime, c.Lease/2) }

// mayHaveBeenMade reports whether a claim may stand although asking for it failed with err. Only a refusal
// that says that nothing was done rules it out: any other error may have come after the commit, when the
// entries were read.
func mayHaveBeenMade(err error) bool {
	if _, refused := errors.AsType[*fencerow.ClaimRefusedError](err); refused {
		return false
	}
	return !errors.Is(err, fencerow.ErrStoreBusy) && !errors.Is(err, fencerow.ErrInstanceHeld) &&
		!errors.Is(err, fencerow.ErrInvalidInput)
}

// doubt gives the claim back at once, if it is there, and keeps looking for it at later polls if not.
func (w *Writer) doubt(token fencerow.ClaimToken) {
	d := doubt{token: token, until: time.Now().Add(w.cfg.doubtTime())}
	if found, _ := w.undo(d); found {
		return
	}
	w.keepDoubts([]doubt{d})
}

func (w *Writer) keepDoubts(ds []doubt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.doubts = append(w.doubts, ds...)
	w.doubts = w.doubts[max(0, len(w.doubts)-maxDoubts):]
}

// settleDoubts looks for each claim in doubt again. It ends at the first error: the store is in trouble, and
// the poll will tell.
func (w *Writer) settleDoubts() {
	w.mu.Lock()
	doubts := w.doubts
	w.doubts = nil
	w.mu.Unlock()
	if len(doubts) == 0 {
		return
	}
	var keep []doubt
	for i, d := range doubts {
		found, err := w.undo(d)
		if err != nil {
			keep = append(keep, doubts[i:]...)
			break
		}
		if !found && time.Now().Before(d.until) {
			keep = append(keep, d)
		}
	}
	if len(keep) > 0 {
		w.keepDoubts(keep)
	}
}

// undo releases whatever the claim holds. Nothing of it was sent.
func (w *Writer) undo(d doubt) (found bool, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicError(v)
		}
	}()
	ctx, cancel := context.WithTimeout(w.life, minWriteTime)
	defer cancel()
	verdicts, err := w.store.Release(ctx, fencerow.ReleaseParams{
		Instance: w.cfg.Instance, Token: d.token, All: true,
	})
	return len(verdicts) > 0, err
}

// panicError makes an error of a panic's value: its type, and nothing of its text.
func panicError(v any) error {
	err, ok := v.(error)
	if !ok {
		err = &panicValueError{fmt.Sprintf("%T", v)}
	}
	return fencerow.NewError("call store", fencerow.ErrStoreFailed, err)
}

type panicValueError struct{ valueType string }

func (e *panicValueError) Error() string { return "panic with a " + e.valueType }
