package storetest

import (
	"strings"

	"github.com/shopspring/decimal"

	"github.com/fourblocks2020/fencerow"
)

func malformedEntry(s *scene) {
	for what, change := range map[string]func(*fencerow.NewEntry){
		"no correlation id":   func(n *fencerow.NewEntry) { n.CorrelationID = "" },
		"correlation id":      func(n *fencerow.NewEntry) { n.CorrelationID = sentinel + " " },
		"long correlation id": func(n *fencerow.NewEntry) { n.CorrelationID = tooLong },
		"no kind":             func(n *fencerow.NewEntry) { n.EntryKind = "" },
		"kind":                func(n *fencerow.NewEntry) { n.EntryKind = "Fill" + sentinel },
		"long kind": func(n *fencerow.NewEntry) {
			n.EntryKind = strings.Repeat("k", fencerow.MaxEntryKind+1)
		},
		"slot": func(n *fencerow.NewEntry) { n.SlotID = sentinel + "\x00" },
		"long slot": func(n *fencerow.NewEntry) {
			n.SlotID = fencerow.SlotID(strings.Repeat("s", fencerow.MaxSlotID+1))
		},
		"delta without currency": func(n *fencerow.NewEntry) { n.CashDelta = decimal.New(1, 0) },
		"long delta": func(n *fencerow.NewEntry) {
			n.CashDelta, n.Currency = decimal.New(1, 38), "USD"
		},
		"deep delta": func(n *fencerow.NewEntry) {
			n.CashDelta, n.Currency = decimal.New(1, -19), "USD"
		},
		"endless delta": func(n *fencerow.NewEntry) {
			n.CashDelta, n.Currency = decimal.New(1, 1<<30), "USD"
		},
		"currency":        func(n *fencerow.NewEntry) { n.Currency = "usd" },
		"short currency":  func(n *fencerow.NewEntry) { n.Currency = "US" },
		"long currency":   func(n *fencerow.NewEntry) { n.Currency = "ABCDEFGHIJKLM" },
		"traceparent":     func(n *fencerow.NewEntry) { n.TraceParent = sentinel },
		"no payload":      func(n *fencerow.NewEntry) { n.Payload = nil },
		"array":           func(n *fencerow.NewEntry) { n.Payload = []byte(`["` + sentinel + `"]`) },
		"not JSON":        func(n *fencerow.NewEntry) { n.Payload = []byte(`{"` + sentinel) },
		"NUL":             func(n *fencerow.NewEntry) { n.Payload = []byte("{\"a\":\"\x00" + sentinel + "\"}") },
		"invalid UTF-8":   func(n *fencerow.NewEntry) { n.Payload = []byte("{\"a\":\"\xff" + sentinel + "\"}") },
		"byte order mark": func(n *fencerow.NewEntry) { n.Payload = []byte("\ufeff{}") },
		"space alone":     func(n *fencerow.NewEntry) { n.Payload = []byte("   ") },
		"payload too large": func(n *fencerow.NewEntry) {
			n.Payload = []byte(`{"s":"` + strings.Repeat("x", fencerow.MaxPayload-7) + `"}`)
		},
		"payload too deep": func(n *fencerow.NewEntry) {
			n.Payload = []byte(`{"a":` + strings.Repeat("[", fencerow.MaxPayloadDepth) +
				strings.Repeat("]", fencerow.MaxPayloadDepth) + `}`)
		},
	} {
		n := plain("x")
		change(&n)
		got, err := s.enqueue(n)
		s.badInput(what, got, err)
	}
	if c := s.claim(1); len(c.Entries) != 0 {
		s.Errorf("a malformed entry was written: %+v", c.Entries[0].Entry)
	}
}

func malformedOutcome(s *scene) {
	r := s.fill(1)[0]
	c := s.one(r)
	before := s.picture(r)
	success, failure := outcome(r, fencerow.OutcomeCompleted), retry(r, 0)
	for what, o := range map[string]fencerow.Outcome{
		"no row":                  with(success, func(o *fencerow.Outcome) { o.OutboxID = 0 }),
		"row below zero":          with(success, func(o *fencerow.Outcome) { o.OutboxID = -r.id }),
		"no outcome":              with(success, func(o *fencerow.Outcome) { o.Kind = "" }),
		"unknown outcome":         with(success, func(o *fencerow.Outcome) { o.Kind = sentinel }),
		"no reason":               with(failure, func(o *fencerow.Outcome) { o.Reason = "" }),
		"text for a reason":       with(failure, func(o *fencerow.Outcome) { o.Reason = "it broke: " + sentinel }),
		"reason too long":         with(failure, func(o *fencerow.Outcome) { o.Reason = tooLong }),
		"text for the success":    with(success, func(o *fencerow.Outcome) { o.Reason = "It worked " + sentinel }),
		"delay below zero":        with(failure, func(o *fencerow.Outcome) { o.Delay = -1 }),
		"delay too long":          with(failure, func(o *fencerow.Outcome) { o.Delay = fencerow.MaxDelay + 1 }),
		"delay of a success":      with(success, func(o *fencerow.Outcome) { o.Delay = 1 }),
		"charge of 2":             with(failure, func(o *fencerow.Outcome) { o.Charge = 2 }),
		"charge of -2":            with(failure, func(o *fencerow.Outcome) { o.Charge = -2 }),
		"snapshot of a failure":   with(failure, func(o *fencerow.Outcome) { o.Snapshot = &fencerow.Snapshot{} }),
		"dead letter, no reason":  {OutboxID: r.id, Kind: fencerow.OutcomeDeadLettered},
		"reason of capitals only": with(failure, func(o *fencerow.Outcome) { o.Reason = "LEDGER" }),
	} {
		verdicts, err := s.store.RecordOutcomes(s.Context(), fencerow.RecordParams{
			Instance: s.key, Token: c.Token, Outcomes: []fencerow.Outcome{o},
		})
		s.badInput(what, verdicts, err)
	}
	s.unchanged(before, s.picture(r))
}
