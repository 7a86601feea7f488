package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fourblocks2020/fencerow"
)

// Whatever a line holds: it is refused with a plain text, or its payload is a part of it as it stands, and
// the entry exported from an old row of the same content is the same entry.
func FuzzEntryLine(f *testing.F) {
	for _, seed := range []string{
		line("a"), `{}`, `{"payload":{}}`,
		`{"payload": {"a":1,"a":2} ,"correlation_id":"\u0061","entry_kind":"fill"}`,
		`{"correlation_id":"a","entry_kind":"fill","payload":{"a":"\u0000"},"skip":true,"slot_id":null}`,
		`{"a":1}`, `{"correlation_id":"a","correlation_id":"b"}`, "{\"correlation_id\":\"\xff\"}",
		`{"cash_delta":"-1.50"}`,
		`{"correlation_id":"a","entry_kind":"fill","payload":{"a":"` + "\u009b31m\x7f" + `"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		text = bytes.TrimSpace(text)
		e, err := parseEntryLine(text)
		if err != nil {
			printable := func(r rune) bool { return r >= ' ' && r <= '~' }
			if strings.ContainsFunc(err.Error(), func(r rune) bool { return !printable(r) }) {
				t.Errorf("refused with %q", err)
			}
			return
		}
		if !bytes.Contains(text, e.Payload) {
			t.Errorf("the payload %q is not a part of the line", e.Payload)
		}
		old := fencerow.LegacyEntry{
			CorrelationID: string(e.CorrelationID), EntryKind: e.EntryKind, SlotID: optional(e.SlotID),
			CashDelta: e.CashDelta.String(), Currency: optional(e.Currency), Payload: e.Payload,
		}
		exported, problems := exportLine(&old)
		again, err := parseEntryLine(exported)
		if err != nil {
			t.Fatalf("the exported line %s is refused: %v", exported, err)
		}
		again.OpenSkip, again.TraceParent = e.OpenSkip, e.TraceParent // an old row has none
		was := fencerow.Entry{
			CorrelationID: e.CorrelationID, EntryKind: e.EntryKind, SlotID: e.SlotID, CashDelta: e.CashDelta,
			Currency: e.Currency, Payload: e.Payload,
		}
		if was.SameContent(&again) != (len(problems) == 0) {
			t.Errorf("exported as %s, with the problems %q", exported, problems)
		}
	})
}

func TestExportedLineObeysNoTerminal(t *testing.T) {
	t.Parallel()
	hostile := "\x1b[31m\x7f\u009b31m\u202e원🙂\xff\"\\\n"
	line, problems := exportLine(&fencerow.LegacyEntry{
		CorrelationID: hostile, EntryKind: hostile, SlotID: &hostile, CashDelta: "NaN", Currency: &hostile,
		Payload: []byte("{\n\"a\":\"\u009b31m\x7f 원\"\r\n}"),
	})
	head, payload, found := bytes.Cut(line, []byte(`"payload":`))
	if !found || bytes.ContainsFunc(head, func(r rune) bool { return r < ' ' || r > '~' }) {
		t.Errorf("the line begins %q", head)
	}
	if want := `{ "a":"\u009b31m\u007f 원"  }}`; string(payload) != want {
		t.Errorf("the payload is %q, want %q", payload, want)
	}
	if len(problems) != 2 || !utf8.Valid(line) {
		t.Errorf("problems: %q", problems)
	}
}
