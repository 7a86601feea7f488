package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// badInput is one thing that is wrong with an entry.
type badInput struct {
	name  string
	spoil func(args) args
	// sqlState and sqlSays are what SQL answers, goSays what package outbox and the command do; empty where it
	// cannot be said in that way.
	sqlState, sqlSays, goSays string
}

const badValue = "22023" // invalid_parameter_value

func badInputs() []badInput {
	set := func(name, value string) func(args) args {
		return func(a args) args { return a.with(name, value) }
	}
	null := func(name string) func(args) args {
		return func(a args) args { return a.null(name) }
	}
	const (
		key, id           = "instance_key must be 1 to 128", "correlation_id must be 1 to 200"
		slot, longKey     = "slot_id must be 1 to 128", "instance_key is longer than 128"
		longID            = "correlation_id is longer than 200"
		kind              = "entry_kind must match"
		currency, noJSON  = "currency must match", "invalid input syntax for type json"
		trace             = "traceparent must be a W3C trace context"
		finite, noNumber  = "cash_delta must be a finite number", "invalid input syntax for type numeric"
		object            = "payload must be a JSON object of at most 262144 bytes"
		outside           = "holds a character other than printable ASCII"
		digits            = "cash_delta has more than 38 digits or more than 18"
		goKind, goPayload = "entry_kind must match", "payload is not a JSON object"
	)
	return []badInput{
		{"KeyNull", null("instance_key"), badValue, key, "instance_key is missing"},
		{"KeyEmpty", set("instance_key", ""), badValue, key, "instance_key is missing"},
		{"KeyWithSpace", set("instance_key", "desk 1"), badValue, key, "instance_key " + outside},
		{"KeyWithLineBreak", set("instance_key", "desk-1\n"), badValue, key, "instance_key " + outside},
		{"KeyNotASCII", set("instance_key", "bureau-é"), badValue, key, "instance_key " + outside},
		{"KeyTooLong", set("instance_key", strings.Repeat("k", 129)), badValue, key, longKey},
		{"IDNull", null("correlation_id"), badValue, id, "correlation_id is missing"},
		{"IDEmpty", set("correlation_id", ""), badValue, id, "correlation_id is missing"},
		{"IDWithSpace", set("correlation_id", "a b"), badValue, id, "correlation_id " + outside},
		{"IDWithControl", set("correlation_id", "a\x1b[0m"), badValue, id, "correlation_id " + outside},
		{"IDTooLong", set("correlation_id", strings.Repeat("i", 201)), badValue, id, longID},
		{"KindNull", null("entry_kind"), badValue, kind, goKind},
		{"KindEmpty", set("entry_kind", ""), badValue, kind, goKind},
		{"KindUpperCase", set("entry_kind", "Fill"), badValue, kind, goKind},
		{"KindWithDigitFirst", set("entry_kind", "1fill"), badValue, kind, goKind},
		{"KindTooLong", set("entry_kind", strings.Repeat("f", 64)), badValue, kind, goKind},
		{"SlotEmpty", set("slot_id", ""), badValue, slot, ""},
		{"SlotWithSpace", set("slot_id", "slot 1"), badValue, slot, "slot_id " + outside},
		{"SlotTooLong", set("slot_id", strings.Repeat("s", 129)), badValue, slot, "slot_id is longer than 128"},
		{"DeltaNull", null("cash_delta"), badValue, finite, ""},
		{"DeltaNaN", set("cash_delta", "NaN"), badValue, finite, ""},
		{"DeltaInfinite", set("cash_delta", "-Infinity"), badValue, finite, ""},
		{"DeltaNotANumber", set("cash_delta", "12,50"), "22P02", noNumber, ""},
		{"DeltaOf39Digits", set("cash_delta", "1"+strings.Repeat("0", 38)), badValue, finite, digits},
		{"DeltaOf19Places", set("cash_delta", "0.0000000000000000001"), badValue, finite, digits},
		{"CurrencyMissing", null("currency"), badValue, "a cash_delta other than 0 needs a currency",
			"currency is required with a cash_delta"},
		{"CurrencyLowerCase", set("currency", "eur"), badValue, currency, "currency must be 3 to 12"},
		{"CurrencyTooShort", set("currency", "EU"), badValue, currency, "currency must be 3 to 12"},
		{"CurrencyTooLong", set("currency", "ABCDEFGHIJKLM"), badValue, currency, "currency must be 3 to 12"},
		{"PayloadNull", null("payload"), badValue, object, "payload is missing"},
		{"PayloadEmpty", set("payload", ""), "22P02", noJSON, "payload is missing"},
		{"PayloadNotJSON", set("payload", "{'a': 1}"), "22P02", noJSON, "payload is not valid JSON"},
		{"PayloadCutOff", set("payload", `{"a": [1, 2`), "22P02", noJSON, "payload is not valid JSON"},
		{"PayloadArray", set("payload", "[{}]"), badValue, object, goPayload},
		{"PayloadString", set("payload", `"{}"`), badValue, object, goPayload},
		{"PayloadNumber", set("payload", "1"), badValue, object, goPayload},
		{"PayloadJSONNull", set("payload", "null"), badValue, object, goPayload},
		{"PayloadTooLarge", set("payload", `{"p":"`+strings.Repeat("x", 256<<10-7)+`"}`), badValue, object,
			"payload is larger than 262144 bytes"},
		{"TraceParentShort", set("traceparent", "00-abc"), badValue, trace, "traceparent is not a W3C traceparent"},
		{"TraceParentUpperCase",
			set("traceparent", "00-"+strings.Repeat("A", 32)+"-"+strings.Repeat("b", 16)+"-01"),
			badValue, trace, "traceparent is not a W3C traceparent"},
		{"SkipNull", null("skip"), badValue, "skip must be true or false", ""},
	}
}

