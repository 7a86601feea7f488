package writer

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/fourblocks2020/fencerow"
)

// The row's state before the attempt, the answer, the read-back if there is one, and what is recorded.
type outcomeCase struct {
	claim     string
	attempt   int  // of this delivery; 0 stands for 1
	uncertain bool // from an earlier attempt
	last      fencerow.ReasonCode
	answer    fencerow.Answer
	readBack  fencerow.ResolveResult

	kind   fencerow.OutcomeKind
	reason fencerow.ReasonCode
	// For a retry: what is counted, whether it is marked uncertain now.
	counted bool
	unsure  bool
}

func TestOutcomeOfAnAnswer(t *testing.T) {
	const last = 3 // MaxAttempts of these writers
	asks := func(class fencerow.AnswerClass, why fencerow.ReasonCode, c fencerow.Certainty) fencerow.Answer {
		return fencerow.Answer{Class: class, Certainty: c, Scope: fencerow.ScopeEntry, Reason: why, Resolve: true}
	}
	unreadable := asks(fencerow.AnswerRetryable, fencerow.ReasonAnswerUnreadable, fencerow.Unknown)
	echo := asks(fencerow.AnswerConflict, fencerow.ReasonEchoConflict, fencerow.Answered)
	inFlight := asks(fencerow.AnswerRetryable, fencerow.ReasonInFlight, fencerow.Answered)
	duplicate := success(fencerow.AnswerDuplicate)

	for _, c := range []outcomeCase{
		{claim: "DeliveredCompletes", answer: delivered(), kind: "completed"},
		{claim: "DuplicateCompletes", answer: duplicate, kind: "duplicate_completed"},
		{claim: "DeliveredOnAnUncertainRowCompletes", uncertain: true, answer: delivered(), kind: "completed"},
		{claim: "PermanentParks", answer: badRequest, kind: "permanent_failure", reason: "bad_request"},
		{claim: "ConflictParks",
			answer: asks(fencerow.AnswerConflict, fencerow.ReasonContentConflict, fencerow.Answered),
			kind:   "conflict_blocked", reason: "content_conflict"},
		{claim: "RetryableCountsAnAttempt", answer: notReady,
			kind: "retryable_failure", reason: "not_ready", counted: true},
		{claim: "UnknownMarksTheRow", answer: cut, kind: "retryable_failure", reason: "connection_cut",
			counted: true, unsure: true},
		{claim: "TargetFailureCountsNothing", answer: refused,
			kind: "retryable_failure", reason: "connect_refused"},
		{claim: "TargetFailureAtTheLastAttemptParksNothing", attempt: last, answer: refused,
			kind: "retryable_failure", reason: "connect_refused"},
		{claim: "LastAttemptDeadLetters", attempt: last, answer: notReady,
			kind: "dead_lettered", reason: "not_ready"},
		{claim: "UndecidedLastAttemptIsNotUsedUp", attempt: last, answer: cut,
			kind: "retryable_failure", reason: "connection_cut", unsure: true},
		{claim: "AnswerWithoutAReasonGetsOne", answer: fencerow.Answer{Class: fencerow.AnswerPermanent,
			Certainty: fencerow.Answered, Scope: fencerow.ScopeEntry, Reason: "HTTP 400: <secret>"},
			kind: "permanent_failure", reason: "answer_unreadable"},
		{claim: "AnswerOutOfTheVocabularyIsUnknown",
			answer: fencerow.Answer{Class: "fine", Scope: fencerow.ScopeTarget},
			kind:   "retryable_failure", reason: "answer_unreadable", counted: true, unsure: true},

		{claim: "RuleUWithoutReadBackIsUnverified", uncertain: true, answer: badRequest,
			kind: "permanent_failure", reason: "bad_request_unverified"},
		{claim: "RuleUEqualIsADuplicate", uncertain: true, answer: badRequest, readBack: "equal",
			kind: "duplicate_completed", reason: "resolved_equal"},
		{claim: "RuleUDifferentIsAConflict", uncertain: true, answer: badRequest, readBack: "different",
			kind: "conflict_blocked", reason: "resolved_different"},
		{claim: "RuleUAbsentStandsVerified", uncertain: true, answer: badRequest, readBack: "absent",
			kind: "permanent_failure", reason: "bad_request"},
		{claim: "RuleUFailedTriesAgain", uncertain: true, answer: badRequest, readBack: "failed",
			kind: "retryable_failure", reason: "bad_request", counted: true, unsure: true},
		{claim: "RuleUFailedAtTheLastAttemptIsUnverified", attempt: last, uncertain: true, answer: badRequest,
			readBack: "failed", kind: "permanent_failure", reason: "bad_request_unverified"},
		{claim: "DeadLetterOfAnUncertainRowAsksFirst", attempt: last, uncertain: true, answer: notReady,
			readBack: "equal", kind: "duplicate_completed", reason: "resolved_equal"},
		{claim: "CertainRowsAreNotAskedFor", answer: badRequest, readBack: "equal",
			kind: "permanent_failure", reason: "bad_request"},

		{claim: "UnreadableWithoutReadBackIsRetried", answer: unreadable, kind: "retryable_failure",
			reason: "answer_unreadable", counted: true, unsure: true},
		{claim: "UnreadableEqualIsADuplicate", answer: unreadable, readBack: "equal",
			kind: "duplicate_completed", reason: "resolved_equal"},
		{claim: "UnreadableAbsentIsRetried", answer: unreadable, readBack: "absent", kind: "retryable_failure",
			reason: "resolved_absent", counted: true, unsure: true},
		{claim: "UnreadableFailedIsRetried", answer: unreadable, readBack: "failed", kind: "retryable_failure",
			reason: "answer_unreadable", counted: true, unsure: true},
		{claim: "EchoConflictWithoutReadBackIsAConflict", answer: echo,
			kind: "conflict_blocked", reason: "echo_conflict"},
		{claim: "EchoConflictThatIsEqualIsADuplicate", answer: echo, readBack: "equal",
			kind: "duplicate_completed", reason: "resolved_equal"},
		{claim: "EchoConflictThatIsDifferentIsAConflict", answer: echo, readBack: "different",
			kind: "conflict_blocked", reason: "resolved_different"},

		{claim: "InFlightIsRetried", answer: inFlight, last: "in_flight", attempt: 1,
			kind: "retryable_failure", reason: "in_flight", counted: true},
		{claim: "InFlightTooOftenIsAConflict", answer: inFlight, last: "in_flight", attempt: 2,
			kind: "conflict_blocked", reason: "conflict_unverified"},
		{claim: "InFlightAfterAnotherReasonIsRetried", answer: inFlight, last: "not_ready", attempt: 2,
			kind: "retryable_failure", reason: "in_flight", counted: true},
		{claim: "InFlightTooOftenAsksFirst", answer: inFlight, last: "in_flight", attempt: 2, readBack: "equal",
			kind: "duplicate_completed", reason: "resolved_equal"},
		{claim: "InFlightTooOftenAndAbsentIsRetried", answer: inFlight, last: "in_flight", attempt: 2,
			readBack: "absent", kind: "retryable_failure", reason: "resolved_absent", counted: true},
	} {
		bubble(t, c.claim, func(t *testing.T) { c.run(t, last) })
	}
}

