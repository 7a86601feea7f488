package observe

import (
	"slices"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// One claim that is lost is the fence at work: a worker was suspended, or a deploy killed it late. Claims
// that are lost one after the other are a lease too short for the ledger, a stalling machine or a jumping
// clock, and every one of them sends entries twice.
const (
	// lossSeries is how many claims must be lost within lossWindow to be a series. With a lease of 30 s a worker
	// that loses each of its claims is told of after one and a half minutes.
	lossSeries = 3
	// lossWindow is wide enough for a series of claims with leases of some minutes.
	lossWindow = 10 * time.Minute
	// maxLosses bounds how many lost claims are remembered, so that the rows of one, which may be lost in
	// several records, count once.
	maxLosses = 16
)

// loss is a claim of which a row was lost.
type loss struct {
	epoch fencerow.ClaimEpoch
	at    time.Time
	told  bool
}

// losses are the last of them, the oldest first.
type losses []loss

// add notes that a row of a claim was lost and returns how many claims of a series are to be told: 0 if the
// claim is known, or there is no series.
func (l *losses) add(epoch fencerow.ClaimEpoch, now time.Time) (untold int64) {
	recent := slices.DeleteFunc(*l, func(old loss) bool { return now.Sub(old.at) >= lossWindow })
	if !slices.ContainsFunc(recent, func(known loss) bool { return known.epoch == epoch }) {
		recent = append(recent, loss{epoch: epoch, at: now})
	}
	recent = slices.Delete(recent, 0, max(0, len(recent)-maxLosses))
	*l = recent
	if len(recent) < lossSeries {
		return 0
	}
	for i := range recent {
		if !recent[i].told {
			recent[i].told = true
			untold++
		}
	}
	return untold
}

// claimLost raises an alert when claims are lost in series.
func (o *Observer) claimLost(epoch fencerow.ClaimEpoch, why fencerow.LostReason) {
	o.alerts.mu.Lock()
	defer o.alerts.mu.Unlock()
	if count := o.alerts.losses.add(epoch, time.Now()); count > 0 {
		o.raiseLocked(cause{event: AlertLeaseLost, reason: fencerow.ReasonCode(why)}, count)
	}
}
