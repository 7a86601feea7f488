package fencerow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/shopspring/decimal"

	"github.com/fourblocks2020/fencerow/internal/jsonwalk/walktest"
)

func ExampleEntry_AppendDocument() {
	e := Entry{
		Instance: "fx-1", CorrelationID: "order-7", EntryKind: "fee", Payload: json.RawMessage(`{"b": 1, "a": 2}`),
	}
	before, after, _ := strings.Cut(string(e.AppendDocument(nil)), `,"slot_id"`)
	fmt.Println(before)
	fmt.Println(after)
	// Output:
	// {"instance_key":"fx-1","correlation_id":"order-7","entry_kind":"fee"
	// :null,"currency":null,"cash_delta":"0","payload":{"b": 1, "a": 2}}
}

func TestDocumentSaysNullForWhatIsAbsent(t *testing.T) {
	t.Parallel()
	e := Entry{Instance: "i", CorrelationID: "c", EntryKind: "fee", Payload: json.RawMessage(`{}`)}
	want := `{"instance_key":"i","correlation_id":"c","entry_kind":"fee","slot_id":null,"currency":null,` +
		`"cash_delta":"0","payload":{}}`
	if got := string(e.AppendDocument(nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := string(e.AppendDocument([]byte("before "))); got != "before "+want {
		t.Errorf("appended: %s", got)
	}
}

// The document must be the same however the number was written when it was enqueued, and however a store
// gives it back.
func TestEqualNumbersHaveEqualDocuments(t *testing.T) {
	t.Parallel()
	for _, tc := range [][]decimal.Decimal{
		{decimal.RequireFromString("1.5"), decimal.RequireFromString("1.500"), decimal.New(15, -1),
			decimal.New(1500000, -6)},
		{decimal.RequireFromString("1000"), decimal.New(1, 3), decimal.RequireFromString("1000.00")},
		{{}, decimal.RequireFromString("-0.00"), decimal.New(0, -18), decimal.New(0, 5)},
	} {
		first := (&Entry{CashDelta: tc[0]}).AppendDocument(nil)
		for _, d := range tc[1:] {
			if got := (&Entry{CashDelta: d}).AppendDocument(nil); !bytes.Equal(got, first) {
				t.Errorf("%s and %s differ", got, first)
			}
			if a, b := CanonicalDecimal(d).String(), CanonicalDecimal(tc[0]).String(); a != b {
				t.Errorf("canonical %s and %s differ", a, b)
			}
		}
	}
}

func TestSameContentComparesAllButTraceAndSkip(t *testing.T) {
	t.Parallel()
	n := NewEntry{
		CorrelationID: "c", EntryKind: "fill", SlotID: "s", CashDelta: decimal.New(15, -1), Currency: "EUR",
		Payload: json.RawMessage(`{"a":1}`),
	}
	e := Entry{
		OutboxID: 1, Instance: "i", CorrelationID: n.CorrelationID, EntryKind: n.EntryKind, SlotID: n.SlotID,
		CashDelta: decimal.RequireFromString("1.500"), Currency: n.Currency, Payload: json.RawMessage(`{"a":1}`),
		TraceParent: "t",
	}
	for name, tc := range map[string]struct {
		change func(*NewEntry)
		want   bool
	}{
		"nothing":        {func(*NewEntry) {}, true},
		"trace":          {func(n *NewEntry) { n.TraceParent = "other" }, true},
		"skip":           {func(n *NewEntry) { n.OpenSkip = true }, true},
		"trailing zeros": {func(n *NewEntry) { n.CashDelta = decimal.New(1500, -3) }, true},
		"correlation id": {func(n *NewEntry) { n.CorrelationID = "d" }, false},
		"kind":           {func(n *NewEntry) { n.EntryKind = "fee" }, false},
		"slot":           {func(n *NewEntry) { n.SlotID = "" }, false},
		"delta":          {func(n *NewEntry) { n.CashDelta = n.CashDelta.Neg() }, false},
		"currency":       {func(n *NewEntry) { n.Currency = "USD" }, false},
		"payload bytes":  {func(n *NewEntry) { n.Payload = json.RawMessage(`{"a": 1}`) }, false},
	} {
		changed := n
		tc.change(&changed)
		if got := e.SameContent(&changed); got != tc.want {
			t.Errorf("%s changed: same %v, want %v", name, got, tc.want)
		}
	}
}

// Whatever passes validation makes one JSON document that holds the fields as they were given, in one order,
// and the payload byte for byte.
func FuzzDocument(f *testing.F) {
	f.Add("i", "c", "fill", "s", "-12.50", "EUR", `{"a": 1}`)
	f.Add(`"\`, `a"b`, "fee", `\\`, "0", "", ` {"z":1,"z":2} `)
	f.Add("~", "!", "k", "", "99999999999999999999.999999999999999999", "A1B", `{"s":"\u0000\ud83d"}`)
	f.Add("a:b", "sha256:c", "fill", "/", "+007.500", "GBP", "{\"🙂\":123456789012345678901234567890.10}\n")
	f.Add("a b", "c", "fill", "s", "1", "EUR", "{}")
	f.Add("i", "c", "fill", "s", "1e5", "EUR", "{\"a\":\"\xff\"}")
	f.Fuzz(func(t *testing.T, instance, corr, kind, slot, delta, currency, payload string) {
		d, err := ParseDecimal("cash_delta", delta)
		if err != nil || InstanceKey(instance).Validate() != nil {
			return
		}
		n := NewEntry{
			CorrelationID: CorrelationID(corr), EntryKind: kind, SlotID: SlotID(slot), CashDelta: d,
			Currency: currency, Payload: json.RawMessage(payload),
		}
		if n.Validate() != nil {
			return
		}
		e := Entry{
			Instance: InstanceKey(instance), CorrelationID: n.CorrelationID, EntryKind: kind, SlotID: n.SlotID,
			CashDelta: d, Currency: currency, Payload: n.Payload,
		}
		document := e.AppendDocument(nil)
		var got struct {
			Instance string          `json:"instance_key"`
			Corr     string          `json:"correlation_id"`
			Kind     string          `json:"entry_kind"`
			Slot     *string         `json:"slot_id"`
			Currency *string         `json:"currency"`
			Delta    string          `json:"cash_delta"`
			Payload  json.RawMessage `json:"payload"`
		}
		if err := json.Unmarshal(document, &got); err != nil {
			t.Fatalf("document %q: %v", document, err)
		}
		members, _ := walktest.Members(document, 1+MaxPayloadDepth)
		var names []string
		for _, m := range members {
			names = append(names, m.Name)
		}
		if !slices.Equal(names, []string{"instance_key", "correlation_id", "entry_kind", "slot_id", "currency",
			"cash_delta", "payload"}) {
			t.Errorf("document %q has the members %q", document, names)
		}
		if got.Instance != instance || got.Corr != corr || got.Kind != kind || orEmpty(got.Slot) != slot ||
			orEmpty(got.Currency) != currency || !decimal.RequireFromString(got.Delta).Equal(d) {
			t.Errorf("document %q does not say what was given", document)
		}
		if !strings.HasSuffix(string(document), `"payload":`+payload+"}") {
			t.Errorf("document %q changed the payload %q", document, payload)
		}
		if !e.SameContent(&n) {
			t.Errorf("an entry differs from what it was made of")
		}
	})
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
