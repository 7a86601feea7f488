package faults

import (
	"crypto/sha256"
	"slices"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
)

// slack is how far apart two looks at one machine's clock may seem: one just before a statement's end, the
// other at its beginning.
const slack = 50 * time.Millisecond

// checkEnd demands that the entry is in its terminal state, once, and is in the ledger accordingly.
func (w *witness) checkEnd(s *story, e entry) {
	if s.pending || len(s.outcomes) == 0 {
		w.r.violate(RuleUnfinished, "%s", s.describe())
		return
	}
	for i, o := range s.outcomes {
		last := i == len(s.outcomes)-1
		status := fencerow.Status(o.status)
		if o.life != i+1 || last && status != e.class.final() || !last && status != e.class.parked() {
			w.r.violate(RuleUnfinished, "life %d of %s", o.life, s.describe())
		}
		if status == fencerow.StatusCompleted {
			w.checkSuccess(s, o)
		} else if len(s.sends) == 0 || s.sends[0].ArrivedAt.After(o.at) {
			w.r.violate(RuleOutcomeWithoutSend, "life %d of %s", o.life, s.describe())
		}
	}
	books := 0
	for _, x := range s.sends {
		if x.Verdict == ledgerstub.VerdictBooked {
			books++
		}
	}
	want := 0
	if e.class.final() == fencerow.StatusCompleted {
		want = 1
	}
	switch {
	case books != want || (s.booking != nil) != (want == 1):
		w.r.violate(RuleNotBooked, "%d times: %s", books, s.describe())
	case s.booking != nil && string(s.booking.Body) != e.body():
		w.r.violate(RuleNotBooked, "with other bytes: %s", s.describe())
	case s.booking != nil:
		w.booked++
	}
	digest := ledgerstub.Digest(sha256.Sum256([]byte(e.body())))
	for _, x := range s.sends {
		if x.Verdict != ledgerstub.VerdictAborted && x.Digest != digest && x.End != 0 {
			w.r.violate(RuleNotBooked, "sent with other bytes: %s", s.describe())
		}
	}
}

// checkSuccess demands that the ledger had answered under the very claim that recorded it.
func (w *witness) checkSuccess(s *story, o outcome) {
	answered := slices.ContainsFunc(s.sends, func(x ledgerstub.Record) bool {
		return x.Epoch == o.epoch && x.Status/100 == 2 && x.End != 0 && !x.EndedAt.After(o.at)
	})
	if !answered || s.booking != nil && o.ref != "" && o.ref != s.booking.Ref {
		w.r.violate(RuleOutcomeWithoutSend, "life %d of %s", o.life, s.describe())
	}
}

// end says when and how a hold ended; a zero time if it is not known that it did.
func (s *story) end(h hold) (at time.Time, how string) {
	for _, l := range s.lettings {
		if l.epoch == h.epoch {
			return l.at, l.how
		}
	}
	for _, o := range s.outcomes {
		if o.epoch == h.epoch {
			return o.at, "ended"
		}
	}
	return time.Time{}, ""
}

// checkHolds demands that the row had one holder at a time, under tokens that rise.
func (w *witness) checkHolds(s *story) {
	for i, h := range s.holds {
		at, how := s.end(h)
		if h.instance != s.instance {
			w.r.violate(RuleForeign, "claimed for %s: %s", h.instance, s.describe())
		}
		if how == "" {
			w.r.violate(RuleHoldUnended, "%s", s.describe())
		}
		if how == "expired" {
			w.expired++
		}
		if i == len(s.holds)-1 {
			return
		}
		next := s.holds[i+1]
		if next.epoch <= h.epoch {
			w.r.violate(RuleEpoch, "%d after %d: %s", next.epoch, h.epoch, s.describe())
		}
		free := at
		if how == "expired" {
			free = h.ends
		}
		if next.made.Before(free.Add(-slack)) {
			w.r.violate(RuleTwoHolders, "%s before %s let go: %s", free.Sub(next.made), h.worker, s.describe())
		}
	}
}

