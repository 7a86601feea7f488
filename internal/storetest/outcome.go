package storetest

import (
	"strings"
	"time"

	"github.com/fourblocks2020/fencerow"
)

func outcomeCases() []testCase {
	return []testCase{
		{"TerminalOutcomeEndsLifeAndLease", terminalOutcomeEndsLifeAndLease},
		{"RetryableOutcomeEndsTheLeaseOnly", retryableOutcomeEndsTheLeaseOnly},
		{"ChargeDecidesWhatARetryCosts", chargeDecidesWhatARetryCosts},
		{"TerminalOutcomeAlwaysCountsItsAttempt", terminalAlwaysCounts},
		{"RecordedRowLeavesTheRestLeased", recordedRowLeavesTheRestLeased},
		{"UncertaintyIsOnlyAdded", uncertaintyIsOnlyAdded},
		{"OutcomeResetsTheExpiryCount", outcomeResetsTheExpiryCount},
		{"LedgerReferenceIsKeptOnlyIfWellFormed", ledgerReferenceIsKept},
		{"SuccessNeedsNoReason", successNeedsNoReason},
	}
}

func terminalOutcomeEndsLifeAndLease(s *scene) {
	for _, kind := range fencerow.OutcomeKinds() {
		if !kind.Terminal() {
			continue
		}
		r := s.put(plain(fencerow.CorrelationID(kind)))[0]
		s.apply(s.one(r), retry(r, 0))
		c := s.one(r)
		s.apply(c, with(outcome(r, kind), func(o *fencerow.Outcome) { o.Uncertain, o.LedgerRef = true, "ref-1" }))
		state := s.show(r)
		if state.Status != kind.Status() || state.Pending != nil || state.Lease != nil || len(state.Outcomes) != 1 {
			s.Fatalf("%s: the entry is %+v", kind, *state)
		}
		o := state.Outcomes[0]
		reason := outcome(r, kind).Reason
		if o.Life != 1 || o.Status != kind.Status() || o.Outcome != kind || o.Reason != reason || o.Attempts != 2 ||
			o.Epoch != c.Epoch || o.LedgerRef != "ref-1" || o.At.Before(c.ClaimedAt) {
			s.Errorf("%s: recorded %+v", kind, o)
		}
		if n := s.counts().ByStatus[kind.Status()]; n < 1 {
			s.Errorf("%s: counted %d", kind, n)
		}
	}
	if leases := s.claims(); len(leases) != 0 {
		s.Errorf("claims stand after their rows were finished: %+v", leases)
	}
	// Finished is finished: no expiry brings it back.
	s.world.Advance(lease + tolerance)
	s.claimAll()
	if listed := s.list(); len(listed) != 0 {
		s.Errorf("finished rows are listed as pending: %+v", listed)
	}
}

func retryableOutcomeEndsTheLeaseOnly(s *scene) {
	r := s.fill(1)[0]
	c := s.one(r)
	s.apply(c, retry(r, time.Hour))
	state := s.show(r)
	if state.Status != fencerow.StatusPending || state.Lease != nil || len(state.Outcomes) != 0 ||
		len(s.claims()) != 0 {
		s.Fatalf("the entry is %+v, want pending without a lease", *state)
	}
	p := state.Pending
	if p.Due || p.Attempts != 1 || p.Life != 1 || p.Uncertain || p.ExpiryCount != 0 ||
		p.LastOutcome != fencerow.OutcomeRetryableFailure || p.LastReason != fencerow.ReasonLedgerError {
		s.Errorf("pending %+v is not that of a failed first attempt", *p)
	}
	if wait := p.DueAt.Sub(c.ClaimedAt); !near(wait, time.Hour) {
		s.Errorf("due %v after the claim, want an hour after the record", wait)
	}
	// Without a delay it is due at once, and the lease is over for everybody.
	s.apply(s.one(r), retry(r, 0))
	if e := s.worker(s.key).claimAll(r).Entries[0]; e.Attempt != 3 || e.Reclaimed {
		s.Errorf("claimed %+v, want a third attempt", e)
	}
}

func chargeDecidesWhatARetryCosts(s *scene) {
	r := s.fill(1)[0]
	for i, step := range []struct {
		charge fencerow.Charge
		want   int
	}{
		{fencerow.ChargeGiveBack, 0},
		{fencerow.ChargeNothing, 0},
		{fencerow.ChargeAttempt, 1},
		{fencerow.ChargeAttempt, 2},
		{fencerow.ChargeNothing, 2},
		{fencerow.ChargeGiveBack, 1},
		{fencerow.ChargeGiveBack, 0},
		{fencerow.ChargeGiveBack, 0},
		{fencerow.ChargeAttempt, 1},
	} {
		s.apply(s.one(r), with(retry(r, 0), func(o *fencerow.Outcome) { o.Charge = step.charge }))
		if got := s.pending(r).Attempts; got != step.want {
			s.Errorf("step %d: charge %d left %d attempts, want %d", i, step.charge, got, step.want)
		}
	}
}

