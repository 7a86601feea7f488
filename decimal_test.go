package fencerow

import (
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/shopspring/decimal"
)

// sameDecimal tells more than Equal: the same digits and the same exponent, so the same text and document.
func sameDecimal(a, b decimal.Decimal) bool {
	return a.Coefficient().Cmp(b.Coefficient()) == 0 && a.Exponent() == b.Exponent() && a.String() == b.String()
}

// canonicalLong is CanonicalDecimal by way of the number's text, however short it is.
func canonicalLong(d decimal.Decimal) decimal.Decimal {
	switch {
	case d.IsZero():
		return decimal.Decimal{}
	case d.Exponent() >= 0 || d.Exponent() < -maxDecimalText:
		return d
	}
	return stripLong(d)
}

// fits is the rule of checkDecimal, read from the digits of the number's text.
func fits(d decimal.Decimal) bool {
	if d.IsZero() {
		return true
	}
	if d.Exponent() < -maxDecimalText || d.Exponent() > maxDecimalText {
		return false
	}
	whole, places, _ := strings.Cut(strings.TrimPrefix(canonicalLong(d).String(), "-"), ".")
	whole = strings.TrimLeft(whole, "0")
	return len(places) <= maxScale && len(whole)+len(places) <= maxDigits
}

func shortAgrees(t *testing.T, s string) {
	t.Helper()
	got, ok := parseShort(s)
	if !ok {
		return
	}
	if strings.Trim(s, "+-.0123456789") != "" {
		t.Fatalf("%q is taken for the number %s", s, got)
	}
	want, err := decimal.NewFromString(s)
	if err != nil {
		t.Fatalf("%q is taken for the number %s: %v", s, got, err)
	}
	if want = canonicalLong(want); !sameDecimal(got, want) || !fits(want) {
		t.Fatalf("%q became %s with exponent %d, want %s with %d", s, got, got.Exponent(), want, want.Exponent())
	}
}

func canonicalAgrees(t *testing.T, d decimal.Decimal) {
	t.Helper()
	if got, want := CanonicalDecimal(d), canonicalLong(d); !sameDecimal(got, want) {
		t.Fatalf("%s e %d became %s, want %s", d.Coefficient(), d.Exponent(), got, want)
	}
	if err := checkDecimal("cash_delta", d); (err == nil) != fits(d) {
		t.Fatalf("%s e %d: got %v, fits %v", d.Coefficient(), d.Exponent(), err, fits(d))
	}
}

var edgeTexts = []string{
	"", "0", "-0", "+0", "00", "-00.00", "0.", ".0", "-.0", ".", "-", "+", "+.", "-.", "--1", "+-1",
	"-+1", "1-", "1.", ".5", "-.5", "+.5", "5.", "+1", "1e3", "1E3", "1.2.3", "..1", "1..", ".-5",
	"-1.-5", "1 ", " 1", "1_0", "1,5", "١", "\u22121", "0x1", "NaN", "Inf", "\x00", "/", ":", "1/2",
	"100", "-100", "100.00", "0.10", "10.010", "007", "-007.70", "999999999999999999",
	"-999999999999999999", "9999999999999999990", "9223372036854775807", "9223372036854775808",
	"-9223372036854775808", "-9223372036854775809", "18446744073709551616", "000000000000000001",
	"0000000000000000001", ".000000000000000001", "0.000000000000000001", ".0000000000000000001",
	"1.00000000000000000", "-.000000000000000010", "123456789012345678", "12345678901234567.8",
	"123456789012345678.", "-123456789012345678.", "1234567890123456789.", "-12345678901234567.80",
	"100000000000000000", "1000000000000000000", "10000000000000000000",
}

// A number of few digits takes a shorter way, and must come out as it does on the long one.
func TestShortNumbersAreReadAsLongOnesAre(t *testing.T) {
	t.Parallel()
	for _, s := range edgeTexts {
		shortAgrees(t, s)
	}
	for _, s := range []string{"0", "-0", "1.", ".5", "+1", "-12.500", "999999999999999999",
		"-.000000000000000001"} {
		if _, ok := parseShort(s); !ok {
			t.Errorf("%q goes the long way", s)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	const alphabet = "000000123456789999..-+e"
	var b [24]byte
	for range 200_000 {
		text := b[:random.IntN(len(b)+1)]
		for i := range text {
			text[i] = alphabet[random.IntN(len(alphabet))]
			if i > 0 && random.IntN(4) > 0 { // mostly digits
				text[i] = '0' + byte(random.IntN(10))
			}
		}
		shortAgrees(t, string(text))
	}
}

func TestShortNumbersAreCanonicalAsLongOnesAre(t *testing.T) {
	t.Parallel()
	coefficients := []int64{0, 1, -1, 10, -10, 5, 100, 1e17, 1e18, -1e18, 999999999999999999,
		-999999999999999990, math.MaxInt64, math.MinInt64, math.MinInt64 + 8, 9223372036854775800,
		123456789012345678}
	random := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		n := random.Int64() >> random.IntN(63)
		coefficients = append(coefficients, n, -n, n/1000*1000)
	}
	for _, n := range coefficients {
		for exp := int32(-maxDecimalText - 2); exp <= maxDecimalText+2; exp++ {
			canonicalAgrees(t, decimal.New(n, exp))
		}
	}
	ten := big.NewInt(10)
	for zeros := range int64(60) {
		for _, n := range coefficients[:60] {
			long := new(big.Int).Mul(big.NewInt(n), new(big.Int).Exp(ten, big.NewInt(zeros), nil))
			for _, exp := range []int32{-64, -40, -38, -19, -18, -17, -1, 0, 1} {
				canonicalAgrees(t, decimal.NewFromBigInt(long, exp))
			}
		}
	}
}

// BenchmarkBalance reads and checks a balance as it is done for each answer that has one.
func BenchmarkBalance(b *testing.B) {
	for _, s := range []string{"-12.5", "1204.50", "0", "99999999999999999999.999999999999999999"} {
		b.Run(s, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				d, err := ParseDecimal("cash_balance", s)
				if err != nil || checkDecimal("cash_balance", d) != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
