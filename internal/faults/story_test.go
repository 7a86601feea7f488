package faults

import (
	"crypto/sha256"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
)

var midnight = time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)

// at is so many seconds after midnight.
func at(seconds float64) time.Time {
	return midnight.Add(time.Duration(seconds * float64(time.Second)))
}

// witnessOf returns a witness of a run of one instance with these happenings, in which entries 0 to 9 are
// enqueued and none is special.
func witnessOf(happenings ...Happening) *witness {
	r := &run{
		cfg: Config{Instances: 1, Lease: 3 * time.Second}, broken: map[Rule]int{}, special: 1000,
		daemons: [][]*daemon{{{instance: 0}}},
	}
	r.enqueued = make([]atomic.Int64, 1)
	r.enqueued[0].Store(10)
	w := &witness{r: r, byPlace: map[string][]Happening{}, seen: make([]int, 1)}
	for _, h := range happenings {
		if h.Place == "" {
			w.everywhere = append(w.everywhere, h)
		} else {
			w.byPlace[h.Place] = append(w.byPlace[h.Place], h)
		}
	}
	return w
}

// sent is a request of entry 0, answered after a tenth of a second.
func sent(seconds float64, epoch int64, attempt, status int, verdict ledgerstub.Verdict) ledgerstub.Record {
	return ledgerstub.Record{
		Key: "desk-1:e-0000000", Epoch: epoch, Attempt: attempt, Arrival: 1, End: 2, ArrivedAt: at(seconds),
		EndedAt: at(seconds + 0.1), Verdict: verdict, Status: status,
		Digest: sha256.Sum256([]byte(numbered("desk-1", 0, 1000).body())),
	}
}

// tale is an entry that desk-1/0/1 sent at 1 s and held when it was killed at 1.2 s, which the ledger had
// booked by then; desk-1/0/2 took it over at 4.1 s, and recorded the duplicate at 4.4 s.
func tale() *story {
	e := numbered("desk-1", 0, 1000)
	return &story{
		row: 7, instance: "desk-1", id: e.id(), payload: e.payload(),
		holds: []hold{
			{row: 7, epoch: 100, instance: "desk-1", worker: "desk-1/0/1", made: at(0.9), ends: at(3.9)},
			{row: 7, epoch: 200, instance: "desk-1", worker: "desk-1/0/2", made: at(4.1), ends: at(7.1)},
		},
		lettings: []letGo{{row: 7, epoch: 100, how: "expired", before: 0, after: 1, at: at(4.1)}},
		sends: []ledgerstub.Record{
			sent(1, 100, 1, 201, ledgerstub.VerdictBooked), sent(4.2, 200, 2, 200, ledgerstub.VerdictDuplicate),
		},
		outcomes: []outcome{
			{row: 7, life: 1, status: "completed", kind: "duplicate_completed", epoch: 200, attempts: 2, at: at(4.4)},
		},
		booking: &ledgerstub.Booking{Key: "desk-1:e-0000000", Ref: "stub-1", Body: []byte(e.body())},
	}
}

// arriveInTheWrongOrder makes it a tale of a request that desk-1/0/1 gave up, and that arrived when the entry
// had long been sent and booked by desk-1/1/1.
func arriveInTheWrongOrder(s *story) {
	s.holds[1] = hold{row: 7, epoch: 200, instance: "desk-1", worker: "desk-1/1/1", made: at(2.5), ends: at(5.5)}
	s.lettings = []letGo{{row: 7, epoch: 100, how: "retried", at: at(1.9)}}
	s.sends = []ledgerstub.Record{
		sent(2.6, 200, 1, 201, ledgerstub.VerdictBooked), sent(5, 100, 1, 409, ledgerstub.VerdictStale),
	}
	s.outcomes[0].kind, s.outcomes[0].attempts, s.outcomes[0].at = "completed", 1, at(2.8)
}

var killedThen = Happening{Fault: Fault{Kind: KillDaemon}, From: at(1.2), To: at(1.5), Place: "desk-1/0"}

