package fencerow

import (
	"encoding/json"
	"errors"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/shopspring/decimal"
)

func TestKeysArePrintableASCIIWithoutSpace(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		validate func(string) error
		limit    int
	}{
		{"instance key", func(s string) error { _, err := ParseInstanceKey(s); return err }, MaxInstanceKey},
		{"correlation id", func(s string) error { _, err := ParseCorrelationID(s); return err }, MaxCorrelationID},
		{"slot id", func(s string) error { return SlotID(s).Validate() }, MaxSlotID},
		{"worker id", func(s string) error { return WorkerID(s).Validate() }, MaxWorkerID},
	} {
		for _, good := range []string{"a", "!", "~", `"\'`, "fx-1/EUR:2026", strings.Repeat("k", tc.limit)} {
			if err := tc.validate(good); err != nil {
				t.Errorf("%s %.20q: %v", tc.name, good, err)
			}
		}
		for _, bad := range []string{
			"", " ", "a b", "a ", "\ta", "a\n", "\x00", "\x7f", "ü", "\xff", "a\u00a0b",
			strings.Repeat("k", tc.limit+1),
		} {
			if err := tc.validate(bad); !errors.Is(err, ErrInvalidInput) {
				t.Errorf("%s %.20q: got %v, want an input error", tc.name, bad, err)
			}
		}
	}
}

func TestDecimalsAreBounded(t *testing.T) {
	t.Parallel()
	nines := strings.Repeat("9", 38)
	for text, want := range map[string]string{
		"0": "0", "-0": "0", "+5": "5", "1.50": "1.5", "-12.500": "-12.5", "100": "100", "007": "7", ".5": "0.5",
		"5.":  "5",
		nines: nines, "-" + nines: "-" + nines,
		"99999999999999999999.999999999999999999":           "99999999999999999999.999999999999999999",
		"0.000000000000000001":                              "0.000000000000000001",
		"1.0000000000000000000000000000000000000000":        "1",
		strings.Repeat("0", 20) + "1":                       "1",
		"12345678901234567890123456789012345678.0000000000": "12345678901234567890123456789012345678",
	} {
		d, err := ParseDecimal("cash_delta", text)
		if err != nil || d.String() != want {
			t.Errorf("%q: got %s, %v, want %s", text, d, err, want)
		}
	}
	for _, text := range []string{
		"", " ", "1 ", "1e3", "1E3", "NaN", "nan", "Infinity", "-inf", "0x10", "1_000", "1,5", "--1", "+-1", "1-",
		"1.2.3", ".", "-", "+.",
		"1" + nines, "0.0000000000000000001", nines + ".1", "1e999999999", "١", strings.Repeat("0", 65),
	} {
		if d, err := ParseDecimal("cash_delta", text); !errors.Is(err, ErrInvalidInput) {
			t.Errorf("%q: got %s, %v, want an input error", text, d, err)
		}
	}
}

// A decimal may also reach validation without a text, with any exponent; it must be refused before anything
// works on all its digits.
func TestEnormousExponentsAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	for _, d := range []decimal.Decimal{
		decimal.New(1, 1<<31-1), decimal.New(1, -1<<31), decimal.New(10, -1<<31), decimal.New(1, 65),
		decimal.New(1, -65),
		decimal.NewFromBigInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(200), nil), -150),
	} {
		if err := checkDecimal("cash_delta", d); err == nil {
			t.Errorf("exponent %d was accepted", d.Exponent())
		}
	}
	for _, d := range []decimal.Decimal{decimal.New(0, 1<<31-1), decimal.New(0, -1<<31)} {
		if err := checkDecimal("cash_delta", d); err != nil {
			t.Errorf("zero with exponent %d: %v", d.Exponent(), err)
		}
		if got := CanonicalDecimal(d); got.String() != "0" {
			t.Errorf("zero with exponent %d became %s", d.Exponent(), got)
		}
	}
}

