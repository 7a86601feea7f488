package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

func TestEnqueueWritesTheEntryWhole(t *testing.T) {
	t.Parallel()
	const entry = `
SELECT concat_ws(
    '|', o.instance_key, o.correlation_id, o.entry_kind, o.slot_id, o.cash_delta, o.currency, o.payload,
    o.traceparent,
    o.enqueued_at = p.next_retry_at AND o.enqueued_at BETWEEN now() - interval '1 min' AND clock_timestamp(),
    p.instance_key, p.slot_id, p.cash_delta, p.currency, p.last_epoch, p.attempt_count, p.life,
    p.expiry_count, p.delivery_uncertain,
    k.instance_key, k.correlation_id, k.slot_id, k.opened_at = o.enqueued_at, k.resolved_at
)
FROM fencerow.ledger_outbox o
JOIN fencerow.ledger_pending p ON p.outbox_id = o.outbox_id
LEFT JOIN fencerow.ledger_skip k ON k.outbox_id = o.outbox_id`
	const whole = `desk-1|c-1|fill|slot-1|12.5|USD|{"quantity": 3}|` + trace +
		`|t|desk-1|slot-1|12.5|USD|0|0|1|0|f|desk-1|c-1|slot-1|t`
	for name, test := range map[string]struct{ call, want string }{
		"One":  {"SELECT result FROM " + good().one(), whole},
		"Try":  {"SELECT result FROM " + good().try(), whole},
		"Many": {"SELECT entry_result FROM " + many(good()), whole},
		"ManyBesideADuplicate": {
			"SELECT string_agg(entry_result, ' then ' ORDER BY entry_position) FROM " + many(good(), good()), whole,
		},
		"Defaults": {
			`SELECT result FROM fencerow.enqueue('desk-1', 'c-1', 'fill', '{}')`,
			"desk-1|c-1|fill|0|{}|t|desk-1|0|0|0|1|0|f",
		},
		"DefaultsTried": {
			`SELECT result FROM fencerow.try_enqueue('desk-1', 'c-1', 'fill', '{}')`,
			"desk-1|c-1|fill|0|{}|t|desk-1|0|0|0|1|0|f",
		},
		"FromAnywhere": {
			`SET search_path = ''; SELECT result FROM fencerow.enqueue('desk-1', 'c-1', 'fill', '{}')`,
			"desk-1|c-1|fill|0|{}|t|desk-1|0|0|0|1|0|f",
		},
		"TriedFromAnywhere": {
			`SET search_path = ''; SELECT result FROM fencerow.try_enqueue('desk-1', 'c-1', 'fill', '{}')`,
			"desk-1|c-1|fill|0|{}|t|desk-1|0|0|0|1|0|f",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := pgtest.NewDatabase(t, newest).Connect(t)
			setup, call, found := strings.Cut(test.call, ";")
			if found {
				run(t, conn, setup)
			} else {
				call = test.call
			}
			want := "inserted"
			if name == "ManyBesideADuplicate" {
				want = "inserted then duplicate"
			}
			mustGive(t, conn, call, want)
			mustGive(t, conn, entry, test.want)
		})
	}
}