func TestTheCheckerSeesEachWayToBreakThePromise(t *testing.T) {
	t.Parallel()
	const none = Rule("")
	tests := []struct {
		name       string
		happenings []Happening
		change     func(*story)
		want       Rule
	}{
		{"NothingIsWrong", []Happening{killedThen}, func(*story) {}, none},
		{"StillPending", []Happening{killedThen}, func(s *story) { s.pending = true }, RuleUnfinished},
		{"NoOutcome", []Happening{killedThen}, func(s *story) { s.outcomes = nil }, RuleUnfinished},
		{"TwoOutcomes", []Happening{killedThen}, func(s *story) {
			s.outcomes = append(s.outcomes, s.outcomes[0])
		}, RuleUnfinished},
		{"ParkedThoughTheLedgerTakesIt", []Happening{killedThen}, func(s *story) {
			s.outcomes[0].status = "dead_lettered"
		}, RuleUnfinished},
		{"OtherPayload", []Happening{killedThen}, func(s *story) { s.payload += " " }, RuleEnqueue},
		{"NeverEnqueued", []Happening{killedThen}, func(s *story) { s.id = "undone-3" }, RuleEnqueue},
		{"NotBooked", []Happening{killedThen}, func(s *story) { s.booking = nil }, RuleNotBooked},
		{"BookedTwice", []Happening{killedThen}, func(s *story) {
			s.sends[1].Verdict = ledgerstub.VerdictBooked
		}, RuleNotBooked},
		{"BookedWithOtherBytes", []Happening{killedThen}, func(s *story) {
			s.booking.Body = append(s.booking.Body, ' ')
		}, RuleNotBooked},
		{"SentWithOtherBytes", []Happening{killedThen}, func(s *story) { s.sends[1].Digest[0]++ }, RuleNotBooked},
		{"RecordedBeforeTheAnswer", []Happening{killedThen}, func(s *story) {
			s.outcomes[0].at = at(4.25)
		}, RuleOutcomeWithoutSend},
		{"RecordedUnderAClaimThatDidNotSend", []Happening{killedThen}, func(s *story) {
			s.sends = s.sends[:1]
		}, RuleOutcomeWithoutSend},
		{"RecordedWithAnothersReference", []Happening{killedThen}, func(s *story) {
			s.outcomes[0].ref = "stub-2"
		}, RuleOutcomeWithoutSend},
		{"ClaimedWithinALease", []Happening{killedThen}, func(s *story) {
			s.holds[1].made = at(3.8)
		}, RuleTwoHolders},
		{"ClaimedBeforeItWasReleased", []Happening{killedThen}, func(s *story) {
			s.lettings[0] = letGo{row: 7, epoch: 100, how: "released", at: at(4.2)}
		}, RuleTwoHolders},
		{"ClaimedAgainForNoReason", []Happening{killedThen}, func(s *story) { s.lettings = nil }, RuleHoldUnended},
		{"ClaimedForAnother", []Happening{killedThen}, func(s *story) {
			s.holds[1].instance = "desk-2"
		}, RuleForeign},
		{"EpochThatDoesNotRise", []Happening{killedThen}, func(s *story) {
			s.holds[1].epoch, s.sends[1].Epoch, s.outcomes[0].epoch = 99, 99, 99
		}, RuleEpoch},
		{"AttemptNotCounted", []Happening{killedThen}, func(s *story) { s.sends[1].Attempt = 1 }, RuleAttempts},
		{"AttemptLowered", []Happening{killedThen}, func(s *story) {
			s.lettings[0].before, s.lettings[0].after = 3, 2
		}, RuleAttempts},
		{"SentAfterTheLease", []Happening{killedThen}, func(s *story) {
			s.sends[0].ArrivedAt = at(3.95)
		}, RuleSendOutsideHold},
		{"SentAfterTheLeaseByOneThatWasStopped", []Happening{killedThen, {
			Fault: Fault{Kind: StopDaemon}, From: at(1), To: at(3.9), Place: "desk-1/0",
		}}, func(s *story) { s.sends[0].ArrivedAt = at(3.95) }, none},
		{"SentAfterTheLeaseWhenAnotherWasStopped", []Happening{killedThen, {
			Fault: Fault{Kind: StopDaemon}, From: at(1), To: at(3.9), Place: "desk-1/1",
		}}, func(s *story) { s.sends[0].ArrivedAt = at(3.95) }, RuleSendOutsideHold},
		{"SentUnderNoClaim", []Happening{killedThen}, func(s *story) {
			s.sends[0].Epoch = 50
		}, RuleSendOutsideHold},
		{"SentAgainForNoReason", nil, func(*story) {}, RuleSentAgain},
		{"SentAgainAndAnotherWasKilled", []Happening{{
			Fault: Fault{Kind: KillDaemon}, From: at(1.2), To: at(1.5), Place: "desk-1/1",
		}}, func(*story) {}, RuleSentAgain},
		{"SentAgainUnderALongTransaction", []Happening{{
			Fault: Fault{Kind: HoldSnapshot}, From: at(1), To: at(9),
		}}, func(*story) {}, RuleSentAgain},
		{"SentBeforeWhatItArrivedAfter", []Happening{{
			Fault: Fault{Kind: StallLedgerLink}, From: at(1), To: at(5), Place: "desk-1/0",
		}}, arriveInTheWrongOrder, none},
		{"SentBeforeWhatItArrivedAfterForNoReason", nil, arriveInTheWrongOrder, RuleSendOutsideHold},
		{"SentAgainBesideALateArrival", []Happening{{
			Fault: Fault{Kind: StallLedgerLink}, From: at(1), To: at(5), Place: "desk-1/0",
		}}, func(s *story) {
			arriveInTheWrongOrder(s)
			again := s.sends[0]
			again.ArrivedAt, again.EndedAt = at(5.2), at(5.3)
			s.sends = append(s.sends, again)
		}, RuleSentAgain},
		{"SentAgainAfterAFailure", nil, func(s *story) {
			s.sends[0].Status, s.sends[0].Verdict = 500, ledgerstub.VerdictOpen
			s.sends[1].Verdict = ledgerstub.VerdictBooked
		}, none},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := witnessOf(tt.happenings...)
			s := tale()
			tt.change(s)
			w.look(s)
			rules := slices.Collect(maps.Keys(w.r.broken))
			if tt.want == none && len(rules) > 0 || tt.want != none && !slices.Contains(rules, tt.want) {
				t.Errorf("got %v, want %q", rules, tt.want)
			}
		})
	}
}
