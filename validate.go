package fencerow

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fourblocks2020/fencerow/internal/jsonwalk"
)

// Limits. Everything that a caller can pass is bounded by one of these.
const (
	MaxInstanceKey   = 128
	MaxCorrelationID = 200
	MaxSlotID        = 128
	MaxEntryKind     = 63
	MaxPayload       = 256 << 10 // bytes
	MaxPayloadDepth  = 512       // levels of nesting; PostgreSQL's parser is recursive and its stack bounded
	MaxBatch         = 1000      // rows in one claim, one record, one release
	MaxEnqueue       = 10_000    // entries in one EnqueueMany
	MaxPage          = 10_000    // rows of one page of a listing
	MaxAttempts      = 1000
	MinLease         = time.Second
	MaxLease         = time.Hour
	MaxDelay         = 24 * time.Hour // of a retry, from the moment its outcome is recorded
	MaxWorkerID      = 128
	MaxStrategy      = 128
	maxDigits        = 38
	maxScale         = 18
	maxDecimalText   = 64 // longer than any decimal within the bounds; checked before parsing
)

// ParseInstanceKey checks s and returns it as an [InstanceKey].
func ParseInstanceKey(s string) (InstanceKey, error) {
	return InstanceKey(s), InstanceKey(s).Validate()
}

// Validate reports an [*InputError] unless the key is well formed.
func (k InstanceKey) Validate() error {
	return checkGraphic("instance_key", string(k), MaxInstanceKey)
}

// ParseCorrelationID checks s and returns it as a [CorrelationID].
func ParseCorrelationID(s string) (CorrelationID, error) {
	return CorrelationID(s), CorrelationID(s).Validate()
}

// Validate reports an [*InputError] unless the id is well formed.
func (c CorrelationID) Validate() error {
	return checkGraphic("correlation_id", string(c), MaxCorrelationID)
}

// Validate reports an [*InputError] unless the id is well formed; the empty id, none, is not.
func (s SlotID) Validate() error { return checkGraphic("slot_id", string(s), MaxSlotID) }

// Validate reports an [*InputError] unless the id is well formed.
func (w WorkerID) Validate() error { return checkGraphic("worker", string(w), MaxWorkerID) }

// checkGraphic accepts 1 to limit characters of printable ASCII without space. The value is never repeated in
// the error: a mistaken paste may hold a secret.
func checkGraphic(field, s string, limit int) error {
	if s == "" {
		return &InputError{Field: field, Problem: "is missing; give 1 to " + itoa(limit) +
			" characters of printable ASCII without space"}
	}
	if len(s) > limit {
		return &InputError{Field: field, Problem: "is longer than " + itoa(limit) + " characters"}
	}
	for i := range len(s) {
		if s[i] < '!' || s[i] > '~' {
			return &InputError{Field: field, Problem: "holds a character other than printable ASCII without space"}
		}
	}
	return nil
}

// Validate checks every rule that the database checks too, so that bad input is refused with a clear message
// before a connection is used. The error is an [*InputError].
func (n *NewEntry) Validate() error {
	if err := n.CorrelationID.Validate(); err != nil {
		return err
	}
	if !validKind(n.EntryKind) {
		return &InputError{Field: "entry_kind", Problem: "must match ^[a-z][a-z0-9_]{0,62}$, such as fill or fee"}
	}
	if n.SlotID != "" {
		if err := n.SlotID.Validate(); err != nil {
			return err
		}
	}
	if err := checkDecimal("cash_delta", n.CashDelta); err != nil {
		return err
	}
	if n.Currency != "" && !ValidCurrency(n.Currency) {
		return &InputError{Field: "currency", Problem: "must be 3 to 12 upper-case letters or digits"}
	}
	if n.Currency == "" && !n.CashDelta.IsZero() {
		return &InputError{Field: "currency", Problem: "is required with a cash_delta other than 0"}
	}
	if n.TraceParent != "" && !validTraceParent(n.TraceParent) {
		return &InputError{Field: "traceparent", Problem: "is not a W3C traceparent (00-<32 hex>-<16 hex>-<2 hex>)"}
	}
	return checkPayload(n.Payload)
}

// checkPayload takes one look at what is as it should be, and more at the rest, to say why it is not.
func checkPayload(p json.RawMessage) error {
	if len(p) <= MaxPayload && utf8.Valid(p) && jsonwalk.IsObjectWithin(p, MaxPayloadDepth) {
		return nil
	}
	var problem string
	switch {
	case len(p) == 0:
		problem = "is missing; give a JSON object"
	case len(p) > MaxPayload:
		problem = "is larger than " + itoa(MaxPayload) + " bytes"
	case !utf8.Valid(p):
		problem = "is not valid UTF-8"
	case bytes.IndexByte(p, 0) >= 0:
		problem = "holds a NUL byte"
	case !json.Valid(p):
		problem = "is not valid JSON"
	case bytes.TrimLeft(p, " \t\r\n")[0] != '{':
		problem = "is not a JSON object"
	default:
		problem = "is nested deeper than " + itoa(MaxPayloadDepth) + " levels"
	}
	return &InputError{Field: "payload", Problem: problem}
}

func validKind(s string) bool {
	if s == "" || len(s) > MaxEntryKind || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// ValidCurrency reports whether s matches ^[A-Z0-9]{3,12}$.
func ValidCurrency(s string) bool {
	return len(s) >= 3 && len(s) <= 12 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == ""
}

// validTraceParent accepts version 00 of the W3C trace context; ids of only zeros are invalid there.
func validTraceParent(s string) bool {
	if len(s) != 55 || s[:3] != "00-" || s[35] != '-' || s[52] != '-' {
		return false
	}
	trace, span, flags := s[3:35], s[36:52], s[53:]
	return isLowerHex(trace) && isLowerHex(span) && isLowerHex(flags) &&
		strings.Trim(trace, "0") != "" && strings.Trim(span, "0") != ""
}

func isLowerHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

// ValidLedgerRef reports whether s may be stored as a ledger's reference: ^[A-Za-z0-9._:-]{1,64}$. Anything
// else a ledger sends as its reference is dropped: it could be provider text.
func ValidLedgerRef(s string) bool {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-"
	return s != "" && len(s) <= 64 && strings.Trim(s, allowed) == ""
}
