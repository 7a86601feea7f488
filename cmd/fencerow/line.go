package main

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/jsonwalk"
)

// The members of an entry's line, which `fencerow enqueue` reads and `fencerow legacy export` writes.
const (
	memberCorrelationID = "correlation_id"
	memberEntryKind     = "entry_kind"
	memberSlotID        = "slot_id"
	memberCashDelta     = "cash_delta"
	memberCurrency      = "currency"
	memberPayload       = "payload"
	memberTraceParent   = "traceparent"
	memberSkip          = "skip"
)

// parseEntryLine reads an entry from one line of JSON and validates it. Names are exact, none may be unknown
// or given twice, and the payload's bytes stay as they are. The payload does not alias the line. The error is
// an [*fencerow.InputError].
func parseEntryLine(line []byte) (fencerow.NewEntry, error) {
	var e fencerow.NewEntry
	if !jsonwalk.IsObject(line) {
		return e, usage("the line", "is not a JSON object")
	}
	seen := map[string]bool{}
	for name, value := range jsonwalk.Members(line) {
		member := string(name)
		if seen[member] {
			return e, usage(member, "is given twice")
		}
		seen[member] = true
		if err := setMember(&e, member, value); err != nil {
			return e, err
		}
	}
	return e, e.Validate()
}

func setMember(e *fencerow.NewEntry, member string, value []byte) error {
	var err error
	switch member {
	case memberCorrelationID:
		e.CorrelationID, err = readText[fencerow.CorrelationID](member, value)
	case memberEntryKind:
		e.EntryKind, err = readText[string](member, value)
	case memberSlotID:
		e.SlotID, err = readOptional[fencerow.SlotID](member, value)
	case memberCurrency:
		e.Currency, err = readOptional[string](member, value)
	case memberTraceParent:
		e.TraceParent, err = readOptional[string](member, value)
	case memberCashDelta:
		var amount string
		if amount, err = readOptional[string](member, value); err == nil && amount != "" {
			e.CashDelta, err = fencerow.ParseDecimal(member, amount)
		}
	case memberSkip:
		switch string(value) {
		case "true":
			e.OpenSkip = true
		case "false", "null":
		default:
			return usage(member, "must be true or false")
		}
	case memberPayload:
		e.Payload = bytes.Clone(value)
	default:
		return usage("the line", "has a member that is none of %s", strings.Join([]string{
			memberCorrelationID, memberEntryKind, memberSlotID, memberCashDelta, memberCurrency, memberPayload,
			memberTraceParent, memberSkip}, ", "))
	}
	return err
}

// readText reads a string, or null as no text.
func readText[T ~string](member string, value []byte) (T, error) {
	if jsonwalk.IsNull(value) {
		return "", nil
	}
	s, ok := jsonwalk.String(value)
	if !ok {
		return "", usage(member, "must be a string, in quotes")
	}
	return T(s), nil
}

// readOptional is readText of what may be absent. An empty text is most likely a variable that was not set.
func readOptional[T ~string](member string, value []byte) (T, error) {
	s, err := readText[T](member, value)
	if err == nil && s == "" && !jsonwalk.IsNull(value) {
		err = usage(member, "must not be empty; leave it out, or write null")
	}
	return s, err
}

// appendMember appends a member to an object that has begun. Everything but printable ASCII is escaped: the
// text is whatever an older schema allowed, and a terminal must not obey it.
func appendMember(line []byte, name string, value *string) []byte {
	if line[len(line)-1] != '{' {
		line = append(line, ',')
	}
	line = append(line, '"')
	line = append(line, name...)
	line = append(line, `":`...)
	if value == nil {
		return append(line, "null"...)
	}
	return appendASCII(line, *value)
}

func appendASCII(line []byte, s string) []byte {
	quoted, err := json.Marshal(s)
	if err != nil {
		panic("fencerow: a string does not marshal")
	}
	for _, r := range string(quoted) {
		switch {
		case r < 0x7f:
			line = append(line, byte(r))
		case r < 0x10000:
			line = appendEscape(line, r)
		default:
			r -= 0x10000
			line = appendEscape(line, 0xd800+r>>10)
			line = appendEscape(line, 0xdc00+r&0x3ff)
		}
	}
	return line
}

func appendEscape(line []byte, unit rune) []byte {
	const digits = "0123456789abcdef"
	return append(line, '\\', 'u', digits[unit>>12&15], digits[unit>>8&15], digits[unit>>4&15], digits[unit&15])
}
