package writer

import (
	"time"

	"github.com/fourblocks2020/fencerow"
)

const (
	// streakLength is how many different entries in a row must fail ambiguously, with no definite answer
	// between, for the target to be to blame.
	streakLength = 5
	// maxOwed bounds the charges waiting to be given back; each streak adds at most streakLength-1.
	maxOwed = 64
	// maxOweTries is in how many polls a charge is tried to be given back. The row may be under another worker's
	// lease for a while.
	maxOweTries = 120
)

// fate is what becomes of an ambiguous result.
type fate int

const (
	undecided fate = iota
	charged        // the entry's fault
	forgiven       // the target's fault
	spared         // written undecided at the last attempt, which is not used up
)

// lapse is an ambiguous result of one entry: a 500, or no definite answer. Guarded by health.mu once it was
// handed over.
type lapse struct {
	id            fencerow.OutboxID
	correlationID fencerow.CorrelationID
	life, attempt int
	reason        fencerow.ReasonCode
	instead       fencerow.Outcome // what is recorded if it is forgiven
	// last says that charging it would end the entry's life, which cannot be given back. spared is what is
	// recorded then if the fate must be known before it is decided.
	last   bool
	spared fencerow.Outcome
	fate   fate
	// held and holds say whether the target was on hold when the delivery began, and how many holds had begun.
	held  bool
	holds uint64
	// charges is how many attempts in the open streak were recorded against the entry, and, once they are owed,
	// how many are left to give back.
	charges int
	// paying is the claim under which one is being given back, while no answer says whether it was.
	paying *fencerow.Claim
	// dueAgain is when the row would have been due without the charge being given back, by the local clock.
	dueAgain time.Time
	tries    int
}

// streak is the ambiguous results since the last definite answer: the latest of each entry, fewer than
// streakLength entries.
type streak struct{ lapses []*lapse }

// add appends l and reports whether the streak is now long enough to blame the target.
func (s *streak) add(l *lapse) bool {
	for i, earlier := range s.lapses {
		if earlier.id == l.id {
			// The same entry again: its earlier attempt was recorded, or it could not have been claimed again.
			l.charges = earlier.charges
			s.lapses[i] = l
			return false
		}
	}
	s.lapses = append(s.lapses, l)
	return len(s.lapses) == streakLength
}

// breakUp ends the streak by a definite answer: each entry is charged for its own failure. It reports whether
// there was one.
func (s *streak) breakUp() bool { return len(s.end(charged)) > 0 }

// forgive ends the streak by blaming the target.
func (s *streak) forgive() []*lapse { return s.end(forgiven) }

func (s *streak) end(f fate) []*lapse {
	ended := s.lapses
	s.lapses = nil
	for _, l := range ended {
		l.fate = f
	}
	return ended
}

const (
	// drawsToBlame is how many target-wide answers an entry must draw, with others answered in between, to be
	// charged for the last and for those that follow.
	drawsToBlame = 3
	// maxDraws bounds the entries remembered. The oldest half is forgotten at once.
	maxDraws = 10_000
)

// draws counts the target-wide answers that single entries drew. It keeps two generations, so that forgetting
// costs nothing.
type draws struct{ young, old map[fencerow.OutboxID]drawn }

type drawn struct {
	times    int
	answered uint64 // health.answered at the last draw
}

// draw notes a target-wide answer to the entry and reports whether the entry is to blame: it drew enough of
// them, and others were answered since the one before. Without such an answer the draw does not count: the
// target may just be down.
func (d *draws) draw(id fencerow.OutboxID, answered uint64) (blame bool) {
	e := d.find(id)
	between := e.times == 0 || answered > e.answered
	if between && e.times < drawsToBlame {
		e.times++
	}
	e.answered = answered
	d.put(id, e)
	return between && e.times == drawsToBlame
}

// offends reports whether a draw would be blamed on the entry, and notes it if so.
func (d *draws) offends(id fencerow.OutboxID, answered uint64) bool {
	e := d.find(id)
	if e.times < drawsToBlame || answered <= e.answered {
		return false
	}
	return d.draw(id, answered)
}

// discountOwnAnswer keeps an answer to the entry itself from counting as one to another entry.
func (d *draws) discountOwnAnswer(id fencerow.OutboxID) {
	if e := d.find(id); e.times > 0 {
		e.answered++
		d.put(id, e)
	}
}

func (d *draws) find(id fencerow.OutboxID) drawn {
	if e, ok := d.young[id]; ok {
		return e
	}
	return d.old[id]
}

func (d *draws) put(id fencerow.OutboxID, e drawn) {
	if d.young == nil || len(d.young) >= maxDraws/2 {
		d.young, d.old = map[fencerow.OutboxID]drawn{}, d.young
	}
	d.young[id] = e
}
