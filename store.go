package fencerow

import (
	"context"
	"time"

	"github.com/shopspring/decimal"
)

// Store is the contract between the writer, the command line and the database. Both implementations pass
// internal/storetest.
//
// Every method is safe for concurrent use. Every params struct names the caller's instance; a malformed key,
// and any other malformed parameter, is refused with an [*InputError] before a connection is used. Slices
// passed in are not kept and not changed; slices and pointers returned belong to the caller. Errors are codes
// (see error.go): ErrStoreBusy, ErrStoreTimeout, ErrStoreUnavailable and their like can come from every
// method and are not repeated below. After ErrStoreTimeout, ErrStoreUnavailable or a cancelled context it is
// unknown whether a write was done; every write can be repeated safely as its comment says. Serialization
// failures and deadlocks in the store's own transactions are repeated by the store. A method leaves no
// transaction open, whatever happens.
type Store interface {
	Producer
	Claimer
	Viewer
	Operator
}

// Producer enqueues in a transaction of the store's own.
type Producer interface {
	// EnqueueMany enqueues up to [MaxEnqueue] entries in one round trip and returns one result per entry, in
	// order. All entries are validated before anything is written; a bad one refuses the whole call with an
	// [*InputError]. A conflict (the same key with other content, in the store or earlier in the same call)
	// writes nothing for its entry and does not hurt the others. Repeating the call is safe: what was written
	// becomes a duplicate.
	EnqueueMany(ctx context.Context, p EnqueueParams) ([]Enqueued, error)
}

// EnqueueParams are the arguments of EnqueueMany.
type EnqueueParams struct {
	Instance InstanceKey
	Entries  []NewEntry
}

// Claimer is what a worker needs.
type Claimer interface {
	// Register makes the instance known, so that claims can be serialised on it. Claims register a missing
	// instance themselves; a daemon registers at start, so that it is seen before its first entry. Idempotent.
	Register(ctx context.Context, instance InstanceKey) error

	// ClaimBatch claims up to Limit due rows: pending, next_retry_at <= now, held by no claim, ordered by
	// (next_retry_at, outbox id). Expired claims (lease end <= now) of the instance are ended in the same step,
	// at most [MaxExpiredPerClaim] of them, oldest first: each of their rows has one attempt more, one expiry
	// more, is marked uncertain, and is a candidate at once, also if ForceDue had claimed it before its
	// time. A row whose last two attempts ended by expiry is claimed alone. Returns a claim without
	// entries if nothing was due; ErrInstanceHeld on hold. For up to a second a store may pass over a due row
	// that another process put before those it last saw.
	//
	// If the answer is lost the caller gives the claim back with Release(All) under the same token.
	ClaimBatch(ctx context.Context, p ClaimBatchParams) (*Claim, error)

	// ClaimOne claims the one entry with the given correlation id, or returns a [*ClaimRefusedError]. A row
	// under an expired claim is reclaimed, as in ClaimBatch; the other rows of that claim are freed with it.
	// ForceDue claims a row that waits for its retry.
	ClaimOne(ctx context.Context, p ClaimOneParams) (*Claim, error)

	// RecordOutcomes records one outcome for each of up to [MaxBatch] rows of one claim and returns one verdict
	// per item, in order. It is a compare-and-set on the claim: an item that the claim does not hold any more is
	// lost and changes nothing. An outcome that arrives after the lease ran out, but before anyone reclaimed the
	// row, still holds and is applied. A call that names a row twice is refused with an [*InputError].
	//
	// In the same transaction and for applied items only, each slot takes the newest snapshot of the call if it
	// is newer than its own, then skips are resolved: for a success without slot or without snapshot its own
	// skip; for an accepted snapshot the open skips of all successfully finished entries of that slot. A
	// snapshot that [Entry.CheckSnapshot] refuses is dropped and said so in the verdict; the outcome stands and
	// the skip stays open.
	//
	// Repeating an unacknowledged call is safe: see [Verdict].
	RecordOutcomes(ctx context.Context, p RecordParams) ([]Verdict, error)

	// Release gives rows back: due again at once, no attempt used up, the epoch remembered. Rows that the claim
	// does not hold are lost. With All set every row that the claim still holds is released, and the verdicts
	// are of those, in ascending order of id; a token without a claim gives no verdicts and no error.
	Release(ctx context.Context, p ReleaseParams) ([]Verdict, error)
}

// MaxExpiredPerClaim is how many expired claims one ClaimBatch ends: ending hundreds at once takes seconds
// under the instance's lock.
const MaxExpiredPerClaim = 8

// ClaimBatchParams are the arguments of ClaimBatch.
type ClaimBatchParams struct {
	Instance InstanceKey
	Worker   WorkerID
	Token    ClaimToken    // fresh for every call
	Limit    int           // 1 to MaxBatch
	Lease    time.Duration // MinLease to MaxLease
}

