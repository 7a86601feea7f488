package fencerow

import (
	"context"
	"time"
)

// Ledger delivers entries. Implementations are safe for concurrent use.
//
// Deliver makes exactly one attempt and always answers; what went wrong is in the Answer as a code, never as
// an error text. It honours ctx's deadline: the caller has cut it to what is left of the claim's trust
// window, and asks ctx.Err() right before it sends, since the deadline also counts the time for which the
// machine was suspended. It does not keep d.Entry after it has returned.
type Ledger interface {
	Deliver(ctx context.Context, d Delivery) Answer
}

// Resolver is implemented by a [Ledger] that can be asked what it has under an entry's idempotency key. It is
// asked before an entry whose earlier bytes may have been booked is parked, and after an answer that cannot
// be read. CanResolve says whether this ledger is configured for it; Resolve is called only if so.
type Resolver interface {
	CanResolve() bool
	Resolve(ctx context.Context, e *Entry) Resolution
}

// Delivery is one attempt at one entry.
type Delivery struct {
	Entry *Entry
	// Epoch is sent as the fencing token.
	Epoch ClaimEpoch
	// Attempt counts from 1 within the entry's life.
	Attempt int
}

// AnswerClass is what an attempt came to. The vocabulary is closed.
type AnswerClass string

// The answer classes.
const (
	AnswerDelivered AnswerClass = "delivered"
	AnswerDuplicate AnswerClass = "duplicate"
	AnswerRetryable AnswerClass = "retryable"
	AnswerConflict  AnswerClass = "conflict"
	AnswerPermanent AnswerClass = "permanent"
)

// Certainty says whether the ledger may have booked the entry in an attempt that did not succeed.
type Certainty string

// The certainties.
const (
	// NotSent: no byte of the request left.
	NotSent Certainty = "not_sent"
	// Answered: the ledger gave a definite answer.
	Answered Certainty = "answered"
	// Unknown: bytes may have reached the ledger and no definite answer came.
	Unknown Certainty = "unknown"
)

// Scope says whose fault a failure is.
type Scope string

// The scopes. A failure of target scope uses up no attempt and parks no entry.
const (
	ScopeEntry  Scope = "entry"
	ScopeTarget Scope = "target"
)

// Answer is the outcome of one attempt, in codes.
type Answer struct {
	Class     AnswerClass
	Certainty Certainty
	Scope     Scope
	// Reason is empty for a plain success.
	Reason ReasonCode
	// RetryAfter is what the ledger asked for, already capped at an hour; zero if it asked for nothing. It
	// lengthens a backoff, never shortens it.
	RetryAfter time.Duration
	// LedgerRef is empty unless [ValidLedgerRef] accepts it.
	LedgerRef string
	// Snapshot is nil unless the answer had one. It is not yet checked against the entry.
	Snapshot *Snapshot
	// Resolve asks the writer to resolve before it records this answer, if the ledger can.
	Resolve bool
}

// Resolution is what a ledger has under an entry's key.
type Resolution struct {
	Result ResolveResult
	// LedgerRef and Snapshot are as in [Answer], with ResolvedEqual only.
	LedgerRef string
	Snapshot  *Snapshot
}

// ResolveResult is the answer of a read-back. The vocabulary is closed.
type ResolveResult string

// The results of a read-back.
const (
	ResolvedEqual     ResolveResult = "equal"
	ResolvedDifferent ResolveResult = "different"
	ResolvedAbsent    ResolveResult = "absent"
	// ResolveFailed: the ledger could not be asked; the entry stays uncertain.
	ResolveFailed ResolveResult = "failed"
)
