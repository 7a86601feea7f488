// Package ledger delivers entries to an external ledger over HTTP. It turns every way in which that can end
// into a [fencerow.Answer]: a class, whether the ledger may have booked the entry (certainty), and whose
// fault a failure is (scope). Status alone never decides: ledgers disagree about what 202, 400, 409 and 422
// mean.
//
// # One send is one wire request
//
// Retries inside a call would run outside the claim's lease, so there are none: a request is written once, on
// a connection that nothing else uses until its answer is read. The one exception is made here and seen:
// where not one byte could be written on a connection that had been used before, the request goes out once
// more on a fresh one. Each exchange counts the bytes that it writes, which tells "not sent" from "unknown".
// A connection on which anything has come in while it was idle is not used again: its bytes would be taken
// for the next answer. HTTP/1.1 only; requests' heads and answers are written and read by package net/http.
//
// # What never leaves
//
// Raw errors, URLs, tokens, and anything the ledger wrote other than its reference and snapshot (both
// checked) stay inside; callers see codes.
package ledger