// written counts everything that an enqueue could have written.
func (w *world) written() int {
	w.t.Helper()
	return one[int](w, `
SELECT (SELECT count(*) FROM trade) + (SELECT count(*) FROM fencerow.ledger_outbox)
    + (SELECT count(*) FROM fencerow.ledger_pending) + (SELECT count(*) FROM fencerow.ledger_skip)
    + (SELECT count(*) FROM fencerow.ledger_slot) + (SELECT count(*) FROM fencerow.ledger_instance)`)
}

func goodArgs(id string) args {
	key, kind, payload, slot, delta := "desk-1", "fill", `{"a": 1}`, "slot-1", "1.5"
	currency, skip := "EUR", "true"
	return args{"instance_key": &key, "correlation_id": &id, "entry_kind": &kind, "payload": &payload,
		"slot_id": &slot, "cash_delta": &delta, "currency": &currency, "skip": &skip}
}

func TestBadInputOfEveryKindIsRefusedWithItsReasonAndNothingIsWritten(t *testing.T) {
	t.Parallel()
	w := newTradeWorld(t)
	tried := map[string]int{}
	for _, p := range producers() {
		var sales []sale
		var reasons []badInput
		for _, bad := range badInputs() {
			if p.name == "Go" && bad.goSays == "" {
				continue
			}
			sales = append(sales, sale{TradeID: p.name + "-" + bad.name, Entry: bad.spoil(goodArgs("bad"))})
			reasons = append(reasons, bad)
		}
		for i, b := range p.sell(w, sales) {
			state, says := reasons[i].sqlState, reasons[i].sqlSays
			if p.name == "Go" {
				state, says = "invalid_input", reasons[i].goSays
			}
			if b.Result != "" || b.SQLState != state || !strings.Contains(b.Message, says) {
				t.Errorf("%s: %s: %+v, want %s: %s", p.name, reasons[i].name, b, state, says)
			}
			tried[p.name]++
		}
		equal(t, p.name+": rows written", w.written(), 0)
	}
	// What only bytes can say.
	for name, bytesOf := range map[string]string{
		"NUL": "{\"a\":\"\x00\"}", "InvalidUTF8": "{\"a\":\"\xff\"}", "Surrogate": "{\"a\":\"\xed\xa0\x80\"}",
	} {
		b := sellInGo(w, []sale{{TradeID: name, Entry: goodArgs("bad").with("payload", bytesOf)}})[0]
		if b.SQLState != "invalid_input" || !strings.Contains(b.Message, "payload ") {
			t.Errorf("%s: %+v", name, b)
		}
		tried["Go"]++
	}
	equal(t, "rows written", w.written(), 0)

	// And the same in good order is written: it is the one thing that was wrong.
	for _, p := range producers() {
		id := "good-" + p.name
		equal(t, p.name, p.sell(w, []sale{{TradeID: id, Entry: goodArgs(id)}})[0].Result, "inserted")
		equal(t, id+" is there", w.has(id), true)
	}
	t.Logf("bad input of %d kinds refused, each with its reason, and no row written: Go %d, psql %d, Python %d",
		len(badInputs()), tried["Go"], tried["Psql"], tried["Python"])
}

