package e2e

import (
	"bytes"
	"fmt"

	"github.com/shopspring/decimal"

	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
)

// numbered is entry number n of an instance, made so that no two entries of any instances are alike in more
// than their correlation ids: instances share those.
type numbered struct {
	instance string
	n        int
}

func (e numbered) id() string { return fmt.Sprintf("e-%05d", e.n) }

// key is the idempotency key that the ledger sees.
func (e numbered) key() string { return e.instance + ":" + e.id() }

// slot is empty for one entry in six.
func (e numbered) slot() string {
	if e.n%6 == 5 {
		return ""
	}
	return fmt.Sprintf("slot-%d", e.n%6)
}

// delta is nothing for one entry in seven, and has no trailing zero.
func (e numbered) delta() decimal.Decimal {
	if e.n%7 == 0 {
		return decimal.Zero
	}
	tenths := int64(e.n%900*10 + e.n%9 + 1)
	if e.n%2 == 1 {
		tenths = -tenths
	}
	return decimal.New(tenths, -1)
}

func (e numbered) currency() string {
	if e.n%7 == 0 {
		return ""
	}
	return []string{"EUR", "JPY", "USD"}[e.n%3]
}

// payload has what a program that reads and writes JSON would change: spaces, a repeated key, numbers written
// in more than one way, escapes that are not needed.
func (e numbered) payload() string {
	return fmt.Sprintf(`{"owner":"%s", "n":%d,"n":%d.0e0 ,"price":1.1000,"big":1%030d,`+
		`"memo":"\u0000caf\u00e9 é\/😀"}`,
		e.instance, e.n, e.n, e.n)
}

func orNull(s string) string {
	if s == "" {
		return "null"
	}
	return `"` + s + `"`
}

// line is the entry as `fencerow enqueue` reads it.
func (e numbered) line() string {
	return fmt.Sprintf(`{"correlation_id":"%s","entry_kind":"fill","slot_id":%s,"cash_delta":"%s",`+
		`"currency":%s,"skip":%t,"payload":%s}`+"\n",
		e.id(), orNull(e.slot()), e.delta(), orNull(e.currency()), e.n%5 == 0, e.payload())
}

// body is what the ledger must be sent, byte for byte.
func (e numbered) body() string {
	return fmt.Sprintf(`{"instance_key":"%s","correlation_id":"%s","entry_kind":"fill","slot_id":%s,`+
		`"currency":%s,"cash_delta":"%s","payload":%s}`,
		e.instance, e.id(), orNull(e.slot()), orNull(e.currency()), e.delta(), e.payload())
}

// enqueueNumbered enqueues the entries from..to-1 of an instance.
func (w *world) enqueueNumbered(instance string, from, to int) {
	w.t.Helper()
	var lines bytes.Buffer
	for n := from; n < to; n++ {
		lines.WriteString(numbered{instance, n}.line())
	}
	w.enqueueLines(instance, lines.Bytes())
}

// checkBooked fails the test unless the ledger has booked the entries 0..n-1 of the instance, byte for byte,
// and nothing else.
func (w *world) checkBooked(stub *ledgerstub.Stub, instance string, n int) {
	w.t.Helper()
	booked := map[string]string{}
	for _, b := range stub.Bookings() {
		booked[b.Key] = string(b.Body)
	}
	equal(w.t, "entries booked for "+instance, len(booked), n)
	wrong := 0
	for i := range n {
		e := numbered{instance, i}
		if got := booked[e.key()]; got != e.body() {
			if wrong++; wrong <= 3 {
				w.t.Errorf("booked under %s: %q, want %q", e.key(), got, e.body())
			}
		}
	}
	equal(w.t, "entries of "+instance+" not booked with their own bytes", wrong, 0)
}