func (c *outcomeCase) run(t *testing.T, maxAttempts int) {
	h := newHarness(t, func(c *Config) { c.MaxAttempts, c.InFlightAttempts = maxAttempts, 2 })
	h.enqueue("e", 1)
	before := max(c.attempt, 1) - 1
	h.prepare("e-1", before, c.last, c.uncertain)
	if c.readBack != "" {
		h.ledger.resolve = func(context.Context, *fencerow.Entry) fencerow.Resolution {
			return fencerow.Resolution{Result: c.readBack}
		}
	}
	h.ledger.always(c.answer)
	res, err := h.w.RunTargeted(t.Context(), "e-1", true)
	check(t, err)
	equal(t, "outcome", res.Outcome, c.kind)
	equal(t, "reason", res.Reason, string(c.reason))
	s := h.show("e-1")
	equal(t, "status", s.Status, c.kind.Status())
	if c.kind.Terminal() {
		return
	}
	want := before
	if c.counted {
		want++
	}
	equal(t, "attempts counted", s.Pending.Attempts, want)
	equal(t, "uncertain", s.Pending.Uncertain, c.uncertain || c.unsure)
}

// prepare brings an entry to the given number of counted attempts by recording retries for it.
func (h *harness) prepare(id fencerow.CorrelationID, attempts int, why fencerow.ReasonCode, uncertain bool) {
	h.t.Helper()
	if why == "" {
		why = fencerow.ReasonNotReady
	}
	charge := fencerow.ChargeAttempt
	if attempts == 0 && uncertain {
		attempts, charge = 1, fencerow.ChargeNothing
	}
	for range attempts {
		claim, err := h.store.ClaimOne(context.Background(), fencerow.ClaimOneParams{
			Instance: self, Worker: "prepare", Token: fencerow.NewClaimToken(), CorrelationID: id,
			Lease: time.Minute, ForceDue: true,
		})
		check(h.t, err)
		_, err = h.store.RecordOutcomes(context.Background(), fencerow.RecordParams{
			Instance: self, Token: claim.Token, Outcomes: []fencerow.Outcome{{
				OutboxID: claim.Entries[0].OutboxID, Kind: fencerow.OutcomeRetryableFailure, Reason: why,
				Charge: charge, Uncertain: uncertain,
			}},
		})
		check(h.t, err)
	}
}