func TestEnqueueTakesTheLimitsAndKeepsTheBytes(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewDatabase(t, newest).Connect(t)
	for name, entry := range map[string]args{
		"LongestInstanceKey":   good().with("instance_key", "repeat('~', 128)"),
		"LongestCorrelationID": good().with("correlation_id", "repeat('!', 200)"),
		"LongestEntryKind":     good().with("entry_kind", "'f' || repeat('_9', 31)"),
		"LongestSlotID":        good().with("slot_id", "repeat('s', 128)"),
		"NoSlot":               good().with("slot_id", "NULL"),
		"LargestDelta":         good().with("cash_delta", "repeat('9', 38)::numeric"),
		"SmallestDelta":        good().with("cash_delta", "-(repeat('9', 38)::numeric)"),
		"FinestDelta":          good().with("cash_delta", "1e-18"),
		"LargestFinestDelta":   good().with("cash_delta", most38),
		"DeltaOfManyZeros":     good().with("cash_delta", "round("+most38+", 99)"),
		"ZeroOfManyZeros":      good().with("cash_delta", "round(0, 99)").with("currency", "NULL"),
		"ShortestCurrency":     good().with("currency", "'B2C'"),
		"LongestCurrency":      good().with("currency", "repeat('X', 12)"),
		"LargestPayload":       good().with("payload", payloadAtMost),
		"PayloadWithBlanks": good().with("payload",
			`E' \t\r\n{ "b" : 1 ,\n"a":2, "b":1e999, "u":"\\u0000é😀" }\n '`),
		"NoTraceparent": good().with("traceparent", "NULL"),
	} {
		t.Run(name, func(t *testing.T) {
			run(t, conn, "BEGIN")
			defer run(t, conn, "ROLLBACK")
			payload := "(" + entry["payload"] + ")::text"
			run(t, conn, "SAVEPOINT s")
			mustGive(t, conn, "SELECT result FROM "+entry.try(), "inserted")
			mustGive(t, conn, "SELECT (payload::text = "+payload+")::text FROM fencerow.ledger_outbox", "true")
			run(t, conn, "ROLLBACK TO SAVEPOINT s")
			mustGive(t, conn, "SELECT result FROM "+entry.one(), "inserted")
			mustGive(t, conn, "SELECT (payload::text = "+payload+")::text FROM fencerow.ledger_outbox", "true")
			mustGive(t, conn,
				"SELECT (cash_delta = "+entry["cash_delta"]+")::text FROM fencerow.ledger_pending", "true")
			mustGive(t, conn, "SELECT result FROM "+entry.try(), "duplicate")
			mustGive(t, conn, "SELECT entry_result FROM "+many(entry.with("payload", payload)), "duplicate")
		})
	}
}

func TestEqualContentIsADuplicate(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewDatabase(t, newest).Connect(t)
	run(t, conn, "SELECT * FROM "+good().one())
	for name, entry := range map[string]args{
		"Same":             good(),
		"OtherScale":       good().with("cash_delta", "12.500000"),
		"OtherTraceparent": good().with("traceparent", "NULL"),
		"OtherSkip":        good().with("skip", "false"),
	} {
		t.Run(name, func(t *testing.T) {
			mustGive(t, conn, "SELECT outbox_id || ' ' || result FROM "+entry.one(), "1 duplicate")
			mustGive(t, conn, "SELECT outbox_id || ' ' || result FROM "+entry.try(), "1 duplicate")
			mustGive(t, conn, results(many(entry)), "1 1 duplicate")
			mustGive(t, conn, written, "1 1 1")
		})
	}
	t.Run("AnotherInstanceIsAnotherEntry", func(t *testing.T) {
		mustGive(t, conn, "SELECT result FROM "+good().with("instance_key", "'desk-2'").one(), "inserted")
		mustGive(t, conn, "SELECT result FROM "+good().with("instance_key", "'desk-3'").try(), "inserted")
		mustGive(t, conn, written, "3 3 3")
	})
}

func TestOtherContentIsAConflict(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewDatabase(t, newest).Connect(t)
	run(t, conn, "SELECT * FROM "+good().one())
	for name, entry := range map[string]args{
		"EntryKind": good().with("entry_kind", "'fee'"),
		"Payload":   good().with("payload", `'{"quantity": 4}'`),
		"Blank":     good().with("payload", `'{"quantity":3}'`),
		"Slot":      good().with("slot_id", "'slot-2'"),
		"NoSlot":    good().with("slot_id", "NULL"),
		"Delta":     good().with("cash_delta", "12.51"),
		"Currency":  good().with("currency", "'EUR'"),
	} {
		t.Run(name, func(t *testing.T) {
			server := refused(t, conn, conflict, "SELECT * FROM "+entry.one())
			if !strings.Contains(server.Detail, "number 1.") {
				t.Errorf("the detail %q does not name the first entry", server.Detail)
			}
			mustGive(t, conn, "SELECT outbox_id || ' ' || result FROM "+entry.try(), "1 conflict")
			mustGive(t, conn, results(many(entry)), "1 1 conflict")
			mustGive(t, conn, written, "1 1 1")
		})
	}
}

