package fencerow

import "strings"

// ReasonCode says why, in a closed vocabulary; docs/operations.md explains each. Text of a provider or an
// error never is a reason.
type ReasonCode string

// Unverified is the suffix of a reason under which an entry was parked although bytes of an earlier attempt
// may have been booked and the ledger could not be asked.
const Unverified = "_unverified"

// Reasons of the ledger's answer.
const (
	ReasonEchoConflict       ReasonCode = "echo_conflict"       // a success whose echo contradicts what was sent
	ReasonContentConflict    ReasonCode = "content_conflict"    // the ledger has other content under our key
	ReasonConflict           ReasonCode = "conflict"            // 409s that never resolved
	ReasonAnswerUnreadable   ReasonCode = "answer_unreadable"   // not HTTP, or a 2xx without an answer document
	ReasonAnswerIncomplete   ReasonCode = "answer_incomplete"   // 2xx without the echo that is required
	ReasonAcceptedNotBooked  ReasonCode = "accepted_not_booked" // 202
	ReasonUnexpectedSuccess  ReasonCode = "unexpected_success"  // another 2xx, or one that came too early
	ReasonRedirected         ReasonCode = "redirected"          // 3xx, never followed
	ReasonBadRequest         ReasonCode = "bad_request"         // 400
	ReasonCredentialsRefused ReasonCode = "credentials_refused" // 401, 403, 407
	ReasonRequestRefused     ReasonCode = "request_refused"     // 402, 411, 412, 414, 417, 431 and other 4xx
	ReasonEndpointRefused    ReasonCode = "endpoint_refused"    // 404, 405, 406, 410, 415, 501, 505
	ReasonRequestTimeout     ReasonCode = "request_timeout"     // 408
	ReasonInFlight           ReasonCode = "in_flight"           // 409 that does not say what it means
	ReasonTooLarge           ReasonCode = "too_large"           // 413
	ReasonMisdirected        ReasonCode = "misdirected"         // 421, 424
	ReasonContentRefused     ReasonCode = "content_refused"     // 422
	ReasonNotReady           ReasonCode = "not_ready"           // 423, 425
	ReasonThrottled          ReasonCode = "throttled"           // 429
	ReasonRetryableStatus    ReasonCode = "retryable_status"    // a 4xx configured as retryable
	ReasonLedgerError        ReasonCode = "ledger_error"        // 500
	ReasonLedgerUnavailable  ReasonCode = "ledger_unavailable"  // 502, 503, 504 and other 5xx
	ReasonStaleFencingToken  ReasonCode = "stale_fencing_token" // the ledger has seen a higher one for the key
)

// Reasons for which no answer came.
const (
	ReasonDNSFailed             ReasonCode = "dns_failed"
	ReasonConnectRefused        ReasonCode = "connect_refused"
	ReasonUnreachable           ReasonCode = "unreachable"
	ReasonDialTimeout           ReasonCode = "dial_timeout"
	ReasonTLSFailed             ReasonCode = "tls_failed"
	ReasonAddressBlocked        ReasonCode = "address_blocked"        // refused by our own address rules
	ReasonCredentialsUnreadable ReasonCode = "credentials_unreadable" // the token file cannot be read
	ReasonConnectionCut         ReasonCode = "connection_cut"         // reset or EOF after the first byte
	ReasonDeliveryTimeout       ReasonCode = "delivery_timeout"
	ReasonTrustWindowEnded      ReasonCode = "trust_window_ended"
	ReasonDeliveryPanicked      ReasonCode = "delivery_panicked"
	ReasonDeliveryStopped       ReasonCode = "delivery_stopped" // shutdown; never recorded, the row is released
)

// Reasons found by resolving, and the writer's own.
const (
	ReasonResolvedEqual     ReasonCode = "resolved_equal"     // the read-back found our content: booked before
	ReasonResolvedDifferent ReasonCode = "resolved_different" // the read-back found other content under our key
	ReasonResolvedAbsent    ReasonCode = "resolved_absent"    // the read-back found nothing
	ReasonLeaseExpired      ReasonCode = "lease_expired"      // the attempt ended by expiry of its lease
)

// ReasonCodes lists every reason that an outcome can have, but for those with the suffix [Unverified].
func ReasonCodes() []ReasonCode {
	return []ReasonCode{
		ReasonEchoConflict, ReasonContentConflict, ReasonConflict, ReasonAnswerUnreadable, ReasonAnswerIncomplete,
		ReasonAcceptedNotBooked, ReasonUnexpectedSuccess, ReasonRedirected, ReasonBadRequest,
		ReasonCredentialsRefused,
		ReasonRequestRefused, ReasonEndpointRefused, ReasonRequestTimeout, ReasonInFlight, ReasonTooLarge,
		ReasonMisdirected, ReasonContentRefused, ReasonNotReady, ReasonThrottled, ReasonRetryableStatus,
		ReasonLedgerError, ReasonLedgerUnavailable, ReasonStaleFencingToken,
		ReasonDNSFailed, ReasonConnectRefused, ReasonUnreachable, ReasonDialTimeout, ReasonTLSFailed,
		ReasonAddressBlocked, ReasonCredentialsUnreadable, ReasonConnectionCut, ReasonDeliveryTimeout,
		ReasonTrustWindowEnded, ReasonDeliveryPanicked, ReasonDeliveryStopped,
		ReasonResolvedEqual, ReasonResolvedDifferent, ReasonResolvedAbsent, ReasonLeaseExpired,
	}
}

// AsUnverified returns the reason marked as unverified; marking twice is the same as once.
func (r ReasonCode) AsUnverified() ReasonCode {
	if strings.HasSuffix(string(r), Unverified) {
		return r
	}
	return r + Unverified
}

// Valid reports whether r has the form that the database accepts: ^[a-z][a-z0-9_]{0,63}$.
func (r ReasonCode) Valid() bool {
	return len(r) >= 1 && len(r) <= 64 && r[0] >= 'a' && r[0] <= 'z' &&
		strings.Trim(string(r), "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}