// ClaimOneParams are the arguments of ClaimOne.
type ClaimOneParams struct {
	Instance      InstanceKey
	Worker        WorkerID
	Token         ClaimToken
	CorrelationID CorrelationID
	Lease         time.Duration
	ForceDue      bool
}

// RecordParams are the arguments of RecordOutcomes.
type RecordParams struct {
	Instance InstanceKey
	Token    ClaimToken
	Outcomes []Outcome // 1 to MaxBatch, each row once
}

// ReleaseParams are the arguments of Release.
type ReleaseParams struct {
	Instance InstanceKey
	Token    ClaimToken
	// All releases whatever the claim holds; Rows is then empty and Uncertain applies to every row.
	All  bool
	Rows []ReleaseRow // 1 to MaxBatch unless All, each row once
	// Uncertain marks all rows released by All as possibly sent.
	Uncertain bool
}

// ReleaseRow is one row to give back.
type ReleaseRow struct {
	OutboxID OutboxID
	// Uncertain says that bytes may have been sent.
	Uncertain bool
}

// Viewer reads. Nothing it returns is locked or stays true.
type Viewer interface {
	// ListPending lists the instance's own pending rows that are under no active lease, due or waiting, ordered
	// by (due time, outbox id), after the given position.
	ListPending(ctx context.Context, p ListPendingParams) ([]PendingEntry, error)
	// ListBlocked lists the instance's own blocked entries, each with the life that it ended in and without its
	// payload, in ascending order of outbox id. One that was requeued is pending, and blocked no more.
	ListBlocked(ctx context.Context, p ListBlockedParams) ([]BlockedEntry, error)
	// PendingCashDelta sums the cash deltas not yet in the ledger, per currency, in ascending order of currency:
	// over all pending rows, leased ones included, and separately over blocked rows. Rows without a currency
	// have no delta and are not summed.
	PendingCashDelta(ctx context.Context, p CashDeltaParams) ([]CashDelta, error)
	// Show returns everything about one own entry, or ErrNotFound (also for a foreign one), or
	// ErrForeignInstance if the correlation id exists only under another owner or none.
	Show(ctx context.Context, p EntryParams) (*EntryState, error)
	// Counts counts the instance's entries by status.
	Counts(ctx context.Context, instance InstanceKey) (*Counts, error)
	// Claims lists the claims of the instance that stand, by lease end, expired but not yet reclaimed ones
	// included.
	Claims(ctx context.Context, instance InstanceKey) ([]LeaseInfo, error)
	// Slots lists the instance's slots: those with a snapshot, a strategy or any entry, by slot id.
	Slots(ctx context.Context, instance InstanceKey) ([]Slot, error)
	// LegacyCount returns how many entries have no owner, and nothing more about them.
	LegacyCount(ctx context.Context) (int64, error)
	// LegacyExport returns the unowned entries with this correlation id, for a deliberate re-enqueue, at most
	// [MaxPage] of them. The legacy rows stay as they are. The memory store never has any.
	LegacyExport(ctx context.Context, correlationID string) ([]LegacyEntry, error)
	// Ready checks that the database answers and that its schema is one that this program supports, and returns
	// its version; otherwise ErrStoreSchema or another code.
	Ready(ctx context.Context) (SchemaVersion, error)
}

// SchemaVersion is the number of the last migration applied.
type SchemaVersion int32

// ListPendingParams are the arguments of ListPending.
type ListPendingParams struct {
	Instance InstanceKey
	Limit    int // 1 to MaxPage
	// After is the position of the last row of the page before; zero begins at the start.
	After PendingPosition
	// WithPayload also reads payloads.
	WithPayload bool
}

// PendingPosition is a place in the order of ListPending.
type PendingPosition struct {
	DueAt    time.Time
	OutboxID OutboxID
}

// PendingEntry is a pending row as listed.
type PendingEntry struct {
	Entry       // Payload only if asked for
	DueAt       time.Time
	Due         bool          // by the store's clock
	DueFor      time.Duration // for how long, by the store's clock; at most MaxDueFor; zero if it is not due
	Attempts    int           // counted so far in this life
	Life        int
	Uncertain   bool
	ExpiryCount int
	LastOutcome OutcomeKind // empty before the first recorded attempt of this life
	LastReason  ReasonCode
}

// MaxDueFor bounds how long a row is said to have been due: a hundred years, which fits a duration.
const MaxDueFor = 36500 * 24 * time.Hour

// ListBlockedParams are the arguments of ListBlocked.
type ListBlockedParams struct {
	Instance InstanceKey
	// Status limits the list to one of the blocked statuses; empty means all of them.
	Status Status
	Limit  int // 1 to MaxPage
	// After is the last row of the page before; zero begins at the start.
	After OutboxID
}

// BlockedEntry is an entry that waits for an operator.
type BlockedEntry struct {
	Entry // never with its payload
	FinishedLife
}