// The oracle is arithmetic on the text: at most 38 digits, 18 of them after the point, once trailing zeros
// are gone.
func FuzzParseDecimal(f *testing.F) {
	for _, seed := range []string{
		"0", "-12.50", "1e5", "+.5", "5.", "--", "99999999999999999999999999999999999999", "0.0000000000000000001",
		"1.2.3", "\x00", "٣",
		"-00.00", "0000000000000000000000000000000000000000000000000000000000000000", "-0", "NaN", "-Inf", "0x1p-2",
		"1_0", "1e999999999", "12345678901234567890.123456789012345678", "0.10000000000000000000000", " 1", "1,5",
		"-.000000000000000001", strings.Repeat("9", 65),
	} {
		f.Add(seed)
	}
	plain := regexp.MustCompile(`\A[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)\z`)
	for _, text := range edgeTexts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, s string) {
		shortAgrees(t, s)
		d, err := ParseDecimal("cash_delta", s)
		if !plain.MatchString(s) || len(s) > maxDecimalText {
			if err == nil {
				t.Fatalf("%q is not a plain number, but became %s", s, d)
			}
			return
		}
		want, ok := new(big.Rat).SetString(s)
		if !ok {
			t.Fatalf("%q does not parse as a fraction", s)
		}
		whole, places, _ := strings.Cut(strings.TrimLeft(s, "+-"), ".")
		whole, places = strings.TrimLeft(whole, "0"), strings.TrimRight(places, "0")
		if fits := len(places) <= maxScale && len(whole)+len(places) <= maxDigits; fits != (err == nil) {
			t.Fatalf("%q: got %v, fits %v", s, err, fits)
		}
		if err == nil && (d.Rat().Cmp(want) != 0 || -d.Exponent() > maxScale) {
			t.Fatalf("%q became %s with exponent %d", s, d, d.Exponent())
		}
		if written, err := decimal.NewFromString(s); err == nil {
			canonicalAgrees(t, written)
		}
	})
}

