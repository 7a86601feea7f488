package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/jsonwalk"
	"github.com/fourblocks2020/fencerow/internal/jsonwalk/walktest"
)

// A line is an entry exactly where a reading by encoding/json, member by member, says so, and the same one;
// what is refused is refused in a text of ours. The payload is a part of the line as it stands, and the entry
// exported from an old row of the same content is the same entry.
func FuzzEntryLine(f *testing.F) {
	const rest = `,"entry_kind":"fill","payload":{}}`
	for _, seed := range []string{
		line("a"), `{}`, `{"payload":{}}`, "", "null", `["a"]`, `"a"`,
		`{"payload": {"a":1,"a":2} ,"correlation_id":"\u0061","entry_kind":"fill"}`,
		`{"correlation_id":"a","entry_kind":"fill","payload":{"a":"\u0000"},"skip":true,"slot_id":null}`,
		`{"a":1}`, `{"correlation_id":"a","correlation_id":"b"}`, "{\"correlation_id\":\"\xff\"}",
		`{"cash_delta":"-1.50"}`,
		`{"correlation_id":"a","entry_kind":"fill","payload":{"a":"` + "\u009b31m\x7f" + `"}}`,
		`{"correlation_id":"b","entry_kind":"fee","payload":{"z":123456789012345678901.10,"a":"🙂"},` +
			`"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00","skip":null}`,
		`{"correlation_id":"b","cash_delta":"1e999999999","currency":"EUR"` + rest,
		`{"correlation_id":"b","cash_delta":-1.5,"currency":"EUR"` + rest,
		`{"correlation_id":"b","cash_delta":"0.0000000000000000001","currency":"EUR"` + rest,
		`{"correlation_id":"b","cash_delta":"","currency":""` + rest,
		`{"correlation_id":"b","cash_delta":"3"` + rest,
		`{"correlation_id":"b","traceparent":"00-","skip":"true"` + rest, `{"Correlation_Id":"b"` + rest,
		`{"correlation_id":"b` + "\x00" + `"` + rest, `{"correlation_id":"b\u0000"` + rest,
		`{"correlation_id":1` + rest,
		`{"correlation_id":"b","payload\u0020":1` + rest,
		`{"correlation_id":"b","entry_kind":"fill","payload":null}`,
		`{"correlation_id":"b","entry_kind":"fill","payload":{"a":`,
		`{"correlation_id":"b","correlation_id":"b"` + rest,
		`{"correlation_id":"b","skip":false,"skip":true` + rest,
		`{"correlation_id":"b","payload":{}` + rest,
		`{"correlation_id":"b","entry_kind":"fill","payload":{"a":"` + "\xc3" + `"}}`,
		`{"correlation_id":"b","entry_kind":"fill","payload":` + strings.Repeat(`{"a":`, 520) + "1" +
			strings.Repeat("}", 521),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		text = bytes.TrimSpace(text)
		e, err := parseEntryLine(text)
		want, ok := plainEntry(text)
		if (err == nil) != ok {
			t.Fatalf("got %+v, %v, want %+v, %v", e, err, want, ok)
		}
		if err != nil {
			refusedInOurWords(t, err)
			return
		}
		if !contentOf(e).SameContent(&want) || e.OpenSkip != want.OpenSkip || e.TraceParent != want.TraceParent {
			t.Fatalf("got %+v, want %+v", e, want)
		}
		if !bytes.Contains(text, e.Payload) {
			t.Errorf("the payload %q is not a part of the line", e.Payload)
		}
		exportsAsItself(t, e)
	})
}

// plainEntry reads an entry member by member, with encoding/json alone.
func plainEntry(text []byte) (e fencerow.NewEntry, ok bool) {
	members, ok := walktest.Members(text, jsonwalk.MaxDepth)
	if !ok {
		return e, false
	}
	texts := map[string]*string{"correlation_id": nil, "entry_kind": nil, "slot_id": nil, "cash_delta": nil,
		"currency": nil, "traceparent": nil}
	seen := map[string]bool{}
	for _, m := range members {
		twice := seen[m.Name]
		seen[m.Name] = true
		var err error
		switch text, known := texts[m.Name]; {
		case twice:
			return e, false
		case known:
			err = json.Unmarshal(m.Value, &text)
			if texts[m.Name] = text; !utf8.Valid(m.Value) {
				return e, false
			}
		case m.Name == "skip":
			var skip *bool
			err = json.Unmarshal(m.Value, &skip)
			e.OpenSkip = skip != nil && *skip
		case m.Name == "payload":
			e.Payload = m.Value
		default:
			return e, false
		}
		if err != nil {
			return e, false
		}
	}
	given := func(name string) string {
		if texts[name] == nil {
			return ""
		}
		return *texts[name]
	}
	for _, name := range []string{"slot_id", "currency", "traceparent", "cash_delta"} {
		if texts[name] != nil && *texts[name] == "" {
			return e, false
		}
	}
	e.CorrelationID, e.EntryKind = fencerow.CorrelationID(given("correlation_id")), given("entry_kind")
	e.SlotID, e.Currency = fencerow.SlotID(given("slot_id")), given("currency")
	e.TraceParent = given("traceparent")
	if amount := given("cash_delta"); amount != "" {
		var err error
		if e.CashDelta, err = fencerow.ParseDecimal("cash_delta", amount); err != nil {
			return e, false
		}
	}
	return e, e.Validate() == nil
}

// refusedInOurWords demands a text that names a member and holds nothing that a terminal would obey.
func refusedInOurWords(t *testing.T, err error) {
	t.Helper()
	input, ok := errors.AsType[*fencerow.InputError](err)
	if !ok || !slices.Contains([]string{"the line", "correlation_id", "entry_kind", "slot_id", "cash_delta",
		"currency", "payload", "traceparent", "skip"}, input.Field) {
		t.Errorf("refused with %q", err)
	}
	if strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' || r > '~' }) {
		t.Errorf("refused with %q", err)
	}
}

func contentOf(e fencerow.NewEntry) *fencerow.Entry {
	return &fencerow.Entry{
		CorrelationID: e.CorrelationID, EntryKind: e.EntryKind, SlotID: e.SlotID, CashDelta: e.CashDelta,
		Currency: e.Currency, Payload: e.Payload,
	}
}

// exportsAsItself demands that the entry, kept as an old row and exported from there, is read as itself,
// unless the export says that its payload could not be kept as it is.
func exportsAsItself(t *testing.T, e fencerow.NewEntry) {
	t.Helper()
	exported, problems := exportLine(&fencerow.LegacyEntry{
		CorrelationID: string(e.CorrelationID), EntryKind: e.EntryKind, SlotID: optional(e.SlotID),
		CashDelta: e.CashDelta.String(), Currency: optional(e.Currency), Payload: e.Payload,
	})
	again, err := parseEntryLine(exported)
	if err != nil {
		t.Fatalf("the exported line %s is refused: %v", exported, err)
	}
	if contentOf(e).SameContent(&again) != (len(problems) == 0) {
		t.Errorf("exported as %s, with the problems %q", exported, problems)
	}
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