// CashDeltaParams are the arguments of PendingCashDelta.
type CashDeltaParams struct {
	Instance InstanceKey
	// Slot limits the sums to one slot; empty means all entries, those without slot included.
	Slot SlotID
}

// CashDelta is the sum for one currency.
type CashDelta struct {
	Currency     string
	Pending      decimal.Decimal
	PendingCount int64
	Blocked      decimal.Decimal
	BlockedCount int64
}

// EntryParams name one entry.
type EntryParams struct {
	Instance      InstanceKey
	CorrelationID CorrelationID
}

// EntryState is everything about one entry.
type EntryState struct {
	Entry  Entry
	Status Status
	// Pending is set while the entry is pending.
	Pending *PendingEntry
	// Lease is set while a claim stands for it, expired or not.
	Lease *LeaseInfo
	// Outcomes are the finished lives, oldest first.
	Outcomes []FinishedLife
	// Skip is set if the entry opened one.
	Skip *Skip
}

// FinishedLife is one row of the audit trail.
type FinishedLife struct {
	Life      int
	Status    Status
	Outcome   OutcomeKind
	Reason    ReasonCode
	Attempts  int
	Epoch     ClaimEpoch
	LedgerRef string
	At        time.Time
}

// Skip is a step that a slot skipped because an entry is not yet in the ledger.
type Skip struct {
	OpenedAt   time.Time
	ResolvedAt *time.Time
}

// Counts are the instance's entries by status.
type Counts struct {
	ByStatus map[Status]int64 // every status is present
	// Leased is how many of the pending rows are under an active lease.
	Leased int64
	// Due is how many pending rows could be claimed now.
	Due int64
	// OldestDue is how long the oldest due row that no active lease holds has been due; zero if none is.
	OldestDue time.Duration
	// OldestPending is how long ago the oldest pending entry was enqueued, whether it is due, waits or is
	// leased; zero if none is pending. A requeue does not make an entry younger. Of entries enqueued at nearly
	// the same time it may be any one.
	OldestPending time.Duration
	// HeldSince is when the instance was put on hold; nil if it is not.
	HeldSince *time.Time
}

// Slot is a strategy slot as the ledger last described it, with what is still on its way.
type Slot struct {
	SlotID        SlotID
	Strategy      string // empty until named
	Currency      string // empty before the first snapshot
	CashBalance   *decimal.Decimal
	LedgerVersion *int64
	UpdatedAt     *time.Time // of the snapshot
	PendingCash   []CashDelta
	OpenSkips     int64
}

// LegacyEntry is an entry from before ownership. Its fields are whatever the old schema allowed.
type LegacyEntry struct {
	OutboxID      OutboxID
	CorrelationID string
	EntryKind     string
	SlotID        *string
	CashDelta     string
	Currency      *string
	Payload       []byte
}

// Operator changes what only a person decides.
type Operator interface {
	// Requeue puts one own blocked entry back to pending as its next life: no attempts, the epoch remembered,
	// marked uncertain, key and bytes unchanged. Returns a [*WrongStatusError] if the entry is not in the
	// expected status, ErrNotFound or ErrForeignInstance. An expected status that is not a blocked one is
	// refused as bad input.
	Requeue(ctx context.Context, p RequeueParams) error
	// Prune deletes own entries whose latest life ended in success more than OlderThan ago, with their outcomes
	// and resolved skips, in one transaction. It looks at no more than a bounded number of entries after the
	// given id; Next is where the following call goes on, or zero at the end. After pruning only the ledger's
	// own idempotency guards a reused correlation id.
	Prune(ctx context.Context, p PruneParams) (PruneResult, error)
	// Hold pauses the instance: no claims are made until Resume. Claims that stand are not touched. Reports
	// whether it changed anything.
	Hold(ctx context.Context, instance InstanceKey) (bool, error)
	// Resume ends a hold. Reports whether it changed anything.
	Resume(ctx context.Context, instance InstanceKey) (bool, error)
	// NameSlot sets a slot's strategy; the slot need not have been seen before.
	NameSlot(ctx context.Context, p NameSlotParams) error
}

// RequeueParams are the arguments of Requeue.
type RequeueParams struct {
	Instance      InstanceKey
	CorrelationID CorrelationID
	From          Status
}

// PruneParams are the arguments of Prune.
type PruneParams struct {
	Instance  InstanceKey
	OlderThan time.Duration // at least 0
	Limit     int           // rows deleted at most, 1 to MaxBatch
	After     OutboxID
}

// PruneResult says what one Prune did.
type PruneResult struct {
	Deleted int
	Next    OutboxID
}

// NameSlotParams are the arguments of NameSlot.
type NameSlotParams struct {
	Instance InstanceKey
	Slot     SlotID
	Strategy string // 1 to 128 characters of printable ASCII; spaces allowed inside
}
