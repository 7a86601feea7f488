package faults

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/shopspring/decimal"

	"github.com/fourblocks2020/fencerow"
)

// class says what the ledger thinks of an entry, whatever else goes wrong.
type class string

const (
	plain    class = ""         // books it
	refused  class = "refused"  // 422, always: permanent_failure
	conflict class = "conflict" // 409 with other content, always: conflict_blocked
	repaired class = "repaired" // 422 until an operator has seen to it and requeues the entry
	locked   class = "locked"   // 423 until then: dead_lettered
)

// final is the status in which an entry of the class ends.
func (c class) final() fencerow.Status {
	switch c {
	case refused:
		return fencerow.StatusPermanentFailure
	case conflict:
		return fencerow.StatusConflictBlocked
	case plain, repaired, locked:
	}
	return fencerow.StatusCompleted
}

// parked is the status that an entry of the class may have before an operator sees to it; empty if none.
func (c class) parked() fencerow.Status {
	switch c {
	case repaired:
		return fencerow.StatusPermanentFailure
	case locked:
		return fencerow.StatusDeadLettered
	case plain, refused, conflict:
	}
	return ""
}

// payloadSentinel is in every payload, and must be in no output.
const payloadSentinel = "pAyl0ad-s3ntinel"

// entry is entry number n of an instance. Instances share correlation ids, and nothing else of two entries is
// alike.
type entry struct {
	instance string
	n        int
	class    class
}

// numbered returns entry n of a run in which one in every so many entries is of a class of its own.
func numbered(instance string, n, every int) entry {
	e := entry{instance: instance, n: n}
	if n%every == every/2 {
		e.class = []class{refused, repaired, conflict, locked}[n/every%4]
	}
	return e
}

func (e entry) id() string {
	if e.class == plain {
		return fmt.Sprintf("e-%07d", e.n)
	}
	return fmt.Sprintf("e-%07d-%s", e.n, e.class)
}

// numberOf reads the number and class out of a correlation id.
func numberOf(id string) (n int, c class, ok bool) {
	number, isEntry := strings.CutPrefix(id, "e-")
	number, name, _ := strings.Cut(number, "-")
	n, err := strconv.Atoi(number)
	return n, class(name), isEntry && err == nil
}

func (e entry) slot() string { return fmt.Sprintf("slot-%d", e.n%7) }

func (e entry) delta() decimal.Decimal {
	cents := int64(e.n%9000*10 + e.n%9 + 1)
	if e.n%2 == 1 {
		cents = -cents
	}
	return decimal.New(cents, -2)
}

func (e entry) payload() string {
	return fmt.Sprintf(`{"owner":"%s", "n":%d,"n":%d.0e0 ,"memo":"\u0000%s é\/"}`,
		e.instance, e.n, e.n, payloadSentinel)
}

// body is what the ledger must be sent, byte for byte.
func (e entry) body() string {
	return fmt.Sprintf(`{"instance_key":"%s","correlation_id":"%s","entry_kind":"fill","slot_id":"%s",`+
		`"currency":"USD","cash_delta":"%s","payload":%s}`, e.instance, e.id(), e.slot(), e.delta(), e.payload())
}

func (e entry) new() fencerow.NewEntry {
	return fencerow.NewEntry{
		CorrelationID: fencerow.CorrelationID(e.id()), EntryKind: "fill", SlotID: fencerow.SlotID(e.slot()),
		CashDelta: e.delta(), Currency: "USD", Payload: []byte(e.payload()), OpenSkip: e.n%5 == 0,
	}
}
