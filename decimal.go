package fencerow

import (
	"strings"

	"github.com/shopspring/decimal"
)

// shortDigits is how many digits an int64 always holds. Numbers of no more are handled without big integers
// and without their text: every answer with a snapshot goes through here, twice.
const shortDigits = 18

// ParseDecimal reads a decimal within the bounds of a cash delta, in canonical form (no trailing zeros after
// the point). Exponents are refused: "1e999999999" is small as text and enormous as a number.
func ParseDecimal(field, s string) (decimal.Decimal, error) {
	if d, ok := parseShort(s); ok {
		return d, nil
	}
	if s == "" || len(s) > maxDecimalText || strings.Trim(s, "+-.0123456789") != "" {
		return decimal.Decimal{}, &InputError{Field: field, Problem: "is not a plain decimal number such as -12.50"}
	}
	d, err := decimal.NewFromString(s)
	if err != nil {
		return decimal.Decimal{}, &InputError{Field: field, Problem: "is not a plain decimal number such as -12.50"}
	}
	d = CanonicalDecimal(d)
	return d, checkDecimal(field, d)
}

// parseShort reads a plain number of at most [shortDigits] digits, which is within the bounds wherever its
// point is. It leaves all others, and what is no number, to the caller.
func parseShort(s string) (decimal.Decimal, bool) {
	const signAndPoint = 2
	if s == "" || len(s) > shortDigits+signAndPoint {
		return decimal.Decimal{}, false
	}
	unsigned := s
	if s[0] == '-' || s[0] == '+' {
		unsigned = s[1:]
	}
	n, digits, point := int64(0), 0, -1
	for i := range len(unsigned) {
		switch c := unsigned[i]; {
		case c >= '0' && c <= '9':
			n = n*10 + int64(c-'0')
			digits++
		case c == '.' && point < 0:
			point = digits
		default:
			return decimal.Decimal{}, false
		}
	}
	if digits == 0 || digits > shortDigits {
		return decimal.Decimal{}, false
	}
	if s[0] == '-' {
		n = -n
	}
	exp := int32(0)
	if point >= 0 {
		exp = int32(point - digits)
	}
	return stripZeros(n, exp), true
}

// stripZeros returns n * 10^exp without trailing zeros after the point.
func stripZeros(n int64, exp int32) decimal.Decimal {
	if n == 0 {
		return decimal.Decimal{}
	}
	for ; exp < 0 && n%10 == 0; exp++ {
		n /= 10
	}
	return decimal.New(n, exp)
}

// CanonicalDecimal strips trailing zeros after the point: equal numbers get equal text. A number whose
// exponent is far out of bounds is returned as it is; validation refuses it.
func CanonicalDecimal(d decimal.Decimal) decimal.Decimal {
	if d.IsZero() {
		return decimal.Decimal{}
	}
	exp := d.Exponent()
	if exp >= 0 || exp < -maxDecimalText {
		return d
	}
	if d.NumDigits() > shortDigits {
		return stripLong(d)
	}
	n := d.CoefficientInt64()
	if n%10 != 0 {
		return d
	}
	return stripZeros(n, exp)
}

// stripLong is stripZeros for any number of digits.
func stripLong(d decimal.Decimal) decimal.Decimal {
	text := d.StringFixed(-d.Exponent())
	out, err := decimal.NewFromString(strings.TrimSuffix(strings.TrimRight(text, "0"), "."))
	if err != nil {
		panic("fencerow: a decimal's own text does not parse")
	}
	return out
}

func checkDecimal(field string, d decimal.Decimal) error {
	if d.IsZero() {
		return nil
	}
	exp, digits := int(d.Exponent()), d.NumDigits()
	if exp <= 0 && exp >= -maxScale && digits <= maxDigits {
		return nil // Without its trailing zeros it would only be shorter.
	}
	if exp < -maxDecimalText || exp > maxDecimalText || digits > 2*maxDecimalText {
		return &InputError{Field: field, Problem: "has more than 38 digits or more than 18 after the point"}
	}
	d = CanonicalDecimal(d)
	scale := max(0, -int(d.Exponent()))
	whole := max(0, d.NumDigits()+int(d.Exponent()))
	if scale > maxScale || whole+scale > maxDigits {
		return &InputError{Field: field, Problem: "has more than 38 digits or more than 18 after the point"}
	}
	return nil
}
