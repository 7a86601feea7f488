// Package history records what many clients do to a few rows at once, with the times at which each call began
// and returned, and asks whether one order of the calls explains all answers: whether the store is
// linearizable to the model of one row below. It uses the public methods of a store only, so that it reads
// PostgreSQL and memory alike.
package history

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fourblocks2020/fencerow"
)

// verb is what a client asked of a row.
type verb string

const (
	claim   verb = "claim"
	record  verb = "record"
	release verb = "release"
	requeue verb = "requeue"
)

// call is an operation's input.
type call struct {
	verb  verb
	row   int
	token fencerow.ClaimToken
	// outcome and charge are what is recorded; uncertain is of an outcome or a release.
	outcome   fencerow.OutcomeKind
	charge    fencerow.Charge
	uncertain bool
	begun     time.Time
}

// answer is an operation's output.
type answer struct {
	// done says that the claim was made, the outcome or release applied, or the entry requeued.
	done     bool
	refused  fencerow.RefusedWhy // of a claim that was not made
	returned time.Time
	// The claim.
	epoch         fencerow.ClaimEpoch
	attempt, life int
	uncertain     bool
	at, leaseEnd  time.Time
}

// state is one row as the contract has it. Times are in nanoseconds, so that states compare.
type state struct {
	finished  fencerow.OutcomeKind // empty while pending
	holder    fencerow.ClaimToken
	leaseEnd  int64
	epoch     fencerow.ClaimEpoch // of the holder, or the last one
	attempts  int
	life      int
	uncertain bool
}

func (s state) held() bool { return !s.holder.IsZero() }

// free ends the hold by expiry, which any claim of the instance may do from the end of the lease on.
func (s state) free() state {
	s.holder, s.leaseEnd, s.uncertain = fencerow.ClaimToken{}, 0, true
	s.attempts++
	return s
}

// precision is that of the stores' clocks, in nanoseconds.
const precision = int64(time.Microsecond)

var model = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byRow := map[int][]porcupine.Operation{}
		for _, op := range history {
			row := op.Input.(call).row //nolint:errcheck // the history holds nothing else
			byRow[row] = append(byRow[row], op)
		}
		var parts [][]porcupine.Operation
		for _, part := range byRow {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return state{life: 1} },
	Step: func(before, input, output any) (bool, any) {
		//nolint:errcheck // the history holds nothing else
		return before.(state).step(input.(call), output.(answer))
	},
	DescribeOperation: func(input, output any) string {
		return fmt.Sprintf("%+v -> %+v", input, output)
	},
}

// step reports whether the row, as it is, can give the answer, and what it is then. That a hold has expired
// shows only in what comes after: an answer that needs it to have ended ends it, if its time had come.
func (s state) step(c call, a answer) (bool, state) {
	expired := func(by time.Time) bool { return s.leaseEnd <= by.UnixNano() }
	switch c.verb {
	case claim:
		return s.stepClaim(c, a)
	case requeue:
		blocked := s.finished == fencerow.OutcomeDeadLettered
		if !a.done || !blocked {
			return a.done == blocked, s
		}
		return true, state{life: s.life + 1, epoch: s.epoch, uncertain: true}
	case record, release:
		mine := s.finished == "" && s.held() && s.holder == c.token
		if !a.done {
			if mine && expired(a.returned) {
				return true, s.free()
			}
			return !mine, s
		}
		if !mine {
			return false, s
		}
	}
	s.holder, s.leaseEnd = fencerow.ClaimToken{}, 0
	switch {
	case c.verb == release:
		s.uncertain = s.uncertain || c.uncertain
	case c.outcome == fencerow.OutcomeRetryableFailure:
		s.attempts = max(0, s.attempts+int(c.charge))
		s.uncertain = s.uncertain || c.uncertain
	default:
		s.finished = c.outcome
	}
	return true, s
}

func (s state) stepClaim(c call, a answer) (bool, state) {
	if !a.done {
		switch a.refused {
		case fencerow.RefusedFinished:
			return s.finished != "", s
		case fencerow.RefusedLeased:
			return s.finished == "" && s.held() && s.leaseEnd > c.begun.UnixNano()-precision, s
		case fencerow.RefusedNotDue, fencerow.RefusedHeld, fencerow.RefusedUnknown, fencerow.RefusedForeign:
		}
		return false, s
	}
	if s.finished != "" || s.held() && s.leaseEnd > a.at.UnixNano() {
		return false, s
	}
	if s.held() {
		s = s.free()
	}
	good := a.epoch > s.epoch && a.attempt == s.attempts+1 && a.life == s.life && a.uncertain == s.uncertain
	s.holder, s.leaseEnd, s.epoch = c.token, a.leaseEnd.UnixNano(), a.epoch
	return good, s
}
