package fencerow

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"time"
)

// WorkerID names a worker to people (in `fencerow claims`). It never decides anything: a worker restarted
// under the same id does not take its predecessor's live lease for its own. 1 to [MaxWorkerID] characters of
// printable ASCII without space.
type WorkerID string

// ClaimToken is the random identity of one claim, the value that every outcome and release is compared with.
// It is made by the client, so that a claim whose answer was lost can still be given back. It is a version 4
// UUID and is not a secret towards the database, but is never logged: every print form is a constant, and
// [ClaimToken.UUID] is the one way to its text.
type ClaimToken [16]byte

// NewClaimToken returns a fresh random token.
func NewClaimToken() ClaimToken {
	var t ClaimToken
	rand.Read(t[:])
	t[6] = t[6]&0x0f | 0x40
	t[8] = t[8]&0x3f | 0x80
	return t
}

// IsZero reports whether t is the zero token, which no claim has.
func (t ClaimToken) IsZero() bool { return t == ClaimToken{} }

// claimTokenShown is what every print form of a [ClaimToken] shows.
const claimTokenShown = "[claim token]"

// String returns a constant.
func (t ClaimToken) String() string { return claimTokenShown }

// GoString returns a constant.
func (t ClaimToken) GoString() string { return claimTokenShown }

// Format writes a constant for every verb.
func (t ClaimToken) Format(f fmt.State, _ rune) { fmt.Fprint(f, claimTokenShown) }

// LogValue returns a constant.
func (t ClaimToken) LogValue() slog.Value { return slog.StringValue(claimTokenShown) }

// MarshalText returns a constant. JSON shows it too.
func (t ClaimToken) MarshalText() ([]byte, error) { return []byte(claimTokenShown), nil }

// UUID returns the canonical text form of the UUID.
func (t ClaimToken) UUID() string {
	var b [36]byte
	hex.Encode(b[:], t[:4])
	b[8] = '-'
	hex.Encode(b[9:], t[4:6])
	b[13] = '-'
	hex.Encode(b[14:], t[6:8])
	b[18] = '-'
	hex.Encode(b[19:], t[8:10])
	b[23] = '-'
	hex.Encode(b[24:], t[10:])
	return string(b[:])
}

// ClaimEpoch is the fencing token sent to the ledger. For one row it rises with each claim (invariant I8).
// Its size is that of a Unix time in microseconds; it is not a time.
type ClaimEpoch int64

// Claim is what a worker holds: the rows, the token that fences them and how long they are held.
type Claim struct {
	Instance InstanceKey
	Token    ClaimToken
	Epoch    ClaimEpoch
	// ClaimedAt and LeaseExpiresAt are the store's clock, for display. A worker computes its trust window from
	// its own clock.
	ClaimedAt, LeaseExpiresAt time.Time
	// Entries are the rows held, in order of (due time, outbox id). Empty if nothing was due; then there is no
	// claim to release.
	Entries []ClaimedEntry
	// More says that the claim ended at its limit, or before a row that must be claimed alone, so that another
	// claim at once may find more.
	More bool
}

// ClaimedEntry is an entry under a claim.
type ClaimedEntry struct {
	Entry
	// Attempt is the number of this attempt in this life, from 1. It is counted when its outcome is recorded or
	// its lease expires, not now: a claim that is released did not happen.
	Attempt int
	// Life is 1, and one more for each requeue.
	Life int
	// DueAt is the time for which the row was due.
	DueAt time.Time
	// Uncertain says that bytes of an earlier attempt, or life, may have reached the ledger without an answer.
	Uncertain bool
	// ExpiryCount is how many attempts in a row ended by expiry. A row with two or more is claimed alone.
	ExpiryCount int
	// Reclaimed says that this very claim took the row from an expired one.
	Reclaimed bool
	// LastReason is the reason of the last recorded attempt of this life, or empty.
	LastReason ReasonCode
}

// LeaseInfo describes a claim that stands, for `fencerow claims`.
type LeaseInfo struct {
	Worker    WorkerID
	Epoch     ClaimEpoch
	Rows      int
	ClaimedAt time.Time
	// Age and Remaining are measured by the store's clock. Remaining is negative when the lease has expired and
	// nobody has reclaimed it yet.
	Age, Remaining time.Duration
}
