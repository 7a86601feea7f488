package badinput

import (
	"encoding/json"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// rule reports whether a setting may have a value.
type rule func(text string) bool

// nothing is the rule of a setting to which none of the values belongs, such as a file with a certificate.
func nothing(string) bool { return false }

// anything is the rule of a text that is only compared.
func anything(text string) bool { return utf8.ValidString(text) && !strings.Contains(text, "\x00") }

// optional is the rule of a setting that may be empty, which is as if it were not given.
func optional(r rule) rule { return func(text string) bool { return text == "" || r(text) } }

func word(words ...string) rule {
	return func(text string) bool { return slices.Contains(words, text) }
}

// yesNo is the rule of a switch.
func yesNo(text string) bool {
	return word("true", "1", "yes", "false", "0", "no")(strings.ToLower(text))
}

// matching is the rule of what a pattern describes whole.
func matching(pattern string) rule {
	p := regexp.MustCompile(`^(?:` + pattern + `)$`)
	return func(text string) bool { return p.MatchString(text) && !strings.HasSuffix(text, "\n") }
}

// graphic is the rule of a name: printable ASCII without space.
func graphic(longest int) rule {
	letters := matching(`[!-~]+`)
	return func(text string) bool { return letters(text) && len(text) <= longest }
}

// rational reads a decimal number of any size exactly.
func rational(text string) *big.Rat {
	if len(text) > 1000 {
		return nil // No number that anybody means is written so.
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		panic("badinput: " + text + " is no number")
	}
	return r
}

func within(value *big.Rat, lowest, highest string) bool {
	return value != nil && value.Cmp(rational(lowest)) >= 0 && value.Cmp(rational(highest)) <= 0
}

// whole is the rule of a whole number, written in decimal digits.
func whole(lowest, highest string) rule {
	digits := matching(`[+-]?[0-9]+`)
	return func(text string) bool { return digits(text) && within(rational(text), lowest, highest) }
}

// number is the rule of a number, which may have a fraction and an exponent.
func number(lowest, highest string) rule {
	decimal := matching(`[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?`)
	return func(text string) bool { return decimal(text) && within(rational(text), lowest, highest) }
}

var (
	durations = matching(`[+-]?0|[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+`)
	part      = regexp.MustCompile(`([0-9.]+)([^0-9.]+)`)
	units     = map[string]string{
		"ns": "1e-9", "us": "1e-6", "µs": "1e-6", "μs": "1e-6", "ms": "1e-3", "s": "1", "m": "60", "h": "3600",
	}
)

// duration is the rule of a duration with its units, within bounds in seconds.
func duration(lowest, highest string) rule {
	return func(text string) bool {
		if !durations(text) {
			return false
		}
		sum := new(big.Rat)
		for _, m := range part.FindAllStringSubmatch(text, -1) {
			sum.Add(sum, new(big.Rat).Mul(rational(m[1]), rational(units[m[2]])))
		}
		if strings.HasPrefix(text, "-") {
			sum.Neg(sum)
		}
		return within(sum, lowest, highest)
	}
}

// longestDuration is what 64 bits of nanoseconds hold, in seconds.
const longestDuration = "9223372036"

// age is the rule of how long ago something was: a duration, or a number of days that two bytes hold. A zero
// has its unit.
func age(text string) bool {
	if days, isDays := strings.CutSuffix(text, "d"); isDays {
		return matching(`[0-9]+`)(days) && whole("0", "65535")(days)
	}
	return strings.Trim(text, "+-0") != "" && duration("0", longestDuration)(text)
}

// amount is the rule of a decimal: 38 digits at most, 18 of them after the point.
func amount(text string) bool {
	return matching(`[+-]?([0-9]{1,38}|[0-9]{1,20}\.[0-9]{0,18}|\.[0-9]{1,18})`)(text)
}

// object is the rule of a payload.
func object(text string) bool {
	var members map[string]json.RawMessage
	return utf8.ValidString(text) && json.Unmarshal([]byte(text), &members) == nil && members != nil
}

// listOf is the rule of several values with commas between them.
func listOf(r rule) rule {
	return func(text string) bool {
		for element := range strings.SplitSeq(text, ",") {
			if !r(element) {
				return false
			}
		}
		return true
	}
}