// checkSends demands that each request left inside its claim's hold on the row, and that there was a reason
// for each but the first.
func (w *witness) checkSends(s *story) {
	for _, l := range s.lettings {
		if l.how == "expired" && l.after != l.before+1 || l.how == "released" && l.after != l.before ||
			l.how == "retried" && (l.after < l.before-1 || l.after > l.before+1) {
			w.r.violate(RuleAttempts, "%d to %d: %s", l.before, l.after, s.describe())
		}
	}
	for i, x := range s.sends {
		at := slices.IndexFunc(s.holds, func(h hold) bool { return h.epoch == x.Epoch })
		if at < 0 {
			w.r.violate(RuleSendOutsideHold, "under no claim: %s", s.describe())
			continue
		}
		h := s.holds[at]
		ended, how := s.end(h)
		if how == "expired" {
			ended = h.ends
		}
		if x.ArrivedAt.Before(h.made.Add(-slack)) || x.ArrivedAt.After(ended) {
			w.late++
			if !w.touched(h.worker, h.made, x.ArrivedAt, StopDaemon, DelayLedgerLink, StallLedgerLink) {
				w.r.violate(RuleSendOutsideHold, "at %s: %s", clock(x.ArrivedAt), s.describe())
			}
		}
		w.checkAttempt(s, i, at, how)
		if before := lastBefore(s.sends[:i], x.Epoch); before != nil {
			w.checkAgain(s, *before)
		}
	}
}

// lastBefore returns the last of the requests that were sent before one of the given epoch, or nil. They are
// in the order in which they arrived; what a delay lets arrive after a later claim's was sent before it.
func lastBefore(sends []ledgerstub.Record, epoch int64) (last *ledgerstub.Record) {
	for i := range sends {
		if s := &sends[i]; s.Epoch <= epoch && (last == nil || s.Epoch >= last.Epoch) {
			last = s
		}
	}
	return last
}

// checkAttempt demands that the attempt after one that ended by expiry is one more.
func (w *witness) checkAttempt(s *story, send, at int, how string) {
	if how != "expired" || at == len(s.holds)-1 {
		return
	}
	next := s.holds[at+1].epoch
	for _, y := range s.sends[send+1:] {
		if y.Epoch == next && y.Attempt != s.sends[send].Attempt+1 {
			w.r.violate(RuleAttempts, "%d after %d: %s", y.Attempt, s.sends[send].Attempt, s.describe())
		}
	}
}

// losing are the kinds by which a worker can lose an answer of the ledger, or the record of it.
var losing = []Kind{
	KillDaemon, StopDaemon, DeployDaemon, JumpClock, CutDatabaseLink, DelayDatabaseLink, StallDatabaseLink,
	LoseAnswers, CutLedgerLink, DelayLedgerLink, StallLedgerLink, TerminateBackends, RestartDatabase,
	TurnReadOnly, LimitConnections, FillDisk, HoldLock, ExhaustPool, LedgerHangs,
}

// checkAgain demands a reason for what came after a request: that it was not answered well, or that something
// befell the worker that sent it before it could record the answer.
func (w *witness) checkAgain(s *story, before ledgerstub.Record) {
	if before.Status/100 != 2 || before.Fault != "" && before.Fault != ledgerstub.ModeSlow {
		return // it was not answered, or not so that it could be read
	}
	at := slices.IndexFunc(s.holds, func(h hold) bool { return h.epoch == before.Epoch })
	if at < 0 {
		return // said already
	}
	h := s.holds[at]
	ended, _ := s.end(h)
	if !w.touched(h.worker, before.ArrivedAt.Add(-w.r.cfg.Lease), ended, losing...) {
		w.r.violate(RuleSentAgain, "%s", s.describe())
	}
}
