package main

import (
	"encoding/json"
	"math"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// The documents that --json prints. They are a contract, described in docs/interfaces.md: keys stay, keys may
// be added. Times are UTC in RFC 3339, decimals are strings, durations are seconds, what does not apply is
// null, and arrays are never null. The document of `fencerow process` is daemon.ProcessResult, which the ops
// listener answers with too.

type enqueueDoc struct {
	Inserted  int `json:"inserted"`
	Duplicate int `json:"duplicate"`
	Conflict  int `json:"conflict,omitempty"`
}

type backfillDoc struct {
	Claimed  int                          `json:"claimed"`
	Lost     int                          `json:"lost"`
	Outcomes map[fencerow.OutcomeKind]int `json:"outcomes"`
}

type entryDoc struct {
	OutboxID      fencerow.OutboxID      `json:"outbox_id"`
	CorrelationID fencerow.CorrelationID `json:"correlation_id"`
	EntryKind     string                 `json:"entry_kind"`
	SlotID        *string                `json:"slot_id"`
	CashDelta     string                 `json:"cash_delta"`
	Currency      *string                `json:"currency"`
	TraceParent   *string                `json:"traceparent"`
	EnqueuedAt    time.Time              `json:"enqueued_at"`
	// Payload is there with --with-payload only. White space between its parts is not kept; nothing else
	// changes.
	Payload json.RawMessage `json:"payload,omitempty"`
}

type waitingDoc struct {
	DueAt       time.Time `json:"due_at"`
	Due         bool      `json:"due"`
	Attempts    int       `json:"attempts"`
	Life        int       `json:"life"`
	Uncertain   bool      `json:"delivery_uncertain"`
	ExpiryCount int       `json:"expiry_count"`
	LastOutcome *string   `json:"last_outcome"`
	LastReason  *string   `json:"last_reason"`
}

type pendingEntryDoc struct {
	entryDoc
	waitingDoc
}

type pendingDoc struct {
	Entries []pendingEntryDoc `json:"entries"`
	// Next is what --after takes to go on; null at the end.
	Next *string `json:"next"`
}

type blockedEntryDoc struct {
	entryDoc
	lifeDoc
}

type blockedDoc struct {
	Entries []blockedEntryDoc `json:"entries"`
	// Next is what --after takes to go on; null at the end.
	Next *string `json:"next"`
}

type cashDeltaDoc struct {
	SlotID     *string           `json:"slot_id"`
	Currencies []currencySumsDoc `json:"currencies"`
}

type currencySumsDoc struct {
	Currency     string `json:"currency"`
	Pending      string `json:"pending"`
	PendingCount int64  `json:"pending_count"`
	Blocked      string `json:"blocked"`
	BlockedCount int64  `json:"blocked_count"`
}

type leaseDoc struct {
	Worker    fencerow.WorkerID   `json:"worker"`
	Epoch     fencerow.ClaimEpoch `json:"claim_epoch"`
	Rows      int                 `json:"rows"`
	ClaimedAt time.Time           `json:"claimed_at"`
	Age       float64             `json:"age_sec"`
	Remaining float64             `json:"remaining_sec"`
	Expired   bool                `json:"expired"`
}

type lifeDoc struct {
	Life      int                  `json:"life"`
	Status    fencerow.Status      `json:"status"`
	Outcome   fencerow.OutcomeKind `json:"outcome"`
	Reason    *string              `json:"reason"`
	Attempts  int                  `json:"attempts"`
	Epoch     fencerow.ClaimEpoch  `json:"claim_epoch"`
	LedgerRef *string              `json:"ledger_ref"`
	At        time.Time            `json:"outcome_at"`
}

type skipDoc struct {
	OpenedAt   time.Time  `json:"opened_at"`
	ResolvedAt *time.Time `json:"resolved_at"`
}

type showDoc struct {
	entryDoc
	Status   fencerow.Status `json:"status"`
	Pending  *waitingDoc     `json:"pending"`
	Lease    *leaseDoc       `json:"lease"`
	Outcomes []lifeDoc       `json:"outcomes"`
	Skip     *skipDoc        `json:"skip"`
}

type countsDoc struct {
	Statuses      map[fencerow.Status]int64 `json:"statuses"`
	Leased        int64                     `json:"leased"`
	Due           int64                     `json:"due"`
	OldestDue     float64                   `json:"oldest_due_age_sec"`
	OldestPending float64                   `json:"oldest_pending_age_sec"`
	HeldSince     *time.Time                `json:"held_since"`
}

type claimsDoc struct {
	Claims []leaseDoc `json:"claims"`
}

type legacyDoc struct {
	LegacyCount int64 `json:"legacy_count"`
}

type requeueDoc struct {
	CorrelationID fencerow.CorrelationID `json:"correlation_id"`
	// Result is requeued, wrong_status, not_found or foreign_instance.
	Result string           `json:"result"`
	Status *fencerow.Status `json:"status"`
}

type holdDoc struct {
	Instance fencerow.InstanceKey `json:"instance_key"`
	Held     bool                 `json:"held"`
	Changed  bool                 `json:"changed"`
}

type slotDoc struct {
	SlotID   fencerow.SlotID `json:"slot_id"`
	Strategy string          `json:"strategy"`
}

type pruneDoc struct {
	Deleted int `json:"deleted"`
}

type checkDoc struct {
	Check  string `json:"check"`
	Result string `json:"result"` // ok, warn or fail
	Detail string `json:"detail"`
	Advice string `json:"advice"` // empty if ok
}

type doctorDoc struct {
	Result string     `json:"result"` // the worst
	Checks []checkDoc `json:"checks"`
}

type devDoc struct {
	AsExpected bool                 `json:"as_expected"`
	Store      string               `json:"store"` // memory or postgresql
	Instance   fencerow.InstanceKey `json:"instance_key"`
	Enqueued   enqueueDoc           `json:"enqueued"`
	Entries    []devEntryDoc        `json:"entries"`
	Slots      []devSlotDoc         `json:"slots"`
	Deliveries int                  `json:"deliveries"`
	Elapsed    float64              `json:"elapsed_sec"`
}

type devEntryDoc struct {
	CorrelationID fencerow.CorrelationID `json:"correlation_id"`
	EntryKind     string                 `json:"entry_kind"`
	SlotID        *string                `json:"slot_id"`
	CashDelta     string                 `json:"cash_delta"`
	Currency      *string                `json:"currency"`
	Ledger        string                 `json:"ledger"` // what the stub does with it, in words
	Sends         int                    `json:"sends"`
	Booked        bool                   `json:"booked"` // byte for byte
	Status        fencerow.Status        `json:"status"`
	Outcome       *string                `json:"outcome"`
	Reason        *string                `json:"reason"`
	Attempts      int                    `json:"attempts"`
	AsExpected    bool                   `json:"as_expected"`
}

type devSlotDoc struct {
	SlotID        fencerow.SlotID   `json:"slot_id"`
	Currency      *string           `json:"currency"`
	LedgerBalance string            `json:"ledger_balance"`
	KnownBalance  *string           `json:"known_balance"`
	Outstanding   []currencySumsDoc `json:"outstanding"`
	OpenSkips     int64             `json:"open_skips"`
}

type migratedDoc struct {
	From int `json:"from"`
	To   int `json:"to"`
}

type stepDoc struct {
	Number int    `json:"number"`
	Name   string `json:"name"`
}

type migrateStatusDoc struct {
	Current int       `json:"current"`
	Latest  int       `json:"latest"`
	Newer   bool      `json:"newer"`
	Oldest  int       `json:"oldest_program"`
	Pending []stepDoc `json:"pending"`
}

type migrateWallsDoc struct {
	Walls    string   `json:"walls"`
	Changed  int      `json:"changed"`
	Roles    int      `json:"roles"`
	Policies []string `json:"policies"`
	Unknown  []string `json:"unknown_roles"`
	Unmapped []string `json:"unmapped_roles"`
}

type migrateVerifyDoc struct {
	Latest int      `json:"latest"`
	Checks []string `json:"checks"`
}

func newEntryDoc(e *fencerow.Entry, withPayload bool) entryDoc {
	doc := entryDoc{
		OutboxID: e.OutboxID, CorrelationID: e.CorrelationID, EntryKind: e.EntryKind, SlotID: optional(e.SlotID),
		CashDelta: e.CashDelta.String(), Currency: optional(e.Currency), TraceParent: optional(e.TraceParent),
		EnqueuedAt: e.EnqueuedAt.UTC(),
	}
	if withPayload {
		doc.Payload = e.Payload
	}
	return doc
}

func newWaitingDoc(p *fencerow.PendingEntry) waitingDoc {
	return waitingDoc{
		DueAt: p.DueAt.UTC(), Due: p.Due, Attempts: p.Attempts, Life: p.Life, Uncertain: p.Uncertain,
		ExpiryCount: p.ExpiryCount, LastOutcome: optional(p.LastOutcome), LastReason: optional(p.LastReason),
	}
}

func newLeaseDoc(l *fencerow.LeaseInfo) leaseDoc {
	return leaseDoc{
		Worker: l.Worker, Epoch: l.Epoch, Rows: l.Rows, ClaimedAt: l.ClaimedAt.UTC(), Age: seconds(l.Age),
		Remaining: seconds(l.Remaining), Expired: l.Remaining <= 0,
	}
}

func newLifeDoc(o *fencerow.FinishedLife) lifeDoc {
	return lifeDoc{
		Life: o.Life, Status: o.Status, Outcome: o.Outcome, Reason: optional(o.Reason), Attempts: o.Attempts,
		Epoch: o.Epoch, LedgerRef: optional(o.LedgerRef), At: o.At.UTC(),
	}
}

func newShowDoc(s *fencerow.EntryState, withPayload bool) showDoc {
	doc := showDoc{entryDoc: newEntryDoc(&s.Entry, withPayload), Status: s.Status, Outcomes: []lifeDoc{}}
	if s.Pending != nil {
		waiting := newWaitingDoc(s.Pending)
		doc.Pending = &waiting
	}
	if s.Lease != nil {
		lease := newLeaseDoc(s.Lease)
		doc.Lease = &lease
	}
	for i := range s.Outcomes {
		doc.Outcomes = append(doc.Outcomes, newLifeDoc(&s.Outcomes[i]))
	}
	if s.Skip != nil {
		doc.Skip = &skipDoc{OpenedAt: s.Skip.OpenedAt.UTC(), ResolvedAt: utc(s.Skip.ResolvedAt)}
	}
	return doc
}

// optional is null for an empty text.
func optional[T ~string](s T) *string {
	if s == "" {
		return nil
	}
	text := string(s)
	return &text
}

// seconds cuts to milliseconds.
func seconds(d time.Duration) float64 { return math.Round(float64(d.Milliseconds())) / 1000 }

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}
