package writer

import (
	"errors"
	"sync"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// unwritten remembers a write that the store kept refusing until the claim could be trusted no more. Claims
// go on being made meanwhile, since only a write shows whether the store takes them again; but without this a
// role that may claim and not record would send the same entries for ever, and every poll would look well.
type unwritten struct {
	mu       sync.Mutex
	err      error
	finishes bool // what was refused would have finished an entry
	until    time.Time
}

// refused notes a write that was given up. What comes of the store's own trouble counts, not of a defect.
func (u *unwritten) refused(err error, finishes bool, lasts time.Duration) {
	if _, ok := errors.AsType[*fencerow.Error](err); !ok {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.err, u.finishes, u.until = err, finishes, time.Now().Add(lasts)
}

// written notes a write that was acknowledged. A retry or a release needs fewer rights than an outcome that
// finishes an entry, and says nothing of one that was refused.
func (u *unwritten) written(finishes bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if finishes || !u.finishes {
		u.err = nil
	}
}

// failure returns the error of the last write that was given up, if nothing has mended it since.
func (u *unwritten) failure() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err != nil && !time.Now().Before(u.until) {
		u.err = nil
	}
	return u.err
}

// unwrittenFor is how long a write that was given up counts if nothing is written meanwhile: long enough that
// the next claim of its rows has been given up too, if it has to be.
func (c Config) unwrittenFor() time.Duration { return max(3*c.Lease, 4*c.TargetDelay) }

func finishes(outcomes []fencerow.Outcome) bool {
	for i := range outcomes {
		if outcomes[i].Kind.Terminal() {
			return true
		}
	}
	return false
}