// bad is one of every kind of bad input, with a part of the message that must come.
var bad = map[string]struct{ argument, literal, message string }{
	"NoInstanceKey":            {"instance_key", "NULL", "instance_key must"},
	"EmptyInstanceKey":         {"instance_key", "''", "instance_key must"},
	"LongInstanceKey":          {"instance_key", "repeat('canary', 22)", "instance_key must"},
	"BlankInInstanceKey":       {"instance_key", "'canary key'", "instance_key must"},
	"NewlineAtEndOfKey":        {"instance_key", `E'canary\n'`, "instance_key must"},
	"AccentInInstanceKey":      {"instance_key", "'canaryé'", "instance_key must"},
	"NoCorrelationID":          {"correlation_id", "NULL", "correlation_id must"},
	"EmptyCorrelationID":       {"correlation_id", "''", "correlation_id must"},
	"LongCorrelationID":        {"correlation_id", "repeat('c', 201)", "correlation_id must"},
	"HugeCorrelationID":        {"correlation_id", "repeat('canary', 2000)", "correlation_id must"},
	"TabInCorrelationID":       {"correlation_id", `E'canary\tid'`, "correlation_id must"},
	"DeleteInCorrelationID":    {"correlation_id", `E'canary\x7f'`, "correlation_id must"},
	"NoEntryKind":              {"entry_kind", "NULL", "entry_kind must"},
	"EmptyEntryKind":           {"entry_kind", "''", "entry_kind must"},
	"UpperEntryKind":           {"entry_kind", "'Canary'", "entry_kind must"},
	"DigitFirstInEntryKind":    {"entry_kind", "'9canary'", "entry_kind must"},
	"LongEntryKind":            {"entry_kind", "repeat('f', 64)", "entry_kind must"},
	"EmptySlotID":              {"slot_id", "''", "slot_id must"},
	"LongSlotID":               {"slot_id", "repeat('s', 129)", "slot_id must"},
	"BlankInSlotID":            {"slot_id", "'canary slot'", "slot_id must"},
	"NoDelta":                  {"cash_delta", "NULL", "cash_delta must"},
	"NaNDelta":                 {"cash_delta", "'NaN'", "cash_delta must"},
	"InfiniteDelta":            {"cash_delta", "'Infinity'", "cash_delta must"},
	"MinusInfiniteDelta":       {"cash_delta", "'-Infinity'", "cash_delta must"},
	"LargeDelta":               {"cash_delta", "1e38", "cash_delta must"},
	"HugeDelta":                {"cash_delta", "1e1000", "cash_delta must"},
	"FineDelta":                {"cash_delta", "1e-19", "cash_delta must"},
	"FinestPossibleDelta":      {"cash_delta", "1e-16383", "cash_delta must"},
	"DeltaOf39Digits":          {"cash_delta", digits39, "cash_delta must"},
	"NegativeDeltaOf39Digits":  {"cash_delta", "-" + digits39, "cash_delta must"},
	"NoCurrency":               {"currency", "NULL", "needs a currency"},
	"EmptyCurrency":            {"currency", "''", "currency must"},
	"LowerCurrency":            {"currency", "'usd'", "currency must"},
	"ShortCurrency":            {"currency", "'US'", "currency must"},
	"LongCurrency":             {"currency", "repeat('X', 13)", "currency must"},
	"NoPayload":                {"payload", "NULL", "payload must"},
	"NumberPayload":            {"payload", "'1'", "payload must"},
	"StringPayload":            {"payload", `'"canary {"'`, "payload must"},
	"ArrayPayload":             {"payload", `'[{"canary": 1}]'`, "payload must"},
	"NullLiteralPayload":       {"payload", "'null'", "payload must"},
	"LargePayload":             {"payload", payloadAbove, "payload must"},
	"LargePayloadOfTwoBytes":   {"payload", `('{"a": "' || repeat('é', 131072) || '"}')::json`, "payload must"},
	"EmptyTraceparent":         {"traceparent", "''", "traceparent must"},
	"UpperTraceparent":         {"traceparent", "'" + strings.ToUpper(trace) + "'", "traceparent must"},
	"OtherVersionTraceparent":  {"traceparent", "'01" + trace[2:] + "'", "traceparent must"},
	"LongTraceparent":          {"traceparent", "'" + trace + "-x'", "traceparent must"},
	"NoSkip":                   {"skip", "NULL", "skip must"},
	"NewlineAtEndOfEntryKind":  {"entry_kind", `E'canary\n'`, "entry_kind must"},
	"NewlineAtEndOfCurrency":   {"currency", `E'USD\n'`, "currency must"},
	"ControlCharacterInSlotID": {"slot_id", `E'\x01'`, "slot_id must"},
}