func TestDelivery(t *testing.T) {
	bubble(t, "PanicIsARetryableFailureAndItsBatchMatesAreDelivered", func(t *testing.T) {
		h := newHarness(t, nil)
		h.ledger.set(func(_ context.Context, d fencerow.Delivery) fencerow.Answer {
			if d.Entry.CorrelationID == "e-2" {
				panic("secret in a panic")
			}
			return delivered()
		})
		h.enqueue("e", 3)
		h.runOnce()
		equal(t, "completed", h.counts()[fencerow.StatusCompleted], 2)
		p := h.show("e-2").Pending
		equal(t, "reason", p.LastReason, fencerow.ReasonDeliveryPanicked)
		equal(t, "uncertain", p.Uncertain, true)
		equal(t, "attempts", p.Attempts, 1)
	})

	bubble(t, "PanicOfTheReadBackIsNoAnswer", func(t *testing.T) {
		h := newHarness(t, nil)
		h.ledger.always(fencerow.Answer{Class: fencerow.AnswerRetryable, Certainty: fencerow.Unknown,
			Scope: fencerow.ScopeEntry, Reason: fencerow.ReasonAcceptedNotBooked, Resolve: true})
		h.ledger.resolve = func(context.Context, *fencerow.Entry) fencerow.Resolution {
			panic(errors.New("boom"))
		}
		h.enqueue("e", 1)
		h.runOnce()
		equal(t, "reason", h.show("e-1").Pending.LastReason, fencerow.ReasonAcceptedNotBooked)
	})

	bubble(t, "EntryEndsDeadLetteredAfterItsAttempts", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.MaxAttempts = 4 })
		h.ledger.only("e-1", notReady)
		h.enqueue("e", 2)
		for range 4 {
			h.runOnce()
			pass(time.Hour)
		}
		l := h.life()
		equal(t, "status", l.Status, fencerow.StatusDeadLettered)
		equal(t, "attempts", l.Attempts, 4)
		for i, s := range sendingsOf(h.ledger.take(), "e-1") {
			equal(t, "attempt number", s.attempt, i+1)
		}
		failures := h.records("outcome recorded")
		last := failures[len(failures)-1]
		equal(t, "level", last["level"], any("ERROR"))
		equal(t, "retries counted", h.obs.Metrics().Outcomes.RetryableFailure, 3)
		equal(t, "dead letters counted", h.obs.Metrics().Outcomes.DeadLettered, 1)
	})

	bubble(t, "AttemptsUsedUpBeforeTheClaimAreNotDelivered", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.MaxAttempts = 1 })
		h.enqueue("e", 1)
		h.crash(t)
		h.runOnce()
		equal(t, "deliveries", len(h.ledger.take()), 0)
		equal(t, "status", h.show("e-1").Status, fencerow.StatusDeadLettered)
		equal(t, "reason", h.life().Reason, fencerow.ReasonLeaseExpired.AsUnverified())
	})

	bubble(t, "AttemptsUsedUpBeforeTheClaimAreAskedFor", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.MaxAttempts = 1 })
		h.enqueue("e", 1)
		h.crash(t)
		h.ledger.resolve = func(context.Context, *fencerow.Entry) fencerow.Resolution {
			return fencerow.Resolution{Result: fencerow.ResolvedAbsent}
		}
		h.runOnce()
		equal(t, "deliveries", len(h.ledger.take()), 0)
		equal(t, "reason", h.life().Reason, fencerow.ReasonLeaseExpired)
	})

	noReadBack := func(context.Context, *fencerow.Entry) fencerow.Resolution {
		return fencerow.Resolution{Result: fencerow.ResolveFailed}
	}

	bubble(t, "AttemptsUsedUpBeforeTheClaimAreAskedForUntilTheLedgerIsBack", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.MaxAttempts = 1 })
		h.enqueue("e", 1)
		h.crash(t)
		h.ledger.resolve = noReadBack
		for range 10 {
			h.runOnce()
			pass(time.Hour)
		}
		equal(t, "attempts", h.attempts("e-1"), 1)
		h.ledger.resolve = func(context.Context, *fencerow.Entry) fencerow.Resolution {
			return fencerow.Resolution{Result: fencerow.ResolvedEqual}
		}
		h.runOnce()
		equal(t, "outcome", h.life().Outcome, fencerow.OutcomeDuplicateCompleted)
		equal(t, "deliveries", len(h.ledger.take()), 0)
	})

	bubble(t, "ProbeThatCannotBeAskedForParksNothing", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.MaxAttempts = 1 })
		h.enqueue("e", 1)
		h.crash(t)
		h.enqueue("down", 1)
		h.ledger.resolve = noReadBack
		h.ledger.always(refused)
		_, err := h.w.RunTargeted(t.Context(), "down-1", false)
		check(t, err)
		equal(t, "held", len(h.records("target held")), 1)
		for range 20 {
			h.runOnce()
			pass(time.Second)
		}
		equal(t, "pending", h.counts()[fencerow.StatusPending], 2)
		equal(t, "attempts", h.attempts("e-1"), 1)
	})

	bubble(t, "FailedReadBacksOfFiveEntriesBlameTheTarget", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.MaxAttempts = 1; c.Concurrency = 1 })
		h.enqueue("e", 8)
		h.crash(t)
		h.ledger.resolve = noReadBack
		h.runOnce()
		equal(t, "held", len(h.records("target held")), 1)
		equal(t, "pending", h.counts()[fencerow.StatusPending], 8)
	})

	bubble(t, "FailedReadBackWhileOthersAreAnsweredEndsUnverified", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.MaxAttempts = 1; c.Concurrency = 1 })
		h.enqueue("e", 1)
		h.crash(t)
		h.ledger.resolve = noReadBack
		h.enqueue("ok", 1)
		h.runOnce()
		equal(t, "reason", h.life().Reason, fencerow.ReasonLeaseExpired.AsUnverified())
	})

	bubble(t, "EntryThatCrashesItsProcessEndsDeadLetteredAndItsNeighboursAreDelivered", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.MaxAttempts = 4 })
		h.enqueue("e", 5)
		// A worker that dies of e-3 whenever it has claimed it, and delivers what it claims without it.
		for range 20 {
			claim, err := h.store.ClaimBatch(t.Context(), fencerow.ClaimBatchParams{
				Instance: self, Worker: "doomed", Token: fencerow.NewClaimToken(), Limit: 100, Lease: time.Minute,
			})
			check(t, err)
			if len(claim.Entries) == 0 {
				break
			}
			poisoned := false
			for _, e := range claim.Entries {
				poisoned = poisoned || e.CorrelationID == "e-3" && e.Attempt <= 4
			}
			if !poisoned {
				h.release(claim)
				h.runOnce()
			}
			pass(2 * time.Minute)
		}
		equal(t, "completed", h.counts()[fencerow.StatusCompleted], 4)
		equal(t, "status of the poison", h.show("e-3").Status, fencerow.StatusDeadLettered)
		equal(t, "deliveries of the poison", len(sendingsOf(h.ledger.take(), "e-3")), 0)
	})

	bubble(t, "PayloadIsTheSameBytesOnEveryAttempt", func(t *testing.T) {
		payload := `{"b":1,"a":1,"a":2,"n":123456789012345678901234567890,"s":"\u0000 é 😀"}`
		h := newHarness(t, nil)
		h.enqueueThese(fencerow.NewEntry{CorrelationID: "e-1", EntryKind: "fill", Payload: []byte(payload)})
		var sent []string
		h.ledger.set(func(_ context.Context, d fencerow.Delivery) fencerow.Answer {
			sent = append(sent, string(d.Entry.AppendDocument(nil)))
			if len(sent) < 4 {
				return notReady
			}
			return delivered()
		})
		for range 4 {
			h.runOnce()
			pass(time.Hour)
		}
		want := `{"instance_key":"instance-a","correlation_id":"e-1","entry_kind":"fill","slot_id":null,` +
			`"currency":null,"cash_delta":"0","payload":` + payload + `}`
		for i, doc := range sent {
			equal(t, fmt.Sprint("attempt ", i+1), doc, want)
		}
		equal(t, "attempts", len(sent), 4)
	})

	bubble(t, "SnapshotOfAnAppliedSuccessReachesItsSlot", func(t *testing.T) {
		h := newHarness(t, nil)
		h.enqueueThese(
			fencerow.NewEntry{CorrelationID: "good", EntryKind: "fill", SlotID: "s", Payload: []byte(`{}`)},
			fencerow.NewEntry{CorrelationID: "bad", EntryKind: "fill", SlotID: "s", Payload: []byte(`{}`)},
		)
		h.ledger.set(func(_ context.Context, d fencerow.Delivery) fencerow.Answer {
			a := delivered()
			a.Snapshot = &fencerow.Snapshot{
				SlotID: "s", Currency: "USD", CashBalance: decimal.NewFromInt(7), Version: 3,
			}
			if d.Entry.CorrelationID == "bad" {
				a.Snapshot.SlotID = "other"
			}
			return a
		})
		h.runOnce()
		slots, err := h.store.Slots(t.Context(), self)
		check(t, err)
		equal(t, "balance", slots[0].CashBalance.String(), "7")
		equal(t, "completed", h.counts()[fencerow.StatusCompleted], 2)
		rejected := h.records("snapshot rejected")
		if len(rejected) != 1 || rejected[0]["correlation_id"] != "bad" {
			t.Errorf("rejections: %v", rejected)
		}
	})

	bubble(t, "EntryThatTheLedgerAnswersTooSlowlyIsUncertainBookedOnceAndHoldsNobodyUp", func(t *testing.T) {
		h := newHarness(t, nil)
		booked := 0
		h.ledger.set(func(ctx context.Context, d fencerow.Delivery) fencerow.Answer {
			switch {
			case d.Entry.CorrelationID != "slow-1":
				return delivered()
			case booked > 0:
				return success(fencerow.AnswerDuplicate)
			}
			booked++
			return hang(ctx, d) // booked, but the answer never arrives
		})
		h.enqueue("slow", 1)
		for i := range 9 {
			h.enqueue(fmt.Sprint("e", i), 5)
			_, err := h.w.Poll(t.Context())
			check(t, err)
			pass(time.Second)
			equal(t, "others completed", h.counts()[fencerow.StatusCompleted], int64(5*(i+1)))
		}
		pass(2 * time.Second)
		equal(t, "uncertain", h.show("slow-1").Pending.Uncertain, true)
		pass(time.Minute)
		h.runOnce()
		equal(t, "outcome", h.show("slow-1").Outcomes[0].Outcome, fencerow.OutcomeDuplicateCompleted)
		equal(t, "booked", booked, 1)
		sent := sendingsOf(h.ledger.take(), "slow-1")
		if len(sent) != 2 || sent[1].epoch <= sent[0].epoch {
			t.Errorf("sent: %v", sent)
		}
	})

	bubble(t, "LowerAttemptLimitKeepsTheReasonOfTheLastFailure", func(t *testing.T) {
		h := newHarness(t, func(c *Config) { c.MaxAttempts = 2 })
		h.enqueue("e", 1)
		h.prepare("e-1", 5, fencerow.ReasonThrottled, false)
		h.runOnce()
		equal(t, "reason", h.life().Reason, fencerow.ReasonThrottled)
	})
}

// crash claims everything as a worker that dies, and lets its lease run out.
func (h *harness) crash(t *testing.T) {
	t.Helper()
	_, err := h.store.ClaimBatch(t.Context(), fencerow.ClaimBatchParams{
		Instance: self, Worker: "doomed", Token: fencerow.NewClaimToken(), Limit: 100, Lease: time.Minute,
	})
	check(t, err)
	pass(time.Minute)
}

func sendingsOf(all []sending, id fencerow.CorrelationID) []sending {
	var out []sending
	for _, s := range all {
		if s.id == id {
			out = append(out, s)
		}
	}
	return out
}
