package fencerow

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/shopspring/decimal"
)

// InstanceKey names the instance that owns an entry: 1 to [MaxInstanceKey] characters of printable ASCII
// without space. The zero value is invalid and refused everywhere (invariant I1).
type InstanceKey string

// CorrelationID identifies an entry within its instance: 1 to [MaxCorrelationID] characters of printable
// ASCII without space.
type CorrelationID string

// OutboxID is the database's number of an entry. It says nothing about order of commit.
type OutboxID int64

// SlotID names the strategy slot an entry belongs to; empty means none. Same syntax as [InstanceKey].
type SlotID string

// NewEntry is what a producer enqueues. All of it but TraceParent and OpenSkip is the entry's content:
// enqueueing the same instance key and correlation id again with equal content is a duplicate and a no-op,
// with other content a conflict.
type NewEntry struct {
	CorrelationID CorrelationID
	// EntryKind is a short lower-case word such as "fill", "fee", "dividend": ^[a-z][a-z0-9_]{0,62}$.
	EntryKind string
	// SlotID is optional.
	SlotID SlotID
	// CashDelta is the entry's effect on the slot's cash: finite, at most 38 digits, at most 18 of them after
	// the point. Trailing zeros do not count: 1.50 and 1.5 are the same content and both are sent as "1.5".
	CashDelta decimal.Decimal
	// Currency is required with a non-zero CashDelta: ^[A-Z0-9]{3,12}$. Empty means none.
	Currency string
	// Payload is a JSON object of at most [MaxPayload] bytes of valid UTF-8 without NUL. Its bytes are kept and
	// sent unchanged.
	Payload json.RawMessage
	// TraceParent is the enqueuer's W3C trace context; empty means none. It is not part of the content.
	TraceParent string
	// OpenSkip records that the slot's step was skipped because this entry is not yet in the ledger. It is
	// resolved once the entry is a fenced success and the slot's snapshot, if the ledger gives any, was
	// accepted.
	OpenSkip bool
}

// Entry is an enqueued entry. It never changes.
type Entry struct {
	OutboxID      OutboxID
	Instance      InstanceKey
	CorrelationID CorrelationID
	EntryKind     string
	SlotID        SlotID
	CashDelta     decimal.Decimal
	Currency      string
	Payload       json.RawMessage
	TraceParent   string
	EnqueuedAt    time.Time
}

// AppendDocument appends the entry document, the JSON body that every delivery attempt sends, to b. It is
// built from what was enqueued alone, in a fixed order, so that all attempts are equal byte for byte
// (invariant I9): ledgers that hash or compare the body would otherwise report a false conflict. Absent slot
// id and currency are null; cash_delta is a decimal string.
func (e *Entry) AppendDocument(b []byte) []byte {
	b = append(b, `{"instance_key":`...)
	b = appendString(b, string(e.Instance))
	b = append(b, `,"correlation_id":`...)
	b = appendString(b, string(e.CorrelationID))
	b = append(b, `,"entry_kind":`...)
	b = appendString(b, e.EntryKind)
	b = append(b, `,"slot_id":`...)
	b = appendStringOrNull(b, string(e.SlotID))
	b = append(b, `,"currency":`...)
	b = appendStringOrNull(b, e.Currency)
	b = append(b, `,"cash_delta":"`...)
	b = append(b, e.CashDelta.String()...)
	b = append(b, `","payload":`...)
	b = append(b, e.Payload...)
	return append(b, '}')
}

// SameContent reports whether e and what n would have become under the same instance are the same entry
// document.
func (e *Entry) SameContent(n *NewEntry) bool {
	return e.CorrelationID == n.CorrelationID && e.EntryKind == n.EntryKind && e.SlotID == n.SlotID &&
		e.Currency == n.Currency && e.CashDelta.Equal(n.CashDelta) && bytes.Equal(e.Payload, n.Payload)
}

func appendStringOrNull(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	return appendString(b, s)
}

// appendString writes s as a JSON string. The strings are printable ASCII by validation, so only quote and
// backslash need escaping.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, s[i])
	}
	return append(b, '"')
}

// EnqueueResult says what became of one entry of an enqueue.
type EnqueueResult string

// The results of an enqueue. A conflict wrote nothing for that entry.
const (
	EnqueueInserted  EnqueueResult = "inserted"
	EnqueueDuplicate EnqueueResult = "duplicate"
	EnqueueConflict  EnqueueResult = "conflict"
)

// Enqueued is the result of one entry, in the order of the call.
type Enqueued struct {
	Result EnqueueResult
	// OutboxID is the entry's own id, or for a duplicate or a conflict the id of the entry that was there first.
	OutboxID OutboxID
}
