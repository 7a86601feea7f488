package ledger

import (
	"net/http"
	"strings"

	"github.com/fourblocks2020/fencerow/internal/jsonwalk"
)

// problemKind is what the body of a 400, 409 or 422 says, as far as we understand it.
type problemKind int

const (
	problemUnknown problemKind = iota
	// problemMismatch: the ledger has other content under our key.
	problemMismatch
	// problemInFlight: another request with our key is being worked on.
	problemInFlight
	// problemStaleToken: the ledger has seen a higher fencing token.
	problemStaleToken
)

// problemWords are the last segments of RFC 9457 types, and the codes, that ledgers use; lower case, "-" for
// "_". Words such as "conflict" are not among them: they say no more than the status does.
var problemWords = map[string]problemKind{
	"stale-fencing-token": problemStaleToken,

	"idempotency-error":                  problemMismatch, // Stripe's type; its code for in flight goes first
	"idempotency-mismatch":               problemMismatch,
	"idempotency-conflict":               problemMismatch,
	"idempotency-content-mismatch":       problemMismatch,
	"idempotency-parameter-mismatch":     problemMismatch,
	"idempotency-payload-mismatch":       problemMismatch,
	"idempotency-key-mismatch":           problemMismatch,
	"idempotency-key-conflict":           problemMismatch,
	"idempotency-key-reuse":              problemMismatch,
	"idempotency-key-reused":             problemMismatch,
	"idempotency-key-already-used":       problemMismatch,
	"idempotency-key-already-used-error": problemMismatch,
	"content-conflict":                   problemMismatch,
	"content-mismatch":                   problemMismatch,

	"in-flight":                   problemInFlight,
	"request-in-flight":           problemInFlight,
	"request-in-progress":         problemInFlight,
	"idempotency-in-progress":     problemInFlight,
	"idempotency-key-in-use":      problemInFlight,
	"idempotency-key-in-progress": problemInFlight,
}

// problemOf reads a body: result, type and code at the top, type and code inside "error". A code that means
// in flight wins over a type that means mismatch, since it is the finer word; nothing else contradicts
// anything.
func problemOf(response *http.Response, body []byte) problemKind {
	if !isJSON(response.Header) || !jsonwalk.IsObject(body) {
		return problemUnknown
	}
	kind := problemUnknown
	for name, value := range jsonwalk.Members(body) {
		switch string(name) {
		case "result":
			if word, _ := jsonwalk.String(value); word == resultConflict {
				kind = max(kind, problemMismatch)
			}
		case "type", "code":
			kind = finer(kind, value)
		case "error":
			if !jsonwalk.IsNested(value) {
				kind = finer(kind, value)
				continue
			}
			for name, value := range jsonwalk.Members(value) {
				if string(name) == "type" || string(name) == "code" {
					kind = finer(kind, value)
				}
			}
		}
	}
	return kind
}

// finer returns the more telling of kind and what the word in value means.
func finer(kind problemKind, value []byte) problemKind {
	word, _ := jsonwalk.String(value)
	word = strings.TrimRight(word, "/")
	word = word[strings.LastIndexAny(word, "/#:")+1:]
	return max(kind, problemWords[strings.ReplaceAll(strings.ToLower(word), "_", "-")])
}
