// Package ledger delivers entries to an external ledger over HTTP. It turns every way in which that can end
// into a [fencerow.Answer]: a class, whether the ledger may have booked the entry (certainty), and whose
// fault a failure is (scope). Status alone never decides: ledgers disagree about what 202, 400, 409 and 422
// mean.
//
// # One send is one wire request
//
// Retries inside a call would run outside the claim's lease, so there are none. Go's transport sends a POST
// with an Idempotency-Key again by itself when a reused connection fails; requests therefore carry no
// GetBody. The one exception is made here and seen: where not one byte was written on a reused connection,
// the request goes out once more on a fresh connection. Each connection counts the bytes written to it, which
// tells "not sent" from "unknown". HTTP/1.1 only: HTTP/2 has a retry of its own.
//
// # What never leaves
//
// Raw errors, URLs, tokens, and anything the ledger wrote other than its reference and snapshot (both
// checked) stay inside; callers see codes.
package ledger
