package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"

	"github.com/shopspring/decimal"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/ledger"
	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
)

// sample is an entry, what the stub ledger does with it, and what has to come of it.
type sample struct {
	entry fencerow.NewEntry
	// story tells people what the ledger does.
	story string
	// fault is what happens to its first deliveries, as many as faults; to all of them if that is 0. Without a
	// mode, none fails.
	fault  ledgerstub.Fault
	faults int64
	// elsewhere has somebody else book other content under its key before.
	elsewhere bool

	outcome fencerow.OutcomeKind
	sends   int
	booked  bool // with this content
}

// devAttempts is after how many attempts an entry is dead-lettered.
const devAttempts = 3

func newSample(id, kind, slot, amount, currency string) sample {
	return sample{
		entry: fencerow.NewEntry{
			CorrelationID: fencerow.CorrelationID(id), EntryKind: kind, SlotID: fencerow.SlotID(slot),
			CashDelta: decimal.RequireFromString(amount), Currency: currency,
			Payload: []byte(fmt.Sprintf(`{"source": "sample", "id": %q, "amount": %s}`, id, amount)),
		},
		story: "books it", outcome: fencerow.OutcomeCompleted, sends: 1, booked: true,
	}
}

// samples are the entries of `fencerow dev`: mostly everyday ones, and one for each way that a delivery can
// go wrong.
func samples() []sample {
	const europe, america = "momentum-eu", "carry-us"
	skipped := newSample("fill-1003", "fill", europe, "88.05", "EUR")
	skipped.entry.OpenSkip = true
	skipped.story = "books it; the slot had skipped a step for want of it"

	failsOnce := newSample("fee-2002", "fee", america, "-1.25", "USD")
	failsOnce.story = "answers 500 once, then books it"
	failsOnce.fault, failsOnce.faults = ledgerstub.Fault{Mode: ledgerstub.ModeStatus, Status: 500}, 1
	failsOnce.sends = 2

	answerLost := newSample("dividend-2003", "dividend", america, "42.10", "USD")
	answerLost.story = "books it and cuts the line; the retry finds it booked"
	answerLost.fault, answerLost.faults = ledgerstub.Fault{Mode: ledgerstub.ModeCut, Commit: true}, 1
	answerLost.outcome, answerLost.sends = fencerow.OutcomeDuplicateCompleted, 2

	conflict := newSample("fill-3001", "fill", america, "-77.70", "USD")
	conflict.story = "has other content under this key"
	conflict.elsewhere = true
	conflict.outcome, conflict.booked = fencerow.OutcomeConflictBlocked, false

	refused := newSample("fill-3002", "fill", europe, "-5.00", "EUR")
	refused.story = "refuses its content for good (422)"
	refused.fault = ledgerstub.Fault{Mode: ledgerstub.ModeStatus, Status: 422}
	refused.outcome, refused.booked = fencerow.OutcomePermanentFailure, false

	poison := newSample("rebate-3003", "rebate", "", "3.00", "EUR")
	poison.story = "answers 425 to it every time"
	poison.fault = ledgerstub.Fault{Mode: ledgerstub.ModeStatus, Status: 425}
	poison.outcome, poison.sends, poison.booked = fencerow.OutcomeDeadLettered, devAttempts, false

	return []sample{
		newSample("fill-1001", "fill", europe, "-1250.40", "EUR"),
		newSample("fill-1002", "fill", europe, "310.00", "EUR"),
		skipped,
		newSample("fill-2001", "fill", america, "-990.50", "USD"),
		failsOnce, answerLost, conflict, refused, poison,
	}
}

// prepare tells the stub what to do with the samples.
func (s *stage) prepare(ctx context.Context) error {
	for i := range s.samples {
		sample := &s.samples[i]
		key := ledger.IdempotencyKey(s.instance, sample.entry.CorrelationID)
		if sample.fault.Mode != "" {
			rule := ledgerstub.Rule{Key: key, Count: sample.faults, Fault: sample.fault}
			if _, err := s.stub.AddRule(rule); err != nil {
				return failure("the stub ledger refuses a rule")
			}
		}
		if sample.elsewhere {
			other := fencerow.Entry{
				Instance: s.instance, CorrelationID: sample.entry.CorrelationID, EntryKind: "other",
				Payload: []byte(`{"source": "somebody else"}`),
			}
			if err := book(ctx, s.base+ledgerstub.EntriesPath, key, other.AppendDocument(nil)); err != nil {
				return err
			}
		}
	}
	return nil
}

// book posts a document to the ledger past fencerow.
func book(ctx context.Context, url, key string, document []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(document))
	if err != nil {
		return failure("the stub ledger cannot be asked")
	}
	request.Header.Set("Idempotency-Key", key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return failure("the stub ledger does not answer")
	}
	defer response.Body.Close() //nolint:errcheck // nothing of it is needed
	if response.StatusCode != http.StatusCreated {
		return failure("the stub ledger answers %d", response.StatusCode)
	}
	return nil
}
