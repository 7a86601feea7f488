package storetest

import (
	"bytes"
	"strings"

	"github.com/shopspring/decimal"

	"github.com/fourblocks2020/fencerow"
)

func contentCases() []testCase {
	return []testCase{
		{"PayloadComesOutByteForByte", payloadComesOutByteForByte},
		{"DocumentIsTheSameOnEveryAttempt", documentIsTheSameOnEveryAttempt},
		{"EveryFieldComesOutAsItWentIn", everyFieldComesOut},
		{"BytesBelongToTheirCaller", bytesBelongToTheirCaller},
	}
}

// payloads are JSON objects that a parser that keeps values instead of bytes would change.
func payloads() map[string]string {
	return map[string]string{
		"keys not in order":     `{"z":1,"a":2,"m":3}`,
		"key twice":             `{"a":1,"a":2}`,
		"big number":            `{"n":123456789012345678901234567890.123456789012345678901234567890}`,
		"exponent":              `{"n":1E+0400,"m":-0.0,"k":1.10}`,
		"escaped NUL":           `{"s":"\u0000","t":"\u0041"}`,
		"lone surrogate escape": `{"s":"\ud83d"}`,
		"emoji":                 `{"s":"🦊 ü 한국어","é":1}`,
		"space everywhere":      " \t\r\n{ \"a\" :\n[ 1 , 2 ]\t} \n",
		"empty object":          `{}`,
		"slashes and markup":    `{"s":"<b>\/&\u003c\\\"'</b>"}`,
		"nested to the limit": `{"a":` + strings.Repeat("[", fencerow.MaxPayloadDepth-1) +
			strings.Repeat("]", fencerow.MaxPayloadDepth-1) + `}`,
		"as long as allowed": `{"s":"` + strings.Repeat("x", fencerow.MaxPayload-8) + `"}`,
	}
}

func payloadComesOutByteForByte(s *scene) {
	sent := make(map[fencerow.OutboxID]string)
	var refs []ref
	for name, payload := range payloads() {
		n := plain(fencerow.CorrelationID(strings.ReplaceAll(name, " ", "-")))
		n.Payload = []byte(payload)
		r := s.put(n)[0]
		refs = append(refs, r)
		sent[r.id] = payload
	}
	for attempt := range 3 {
		c := s.claimAll(refs...)
		for i := range c.Entries {
			if e := &c.Entries[i]; string(e.Payload) != sent[e.OutboxID] {
				s.Errorf("attempt %d: payload of %s came out changed", attempt+1, e.CorrelationID)
			}
		}
		if attempt == 0 {
			s.releaseAll(c, false)
			continue
		}
		for _, r := range refs {
			s.apply(c, retry(r, 0))
		}
	}
	for _, r := range refs {
		if state := s.show(r); string(state.Entry.Payload) != sent[r.id] {
			s.Errorf("show: payload of %s came out changed", r.corr)
		}
	}
}

func documentIsTheSameOnEveryAttempt(s *scene) {
	n := money("a", "slot-1", "-0.100", "EUR")
	n.Payload = []byte(`{"b":1, "a":2}`)
	r := s.put(n)[0]
	want := `{"instance_key":"` + string(s.key) + `","correlation_id":"a","entry_kind":"fill",` +
		`"slot_id":"slot-1","currency":"EUR","cash_delta":"-0.1","payload":{"b":1, "a":2}}`
	check := func(c *fencerow.Claim, when string) {
		s.Helper()
		if got := string(s.claimed(c, r).AppendDocument(nil)); got != want {
			s.Errorf("%s: document %s, want %s", when, got, want)
		}
	}
	c := s.one(r)
	check(c, "first attempt")
	s.apply(c, retry(r, 0))
	c = s.one(r)
	check(c, "second attempt")
	s.world.Advance(lease + tolerance)
	c = s.one(r)
	check(c, "after expiry")
	s.apply(c, outcome(r, fencerow.OutcomeConflictBlocked))
	s.requeue(r, fencerow.StatusConflictBlocked)
	check(s.one(r), "second life")
}

func everyFieldComesOut(s *scene) {
	longKey := fencerow.CorrelationID("!~" + strings.Repeat("c", fencerow.MaxCorrelationID-2))
	entries := []fencerow.NewEntry{
		money("largest", "", strings.Repeat("9", 20)+"."+strings.Repeat("9", 18), "ABCDEFGHIJKL"),
		money("whole", "", "-"+strings.Repeat("9", 38), "A1B"),
		money("smallest", "", "-0."+strings.Repeat("0", 17)+"1", "USD"),
		money("zero-with-currency", "s", "0", "USD"),
		money("zeros", "s", "-100.000", "USD"),
		money(longKey, fencerow.SlotID(strings.Repeat("s", fencerow.MaxSlotID)), "1", "USD"),
		money("quotes", `a"b\c'd`, "1", "USD"),
	}
	power := plain("power")
	power.CashDelta, power.Currency = decimal.New(12, 3), "USD"
	kind := plain("kind")
	kind.EntryKind = "a" + strings.Repeat("_9", fencerow.MaxEntryKind/2)
	entries = append(entries, power, kind)
	refs := s.put(entries...)
	c := s.claimAll(refs...)
	for i, r := range refs {
		e := &s.claimed(c, r).Entry
		if !e.SameContent(&entries[i]) || e.CorrelationID != entries[i].CorrelationID {
			s.Errorf("%s: claimed %+v, want %+v", r.corr, *e, entries[i])
		}
		// Equal numbers have equal text, whichever way they were written.
		want := fencerow.CanonicalDecimal(entries[i].CashDelta).String()
		if got := e.CashDelta.String(); got != want {
			s.Errorf("%s: cash delta %s, want %s", r.corr, got, want)
		}
		shown := s.show(r).Entry
		if !shown.SameContent(&entries[i]) || !shown.EnqueuedAt.Equal(e.EnqueuedAt) {
			s.Errorf("%s: shown %+v, want %+v", r.corr, shown, *e)
		}
	}
}

func bytesBelongToTheirCaller(s *scene) {
	n := plain("a")
	n.Payload = []byte(`{"n":1}`)
	entries := []fencerow.NewEntry{n}
	r := s.put(entries...)[0]
	clear(n.Payload)
	c := s.one(r)
	if got := string(c.Entries[0].Payload); got != `{"n":1}` {
		s.Fatalf("the store kept the producer's slice: %q", got)
	}
	clear(c.Entries[0].Payload)
	clear(s.show(r).Entry.Payload)
	if got := s.show(r).Entry.Payload; !bytes.Equal(got, []byte(`{"n":1}`)) {
		s.Errorf("the store gave its own slice away: %q", got)
	}
	sent := []fencerow.Outcome{outcome(r, fencerow.OutcomeCompleted)}
	kept := sent[0]
	s.apply(c, sent...)
	if sent[0] != kept {
		s.Errorf("the store changed the caller's outcomes")
	}
}
