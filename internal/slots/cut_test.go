package slots

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/badinput"
	"github.com/fourblocks2020/fencerow/internal/observe"
)

const cutFlips = 2000

func TestARequestCutAtAnyByteIsRefused(t *testing.T) {
	t.Parallel()
	cuts := 0
	for _, whole := range []string{
		string(Request{Instance: "desk-1", Spy: true}.Document()),
		` { "spy" : false , "instance_key" : "desk\u002d1" }`,
	} {
		if _, err := ParseRequest([]byte(whole)); err != nil {
			t.Fatal(err)
		}
		for document := range badinput.Cuts(whole) {
			cuts++
			_, err := ParseRequest([]byte(document))
			if input, ok := errors.AsType[*fencerow.InputError](err); !ok || input.Field != "the request" {
				t.Errorf("%q: %v", document, err)
			}
			if line := InputRefusal(err); !json.Valid(line) || strings.Contains(string(line), "desk") {
				t.Errorf("%q is answered with %q", document, line)
			}
		}
	}
	t.Logf("%d cut requests refused", cuts)
}

// A request with one byte changed asks for what it says, or is refused.
func TestARequestWithAnyByteChangedIsReadAsItStands(t *testing.T) {
	t.Parallel()
	taken := 0
	whole := string(Request{Instance: "desk-1", Spy: true}.Document())
	for document := range badinput.Flips(whole, 1, cutFlips) {
		got, err := ParseRequest([]byte(document))
		if err != nil {
			continue
		}
		taken++
		var want Request
		d := json.NewDecoder(strings.NewReader(document))
		d.DisallowUnknownFields()
		if d.Decode(&want) != nil || got != want {
			t.Errorf("%q is read as %+v, want %+v", document, got, want)
		}
	}
	t.Logf("%d requests with one byte changed, %d of them are requests", cutFlips, taken)
}

// wholeAnswer is an answer with all that there can be in one.
func wholeAnswer() string {
	strategy, currency, balance, version, age := "trend", "EUR", "12.5", int64(7), 1.5
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	return string(render(&Document{
		Instance: "desk-1", Slots: []Slot{{
			SlotID: "slot-1", Strategy: &strategy, Currency: &currency, CashBalance: &balance, LedgerVersion: &version,
			PendingCash: []Cash{{Currency: "EUR", Pending: "1", PendingCount: 1, Blocked: "0"}}, UpdatedAt: &at,
		}},
		Spy: &Spy{Worker: "w", OldestDueAgeSec: &age, Metrics: observe.Metrics{
			Available: true, Scope: "process_lifetime", InstanceKey: "desk-1", Claims: &observe.ClaimTotals{},
			Outcomes: &observe.OutcomeTotals{},
		}},
	}))
}

func TestAnAnswerCutAtAnyByteIsNone(t *testing.T) {
	t.Parallel()
	cuts := 0
	for _, whole := range []string{wholeAnswer(), string(Refusal(fencerow.ErrStoreBusy))} {
		request := Request{Instance: "desk-1", Spy: true}
		if _, err := ReadAnswer("op", request, []byte(whole)); errors.Is(err, ErrAnswerUnreadable) {
			t.Fatal(err)
		}
		for answer := range badinput.Cuts(strings.TrimSuffix(whole, "\n")) {
			cuts++
			doc, err := ReadAnswer("op", request, []byte(answer))
			if doc != nil || !errors.Is(err, ErrAnswerUnreadable) {
				t.Errorf("%q is read as %+v, %v", answer, doc, err)
			}
		}
	}
	t.Logf("%d cut answers, none of them is one", cuts)
}

// What an answer with one byte changed is read as, a daemon could have said.
func TestAnAnswerWithAnyByteChangedIsPlainAndWhole(t *testing.T) {
	t.Parallel()
	read := 0
	whole := wholeAnswer()
	for answer := range badinput.Flips(whole, 2, cutFlips) {
		doc, err := ReadAnswer("op", Request{Instance: "desk-1", Spy: true}, []byte(answer))
		switch {
		case err != nil && !errors.Is(err, ErrAnswerUnreadable):
			t.Errorf("%q: %v", answer, err)
		case err == nil && (doc.Instance != "desk-1" || doc.Spy == nil || !doc.plain() || !doc.whole()):
			t.Errorf("%q is read as %+v", answer, doc)
		case err == nil:
			read++
		}
	}
	t.Logf("%d answers with one byte changed, %d of them can be read", cutFlips, read)
}