func terminalAlwaysCounts(s *scene) {
	for i, charge := range []fencerow.Charge{
		fencerow.ChargeGiveBack, fencerow.ChargeNothing, fencerow.ChargeAttempt,
	} {
		r := s.fill(1)[0]
		s.apply(s.one(r), with(outcome(r, fencerow.OutcomePermanentFailure),
			func(o *fencerow.Outcome) { o.Charge = charge }))
		if got := s.show(r).Outcomes[0].Attempts; got != 1 {
			s.Errorf("row %d: charge %d of a terminal outcome made %d attempts, want 1", i, charge, got)
		}
	}
}

func recordedRowLeavesTheRestLeased(s *scene) {
	refs := s.fill(4)
	c := s.claimAll(refs...)
	s.apply(c, outcome(refs[0], fencerow.OutcomeCompleted), retry(refs[1], 0))
	if leases := s.claims(); len(leases) != 1 || leases[0].Rows != 2 || leases[0].Epoch != c.Epoch {
		s.Errorf("claims %+v, want one with 2 rows left", leases)
	}
	b := s.worker(s.key)
	b.claimAll(refs[1])
	b.refused(refs[2].corr, true, fencerow.RefusedLeased)
	s.apply(c, outcome(refs[2], fencerow.OutcomeCompleted))
	s.apply(c, outcome(refs[3], fencerow.OutcomeConflictBlocked))
	if leases := s.claims(); len(leases) != 1 || leases[0].Epoch == c.Epoch {
		s.Errorf("claims %+v, want the other worker's only", leases)
	}
}

func uncertaintyIsOnlyAdded(s *scene) {
	r := s.fill(1)[0]
	for i, step := range []struct{ said, want bool }{{false, false}, {true, true}, {false, true}} {
		s.apply(s.one(r), with(retry(r, 0), func(o *fencerow.Outcome) { o.Uncertain = step.said }))
		if got := s.pending(r).Uncertain; got != step.want {
			s.Errorf("step %d: uncertain %v, want %v", i, got, step.want)
		}
	}
	if e := s.one(r).Entries[0]; !e.Uncertain {
		s.Errorf("the claim does not say that the row is uncertain")
	}
}

func outcomeResetsTheExpiryCount(s *scene) {
	for _, charge := range []fencerow.Charge{
		fencerow.ChargeNothing, fencerow.ChargeAttempt, fencerow.ChargeGiveBack,
	} {
		r := s.fill(1)[0]
		s.one(r)
		s.world.Advance(lease + tolerance)
		c := s.one(r)
		if got := s.pending(r).ExpiryCount; got != 1 {
			s.Fatalf("expiry count %d, want 1", got)
		}
		s.apply(c, with(retry(r, 0), func(o *fencerow.Outcome) { o.Charge = charge }))
		if p := s.pending(r); p.ExpiryCount != 0 || p.LastReason != fencerow.ReasonLedgerError {
			s.Errorf("charge %d: pending %+v, want no expiries in a row", charge, *p)
		}
		s.finish(r, fencerow.OutcomeCompleted)
	}
}

func ledgerReferenceIsKept(s *scene) {
	for given, want := range map[string]string{
		"":                                 "",
		"A-1.b_2:c":                        "A-1.b_2:c",
		strings.Repeat("r", 64):            strings.Repeat("r", 64),
		strings.Repeat("r", 65):            "",
		"two words":                        "",
		"line\nline":                       "",
		"\x00":                             "",
		"\xff\xfe":                         "",
		"\x1b[31m" + sentinel:              "",
		"ü":                                "",
		strings.Repeat("megabyte", 1<<17):  "",
		"https://ledger.example/a?token=b": "",
	} {
		r := s.fill(1)[0]
		s.apply(s.one(r), with(outcome(r, fencerow.OutcomeCompleted),
			func(o *fencerow.Outcome) { o.LedgerRef = given }))
		if got := s.show(r).Outcomes[0].LedgerRef; got != want {
			s.Errorf("reference %.20q was stored as %.20q", given, got)
		}
	}
}

func successNeedsNoReason(s *scene) {
	refs := s.fill(2)
	c := s.claimAll(refs...)
	resolved := outcome(refs[1], fencerow.OutcomeDuplicateCompleted)
	resolved.Reason = fencerow.ReasonResolvedEqual
	s.apply(c, outcome(refs[0], fencerow.OutcomeCompleted), resolved)
	if got := s.show(refs[0]).Outcomes[0].Reason; got != "" {
		s.Errorf("reason %q, want none", got)
	}
	if got := s.show(refs[1]).Outcomes[0].Reason; got != fencerow.ReasonResolvedEqual {
		s.Errorf("reason %q, want that it was resolved", got)
	}
}