func TestBadInputIsRefusedByNameWithNothingWritten(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewDatabase(t, newest).Connect(t)
	for name, test := range bad {
		t.Run(name, func(t *testing.T) {
			entry := good().with(test.argument, test.literal)
			server := refused(t, conn, badInput, "SELECT * FROM "+entry.one())
			all := server.Message + server.Detail + server.Hint
			if !strings.HasPrefix(server.Message, "fencerow: ") || !strings.Contains(all, test.message) ||
				strings.Contains(strings.ToLower(all), "canary") {
				t.Errorf("the server said %q", all)
			}
			same := refused(t, conn, badInput, "SELECT * FROM "+entry.try())
			if same.Message != server.Message {
				t.Errorf("tried, the server said %q instead of %q", same.Message, server.Message)
			}
			text := entry
			if test.argument == "payload" {
				text = entry.with("payload", "("+test.literal+")::text")
			}
			// The second of three, so that the first must be undone too.
			server = refused(t, conn, badInput, "SELECT * FROM "+many(
				good().with("instance_key", text["instance_key"]), text, good().with("correlation_id", "'c-3'")))
			position := "fencerow: entry 2: "
			if test.argument == "instance_key" { // it is that of all entries
				position = "fencerow: entry 1: "
			}
			if !strings.HasPrefix(server.Message, position) || !strings.Contains(server.Message, test.message) {
				t.Errorf("of three, the server said %q", server.Message)
			}
			mustGive(t, conn, written, "0 0 0")
		})
	}
}

// The two differ in what they say of other content, and in nothing before: one does not call the other only
// because the call costs a twentieth of an enqueue.
func TestToEnqueueAndToTryAreTheSameUpToTheAnswer(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewDatabase(t, newest).Connect(t)
	const body = "SELECT prosrc FROM pg_proc WHERE proname = '%s' AND pronamespace = 'fencerow'::regnamespace"
	upTo := func(name string) string {
		body, answer, found := strings.Cut(texts(t, conn, fmt.Sprintf(body, name))[0], "IF NOT FOUND THEN")
		if !found || !strings.Contains(body, "INTO v_id, v_same") || !strings.Contains(answer, "duplicate") {
			t.Fatalf("%s has another shape", name)
		}
		return body
	}
	if one, try := upTo("enqueue"), upTo("try_enqueue"); one != try {
		t.Errorf("one is\n%s\nand the other\n%s", one, try)
	}
}

// An entry that is neither inserted nor there already, as one that was pruned between the two looks: here a
// trigger leaves it out.
func TestAnEntryThatIsNeitherInsertedNorThereIsToBeTriedAgain(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewDatabase(t, newest).Connect(t)
	run(t, conn, `
CREATE FUNCTION leave_out() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RETURN CASE WHEN NEW.correlation_id <> 'c-1' THEN NEW END;
END
$$;
CREATE TRIGGER leave_out BEFORE INSERT ON fencerow.ledger_outbox FOR EACH ROW EXECUTE FUNCTION leave_out()`)
	for _, call := range []string{
		good().one(), good().try(), many(good()), many(good().with("correlation_id", "'c-0'"), good()),
	} {
		_ = refused(t, conn, serialization, "SELECT * FROM "+call)
		mustGive(t, conn, written, "0 0 0")
	}
}

func TestTextThatIsNotJSONIsRefusedWithNothingWritten(t *testing.T) {
	t.Parallel()
	conn := pgtest.NewDatabase(t, newest).Connect(t)
	for _, literal := range []string{
		`'{"a": }'`, `'{"a": 1'`, `'{"a": 1} x'`, `'{"a": "\x"}'`, `E'{"a": "\n"}'`, `'{a: 1}'`,
	} {
		entry := good().with("payload", literal)
		_ = refused(t, conn, badText, "SELECT * FROM "+entry.one())
		_ = refused(t, conn, badText, "SELECT * FROM "+entry.try())
		server := refused(t, conn, badInput, "SELECT * FROM "+many(good(), entry.with("correlation_id", "'c-2'")))
		if server.Message != "fencerow: entry 2: payload must be a JSON object of at most 262144 bytes" {
			t.Errorf("of two, the server said %q", server.Message)
		}
	}
	mustGive(t, conn, written, "0 0 0")
}
