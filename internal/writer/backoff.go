package writer

import (
	"time"

	"github.com/fourblocks2020/fencerow"
)

// backoff returns the delay before the attempt that follows the given one (from 1): base·2^(attempt-1) up to
// the cap, of which the upper half is random, so that entries that failed together do not come back together.
// The ledger's Retry-After can only lengthen it.
func (c Config) backoff(attempt int, retryAfter time.Duration) time.Duration {
	delay := c.BackoffCap
	// A shift by 62 or more, or one that would pass the cap, never happens: the cap is compared before shifting.
	if shift := max(attempt, 1) - 1; shift < 62 && c.BackoffBase <= c.BackoffCap>>shift {
		delay = c.BackoffBase << shift
	}
	return lengthen(c.jitter(delay), retryAfter)
}

// targetDelay returns the delay of a row that failed for the target's sake. It is short, because the hold
// limits the rate and all rows should be due soon after the target is back.
func (c Config) targetDelay(retryAfter time.Duration) time.Duration {
	return lengthen(c.jitter(c.TargetDelay), retryAfter)
}

func (c Config) jitter(d time.Duration) time.Duration {
	return d - time.Duration(c.random()*float64(d)/2)
}

func lengthen(d, retryAfter time.Duration) time.Duration {
	return min(max(d, min(retryAfter, MaxRetryAfter)), fencerow.MaxDelay)
}
