package fencerow

import (
	"time"

	"github.com/shopspring/decimal"
)

// OutcomeKind is what came of an attempt. The vocabulary is closed.
type OutcomeKind string

// The outcomes. All but OutcomeRetryableFailure are terminal: they end the entry's life.
const (
	OutcomeCompleted          OutcomeKind = "completed"
	OutcomeDuplicateCompleted OutcomeKind = "duplicate_completed"
	OutcomeRetryableFailure   OutcomeKind = "retryable_failure"
	OutcomeConflictBlocked    OutcomeKind = "conflict_blocked"
	OutcomePermanentFailure   OutcomeKind = "permanent_failure"
	OutcomeDeadLettered       OutcomeKind = "dead_lettered"
)

// OutcomeKinds lists every outcome, in the order in which reports show them.
func OutcomeKinds() []OutcomeKind {
	return []OutcomeKind{
		OutcomeCompleted, OutcomeDuplicateCompleted, OutcomeRetryableFailure,
		OutcomeConflictBlocked, OutcomePermanentFailure, OutcomeDeadLettered,
	}
}

// Valid reports whether k is one of the outcomes.
func (k OutcomeKind) Valid() bool { return k.Status() != "" }

// Terminal reports whether the outcome ends the entry's life.
func (k OutcomeKind) Terminal() bool { return k.Valid() && k != OutcomeRetryableFailure }

// Success reports whether the entry is now in the ledger.
func (k OutcomeKind) Success() bool { return k == OutcomeCompleted || k == OutcomeDuplicateCompleted }

// Status returns the status that an entry has after this outcome, or "" for an unknown outcome.
func (k OutcomeKind) Status() Status {
	switch k {
	case OutcomeCompleted, OutcomeDuplicateCompleted:
		return StatusCompleted
	case OutcomeRetryableFailure:
		return StatusPending
	case OutcomeConflictBlocked:
		return StatusConflictBlocked
	case OutcomePermanentFailure:
		return StatusPermanentFailure
	case OutcomeDeadLettered:
		return StatusDeadLettered
	}
	return ""
}

// Status is where an entry stands. The vocabulary is closed.
type Status string

// The statuses.
const (
	StatusPending          Status = "pending"
	StatusCompleted        Status = "completed"
	StatusConflictBlocked  Status = "conflict_blocked"
	StatusPermanentFailure Status = "permanent_failure"
	StatusDeadLettered     Status = "dead_lettered"
)

// Statuses lists every status, in the order in which reports show them.
func Statuses() []Status {
	return []Status{
		StatusPending, StatusCompleted, StatusConflictBlocked, StatusPermanentFailure, StatusDeadLettered,
	}
}

// Blocked reports whether an entry of this status waits for an operator: it can be requeued.
func (s Status) Blocked() bool {
	return s == StatusConflictBlocked || s == StatusPermanentFailure || s == StatusDeadLettered
}

// Charge is what an outcome does to the row's attempt count.
type Charge int

// The charges. A terminal outcome always counts its attempt.
const (
	// ChargeAttempt counts the attempt.
	ChargeAttempt Charge = 1
	// ChargeNothing leaves the count: the failure was the target's, not the entry's.
	ChargeNothing Charge = 0
	// ChargeGiveBack gives back one attempt counted earlier, when what it failed for turned out to be the
	// target's fault. The count does not fall below zero.
	ChargeGiveBack Charge = -1
)

// Outcome is the result of one attempt at one row, to be recorded under the claim that holds it.
type Outcome struct {
	OutboxID OutboxID
	Kind     OutcomeKind
	// Reason is required for every outcome but a success, where it may be empty.
	Reason ReasonCode
	// Delay, 0 to [MaxDelay], is how long after the recording a retryable failure is due again. Zero for
	// terminal outcomes.
	Delay time.Duration
	// Charge applies to a retryable failure.
	Charge Charge
	// Uncertain says that bytes may have reached the ledger in this attempt and no definite answer came. It is
	// only ever added to a row.
	Uncertain bool
	// LedgerRef is stored for a terminal outcome if [ValidLedgerRef] accepts it.
	LedgerRef string
	// Snapshot is the ledger's state of the slot after this entry, if its answer had one. Only a success may
	// carry it.
	Snapshot *Snapshot
}

// Snapshot is a ledger's last known state of a slot. It lands in the slot only with a fenced success and only
// if its version is newer than the one the slot has.
type Snapshot struct {
	SlotID      SlotID
	Currency    string
	CashBalance decimal.Decimal
	Version     int64
}

// MaxLedgerVersion bounds a snapshot's version: what a JSON number holds exactly. A version at the end of its
// type would keep every later snapshot out of the slot.
const MaxLedgerVersion = 1 << 53

// WellFormed reports whether some entry could have this snapshot: a slot, a currency, a bounded decimal and a
// version from 0 to [MaxLedgerVersion].
func (s *Snapshot) WellFormed() bool {
	return s.SlotID.Validate() == nil && s.Version >= 0 && s.Version <= MaxLedgerVersion &&
		ValidCurrency(s.Currency) &&
		checkDecimal("cash_balance", s.CashBalance) == nil
}

// CheckSnapshot reports whether s may be written for e: well formed, and of e's own slot and currency. An
// entry without a currency says nothing about it.
func (e *Entry) CheckSnapshot(s *Snapshot) bool {
	return s.WellFormed() && s.SlotID == e.SlotID && (e.Currency == "" || s.Currency == e.Currency)
}

// LostReason says why a claim no longer held a row. The vocabulary is closed.
type LostReason string

// The reasons, read from the state now.
const (
	// LostReclaimed: the row is pending; another claim took it, or released it since.
	LostReclaimed LostReason = "reclaimed"
	// LostFinished: the row has a terminal outcome.
	LostFinished LostReason = "finished"
	// LostMissing: there is no such entry under this instance.
	LostMissing LostReason = "missing"
)

// Verdict is the answer for one item of a record or release, in the order of the call.
type Verdict struct {
	OutboxID OutboxID
	// Applied says that the item took effect. If not, the claim was lost for this row and nothing of it changed.
	Applied bool
	// Lost is set if not applied.
	Lost LostReason
	// Epoch is, for a lost item, the epoch that the row has now: of its latest outcome if it is finished, of the
	// claim that holds it, or else its last one.
	Epoch ClaimEpoch
	// RecordedEpoch, Outcome and Reason are what was recorded of a lost item last, in this life or the one that
	// ended it: under which epoch it was let go, and as what; empty if nothing was. A writer that repeats an
	// unacknowledged record and finds its own epoch, outcome and reason knows that it was recorded.
	RecordedEpoch ClaimEpoch
	Outcome       OutcomeKind
	Reason        ReasonCode
	// SnapshotRejected says that the outcome was applied but its snapshot was refused.
	SnapshotRejected bool
}
