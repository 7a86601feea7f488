package daemon

import (
	"slices"
	"sync"
	"time"
)

const (
	// maxFailed is how many polls in a row may fail before the daemon says that it is not ready.
	maxFailed = 3
	// maxBusy is how many polls in a row may find the store busy before the log says so: another worker's claim
	// is no news.
	maxBusy = 3
	// pollSlack is how much longer than three intervals the last good poll may lie back before readiness ends.
	pollSlack = 10 * time.Second
	// maxPoll bounds a tick from above: several calls of the store, each with timeouts of its own. A loop that
	// gives no sign of life for so long beyond its interval is stuck.
	maxPoll = 2 * time.Minute
)

// state is what holds for the daemon as a whole.
type state struct {
	mu       sync.Mutex
	stopping bool
	busy     int // polls, of whichever writer, that found the store busy since it last answered one
	failing  bool
	held     bool // the instance, by an operator
}

func (s *state) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
}

func (s *state) stops() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping
}

// storeBusy notes a poll that found the store busy, and reports whether that is to be said: once, until the
// store has answered again.
func (s *state) storeBusy() (say bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy++
	return s.busy == maxBusy
}

// storeAnswered notes that the store answered a poll, and reports whether it had been said to be busy.
func (s *state) storeAnswered() (said bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	said, s.busy = s.busy >= maxBusy, 0
	return said
}

// fails notes that polls of a writer fail, and reports whether that is to be said.
func (s *state) fails() (say bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	say, s.failing = !s.failing, true
	return say
}

// fine notes that no writer's polls fail, and reports whether they had been said to.
func (s *state) fine() (said bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	said, s.failing = s.failing, false
	return said
}

// instance notes whether the instance is on hold, and reports whether that changed.
func (s *state) instance(held bool) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changed, s.held = s.held != held, held
	return changed
}

func (s *state) instanceHeld() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// pollState is what the loops of one writer tell about themselves.
type pollState struct {
	interval time.Duration

	mu       sync.Mutex
	prepared bool
	beatAt   time.Time // zero until the first tick
	goodAt   time.Time // of the last poll that did what it should
	failed   int       // polls in a row
	errors   uint64    // polls that ever failed
	waits    bool      // an error forbids follow-ups until a tick's poll is good
	wanted   bool      // a follow-up was asked for meanwhile
}

// beat notes that the tick loop is alive.
func (s *pollState) beat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beatAt = time.Now()
}

// alive reports whether the tick loop goes round; before its first tick it is given the benefit of the doubt.
func (s *pollState) alive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.beatAt.IsZero() || time.Since(s.beatAt) < s.interval+maxPoll
}

// alive reports whether every tick loop goes round, or the daemon stops.
func (d *Daemon) alive() bool {
	stuck := func(p *poller) bool { return !p.state.alive() }
	return d.state.stops() || !slices.ContainsFunc(d.pollers, stuck)
}

func (s *pollState) prepare() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prepared, s.failed = true, 0
	s.goodAt = time.Now()
}

// pollBegins notes that a poll begins and returns how many failed so far, for pollGood. What follow-ups were
// asked for before a tick is what the tick itself does.
func (s *pollState) pollBegins(ticked bool) (errorsBefore uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = s.wanted && !ticked
	return s.errors
}

// pollGood notes a poll that did what it should. A tick's, begun after the last error, allows follow-ups
// again; followUp says that one was asked for while it ran.
func (s *pollState) pollGood(ticked bool, errorsBefore uint64) (followUp bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = 0
	s.goodAt = time.Now()
	if s.waits && ticked && s.errors == errorsBefore {
		followUp = s.wanted
		s.waits, s.wanted = false, false
	}
	return followUp
}

// pollFailed notes a failed poll and returns how many there were in a row.
func (s *pollState) pollFailed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed++
	s.errors++
	s.waits = true
	return s.failed
}

// mayFollowUp reports whether a follow-up may poll now. One that may not is remembered.
func (s *pollState) mayFollowUp() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = s.wanted || s.waits
	return !s.waits
}

// Why a daemon is not ready, beside the codes of its store.
const (
	NotReadyStarting = "starting"
	NotReadyStopping = "stopping"
	NotReadyFailing  = "polls_failing"
	NotReadyStale    = "polls_stale"
)

// polls returns why the loops make the daemon not ready, or nothing, with how many polls of one writer failed
// in a row and how long its last good one lies back: of the writer that is worst in each. One that is stuck
// makes the daemon not ready: what it holds is not delivered.
func (d *Daemon) polls() (why string, failed int, since time.Duration) {
	for _, p := range d.pollers {
		itsWhy, itsFailed, itsSince := p.state.polls()
		if why == "" {
			why = itsWhy
		}
		failed, since = max(failed, itsFailed), max(since, itsSince)
	}
	if d.state.stops() {
		why = NotReadyStopping
	}
	return why, failed, since
}

func (s *pollState) polls() (why string, failed int, since time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.prepared {
		since = time.Since(s.goodAt)
	}
	switch {
	case !s.prepared:
		why = NotReadyStarting
	case s.failed >= maxFailed:
		why = NotReadyFailing
	case since > 3*s.interval+pollSlack:
		why = NotReadyStale
	}
	return why, s.failed, since
}