func TestPayloadIsAnObjectWithinBounds(t *testing.T) {
	t.Parallel()
	nested := func(levels int) string {
		return `{"a":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + "}"
	}
	for _, good := range []string{
		"{}", " \t\r\n{}\n", `{"a":"\u0000"}`, `{"a":1,"a":2}`, `{"a":"}{[\"\\"}`, nested(MaxPayloadDepth),
		`{"s":"` + strings.Repeat("x", MaxPayload-8) + `"}`, `{"a":[[],{}],"b":[{}]}`,
	} {
		if err := checkPayload(json.RawMessage(good)); err != nil {
			t.Errorf("%.40q: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", " ", "null", "1", `"a"`, "[]", "[{}]", "{", "{}}", "{} {}", `{'a':1}`, `{"a":1,}`, "\ufeff{}",
		"{\"a\":\"\x00\"}", "\x00",
		"{\"a\":\"\xff\"}", "{\"a\":\"\xed\xa0\x80\"}", "{\"a\":\"\n\"}", `{"a":NaN}`, "\v{}", "\u00a0{}",
		nested(MaxPayloadDepth + 1), `{"s":"` + strings.Repeat("x", MaxPayload-7) + `"}`,
		strings.Repeat("{", MaxPayload),
	} {
		if err := checkPayload(json.RawMessage(bad)); !errors.Is(err, ErrInvalidInput) {
			t.Errorf("%.40q: got %v, want an input error", bad, err)
		}
	}
}

// The oracle is the standard decoder: an object, decoded token by token to find how deep it is.
func FuzzPayload(f *testing.F) {
	for _, seed := range []string{
		"{}", `{"a":[1,{"b":"]}"}]}`, `{"a":"\\"}`, `{"a":"\""}`, "[]", `{"a":"\u0000"}`, "{\"\x00\":1}", "\xff",
		` {"\ud800":1} `, `{"z":1,"a":2,"z":3}`, `{"n":123456789012345678901234567890.10,"m":1e400,"k":-0.0}`,
		"{\"a\":\"🙂원\"}", "{\"a\":\"\xed\xa0\x80\"}", "\ufeff{}", "{}\n{}", `{"a":`, "\x0b{}",
		`{"a":"` + "\n" + `"}`,
		`{"a":` + strings.Repeat("[", MaxPayloadDepth-1) + strings.Repeat("]", MaxPayloadDepth-1) + "}",
		`{"a":` + strings.Repeat("[", MaxPayloadDepth) + strings.Repeat("]", MaxPayloadDepth) + "}",
		strings.Repeat("{", 1<<10),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		var object map[string]json.RawMessage
		want := len(p) <= MaxPayload && utf8.Valid(p) && json.Unmarshal(p, &object) == nil && object != nil
		deepest := 0
		if want {
			decoder, depth := json.NewDecoder(strings.NewReader(string(p))), 0
			for {
				token, err := decoder.Token()
				if err != nil {
					break
				}
				switch token {
				case json.Delim('{'), json.Delim('['):
					depth++
				case json.Delim('}'), json.Delim(']'):
					depth--
				}
				deepest = max(deepest, depth)
			}
		}
		err := checkPayload(p)
		if got := err == nil; got != (want && deepest <= MaxPayloadDepth) {
			t.Errorf("accepted %v, want %v", got, want)
		}
		if err != nil && strings.Contains(err.Error(), "nested") != want {
			t.Errorf("refused as %q", err)
		}
	})
}

func FuzzTraceParent(f *testing.F) {
	form := regexp.MustCompile(`\A00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}\z`)
	for _, seed := range []string{
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
		"01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", "", "00-",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0\n",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-congo=t61rcWkgMzE",
		"00_0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331_01",
		"00-0af7651916cd43dd8448eb211c80319-cb7ad6b7169203331-01", "ff-" + strings.Repeat("f", 52),
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333\x00-01",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m := form.FindStringSubmatch(s)
		want := m != nil && strings.Trim(m[1], "0") != "" && strings.Trim(m[2], "0") != ""
		if got := validTraceParent(s); got != want {
			t.Errorf("%q: accepted %v, want %v", s, got, want)
		}
	})
}

// The oracles are the patterns that the documents give. What is refused is refused in a text that depends on
// the limit and the kind of mistake alone: the value may be a secret that was pasted into the wrong place.
func FuzzNames(f *testing.F) {
	for _, seed := range []string{
		"", "fill", "Fill", "a b", "EUR", "EU", "ABCDEFGHIJKLM", "ref:1.2-3_4", "a\n", "\x00", "ü", "\xff",
		"_a", "9a", "lease_expired", "desk-7/EUR#2031-06-30", "fill 9\x1b[2J", "a\u00a0b", "a\u202eb", " a", "a\t",
		`"a"\`, "9223372036854775808", "\x7f", "\ufeffa", "'; --",
		strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 65),
		strings.Repeat("a", 128), strings.Repeat("a", 129), strings.Repeat("~", 200), strings.Repeat("~", 201),
		strings.Repeat("ü", 64), strings.Repeat("k", 1<<12),
	} {
		f.Add(seed)
	}
	forms := map[string]struct {
		valid func(string) bool
		form  *regexp.Regexp
	}{
		"kind":      {validKind, regexp.MustCompile(`\A[a-z][a-z0-9_]{0,62}\z`)},
		"currency":  {ValidCurrency, regexp.MustCompile(`\A[A-Z0-9]{3,12}\z`)},
		"reference": {ValidLedgerRef, regexp.MustCompile(`\A[A-Za-z0-9._:-]{1,64}\z`)},
		"reason": {func(s string) bool { return ReasonCode(s).Valid() },
			regexp.MustCompile(`\A[a-z][a-z0-9_]{0,63}\z`)},
	}
	keys := map[string]struct {
		check func(string) error
		form  *regexp.Regexp
	}{
		"instance_key": {func(s string) error { return InstanceKey(s).Validate() },
			regexp.MustCompile(`\A[!-~]{1,128}\z`)},
		"correlation_id": {func(s string) error { return CorrelationID(s).Validate() },
			regexp.MustCompile(`\A[!-~]{1,200}\z`)},
		"slot_id": {func(s string) error { return SlotID(s).Validate() }, regexp.MustCompile(`\A[!-~]{1,128}\z`)},
		"worker":  {func(s string) error { return WorkerID(s).Validate() }, regexp.MustCompile(`\A[!-~]{1,128}\z`)},
	}
	f.Fuzz(func(t *testing.T, s string) {
		for name, form := range forms {
			if got, want := form.valid(s), form.form.MatchString(s); got != want {
				t.Errorf("%q is a %s: %v, want %v", s, name, got, want)
			}
		}
		for field, key := range keys {
			err := key.check(s)
			if want := key.form.MatchString(s); (err == nil) != want {
				t.Errorf("%q is a %s: %v, want %v", s, field, err, want)
			}
			if err == nil {
				continue
			}
			refusedFor(t, "a key", field, err)
			long := strings.Repeat("k", 201)
			texts := []string{key.check("").Error(), key.check(" ").Error(), key.check(long).Error()}
			if !slices.Contains(texts, err.Error()) {
				t.Errorf("%q is refused with %q", s, err)
			}
		}
	})
}