func TestTheCommandRefusesBadEntriesWithTheirReasonAndWritesNothing(t *testing.T) {
	t.Parallel()
	w := newTradeWorld(t)
	refused := 0
	for _, bad := range badInputs() {
		if bad.goSays == "" || strings.HasPrefix(bad.name, "Key") || bad.name == "PayloadTooLarge" {
			continue // a flag of that size is more than a system takes
		}
		a := bad.spoil(goodArgs("bad"))
		flags := []string{"enqueue"}
		for name := range a {
			if value := a.get(name); value != "" && name != "instance_key" {
				flags = append(flags, "--"+strings.ReplaceAll(name, "_", "-")+"="+value)
			}
		}
		// In flags the field is named as the flag is, and its variable with it.
		field, problem, _ := strings.Cut(bad.goSays, " ")
		says := "--" + strings.ReplaceAll(field, "_", "-") + " (FENCEROW_ENQUEUE_" + strings.ToUpper(field) + ") " +
			problem
		want(t, w.run("desk-1", flags...), 80, says)
		refused++
	}

	// A file is checked whole before its first entry is written: the bad line is the last.
	good := fills("good", 1500)
	file := filepath.Join(t.TempDir(), "entries")
	const id = `{"correlation_id":"x","entry_kind":"fill"`
	const entry = id + `,"payload":{}`
	for _, bad := range []struct{ line, says string }{
		{"not json", "is not a JSON object"},
		{entry + "} {}", "is not a JSON object"},
		{entry + `,"color":"red"}`, "has a member that is none of"},
		{entry + `,"payload":{}}`, "payload is given twice"},
		{entry + `,"cash_delta":1.5}`, "cash_delta must be a string"},
		{entry + `,"cash_delta":"1e3"}`, "cash_delta is not a plain decimal"},
		{entry + `,"skip":"yes"}`, "skip must be true or false"},
		{id + "}", "payload is missing"},
		{id + `,"payload":[]}`, "payload is not a JSON object"},
		{id + `,"payload":{"a":"` + "\xff" + `"}}`, "UTF-8"},
		{id + `,"payload":{"` + strings.Repeat("x", 300<<10), "line 1501"},
		{`{"correlation_id":"x y","entry_kind":"fill","payload":{}}`, "correlation_id holds"},
	} {
		check(t, os.WriteFile(file, append(bytes.Clone(good), bad.line+"\n"...), 0o600))
		want(t, w.run("desk-1", "enqueue", file), 1, bad.says, "line 1501", "nothing was enqueued")
		refused++
		equal(t, "rows written for a file with "+fmt.Sprintf("%.80q", bad.line), w.written(), 0)
	}

	// Conflicts are named; the other lines are enqueued.
	w.enqueueLines("desk-1", good)
	other := `{"correlation_id":"good-2","entry_kind":"fee","payload":{}}` + "\n"
	mixed := slices.Concat(fills("good", 1), []byte(other), fills("new", 1))
	r := w.runWith("desk-1", nil, bytes.NewReader(mixed), "enqueue", "--json", "-")
	want(t, r, 1, "line 2: correlation_id good-2 is already enqueued with other content")
	type counts struct{ Inserted, Duplicate, Conflict int }
	equal(t, "enqueued", document[counts](t, r), counts{1, 1, 1})
	t.Logf("%d bad entries refused by the command, 80 for flags and 1 for lines of a file, and nothing written",
		refused)
}
