package fencerow

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

// refusedFor demands an input error about the field.
func refusedFor(t *testing.T, what, field string, err error) {
	t.Helper()
	input, ok := errors.AsType[*InputError](err)
	if !ok || input.Field != field {
		t.Errorf("%s: got %v, want an input error about %s", what, err, field)
	}
}

func TestEnqueueNamesTheBadEntryOfSeveral(t *testing.T) {
	t.Parallel()
	good := NewEntry{CorrelationID: "c", EntryKind: "fill", Payload: json.RawMessage(`{}`)}
	bad := good
	bad.EntryKind = "Fill"
	for _, tc := range []struct {
		entries []NewEntry
		field   string
	}{
		{[]NewEntry{bad}, "entry_kind"},
		{[]NewEntry{good, bad}, "entries[1].entry_kind"},
		{[]NewEntry{good, good, good, bad, bad}, "entries[3].entry_kind"},
		{make([]NewEntry, MaxEnqueue+1), "entries"},
	} {
		p := EnqueueParams{Instance: "i", Entries: tc.entries}
		refusedFor(t, tc.field, tc.field, p.Validate())
	}
	for _, entries := range [][]NewEntry{nil, {good}, {good, good}} {
		if err := (&EnqueueParams{Instance: "i", Entries: entries}).Validate(); err != nil {
			t.Errorf("%d entries: %v", len(entries), err)
		}
	}
}

func TestClaimIsBounded(t *testing.T) {
	t.Parallel()
	good := ClaimBatchParams{Instance: "i", Worker: "w", Token: NewClaimToken(), Limit: 1, Lease: MinLease}
	for field, change := range map[string]func(*ClaimBatchParams){
		"instance_key": func(p *ClaimBatchParams) { p.Instance = "" },
		"worker":       func(p *ClaimBatchParams) { p.Worker = "a b" },
		"claim_token":  func(p *ClaimBatchParams) { p.Token = ClaimToken{} },
		"limit":        func(p *ClaimBatchParams) { p.Limit = MaxBatch + 1 },
		"lease":        func(p *ClaimBatchParams) { p.Lease = MaxLease + 1 },
	} {
		p := good
		change(&p)
		refusedFor(t, "claim batch", field, p.Validate())
	}
	one := ClaimOneParams{Instance: "i", Worker: "w", Token: NewClaimToken(), Lease: MaxLease}
	refusedFor(t, "claim one", "correlation_id", one.Validate())
	one.CorrelationID = "c"
	if err := errors.Join(good.Validate(), one.Validate()); err != nil {
		t.Error(err)
	}
}

func TestRecordNamesEachRowOnce(t *testing.T) {
	t.Parallel()
	done := Outcome{OutboxID: 1, Kind: OutcomeCompleted}
	other := Outcome{
		OutboxID: 2, Kind: OutcomeRetryableFailure, Reason: ReasonLedgerError, Delay: MaxDelay,
		Charge: ChargeGiveBack,
	}
	late := other
	late.Delay++
	for _, tc := range []struct {
		outcomes []Outcome
		field    string
	}{
		{nil, "outcomes"},
		{make([]Outcome, MaxBatch+1), "outcomes"},
		{[]Outcome{done, other, done}, "outcomes"},
		{[]Outcome{late}, "delay"},
		{[]Outcome{done, late}, "outcomes[1].delay"},
		{[]Outcome{{OutboxID: 1, Kind: OutcomeDeadLettered}}, "reason"},
		{[]Outcome{{OutboxID: 0, Kind: OutcomeCompleted}}, "outbox_id"},
		{[]Outcome{{OutboxID: 1, Kind: "done"}}, "outcome"},
	} {
		p := RecordParams{Instance: "i", Token: NewClaimToken(), Outcomes: tc.outcomes}
		refusedFor(t, "record", tc.field, p.Validate())
	}
	p := RecordParams{Instance: "i", Token: NewClaimToken(), Outcomes: []Outcome{done, other}}
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
	// What a ledger sent never makes an outcome unrecordable.
	p.Outcomes[0].LedgerRef = strings.Repeat("\x00", 1<<20)
	p.Outcomes[0].Snapshot = &Snapshot{Currency: "\xff", Version: -1}
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
}

func TestReleaseIsOfAllOrOfRows(t *testing.T) {
	t.Parallel()
	rows := []ReleaseRow{{OutboxID: 1}, {OutboxID: 2, Uncertain: true}}
	for field, p := range map[string]ReleaseParams{
		"rows":              {All: true, Rows: rows},
		"uncertain":         {Rows: rows, Uncertain: true},
		"rows[1].outbox_id": {Rows: []ReleaseRow{{OutboxID: 1}, {}}},
	} {
		p.Instance, p.Token = "i", NewClaimToken()
		refusedFor(t, "release", field, p.Validate())
	}
	twice := ReleaseParams{
		Instance: "i", Token: NewClaimToken(), Rows: []ReleaseRow{{OutboxID: 1}, {OutboxID: 1}},
	}
	refusedFor(t, "release of a row twice", "rows", twice.Validate())
	for _, p := range []ReleaseParams{{All: true}, {All: true, Uncertain: true}, {Rows: rows}} {
		p.Instance, p.Token = "i", NewClaimToken()
		if err := p.Validate(); err != nil {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func TestViewsAndOperationsAreBounded(t *testing.T) {
	t.Parallel()
	farFuture := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		field string
		p     interface{ Validate() error }
	}{
		{"limit", &ListPendingParams{Instance: "i"}},
		{"after", &ListPendingParams{Instance: "i", Limit: 1, After: PendingPosition{OutboxID: -1}}},
		{"after", &ListPendingParams{Instance: "i", Limit: 1, After: PendingPosition{DueAt: farFuture}}},
		{"slot_id", &CashDeltaParams{Instance: "i", Slot: "a b"}},
		{"correlation_id", &EntryParams{Instance: "i"}},
		{"from", &RequeueParams{Instance: "i", CorrelationID: "c", From: StatusCompleted}},
		{"older_than", &PruneParams{Instance: "i", Limit: 1, OlderThan: -1}},
		{"limit", &PruneParams{Instance: "i"}},
		{"after", &PruneParams{Instance: "i", Limit: 1, After: -1}},
		{"slot_id", &NameSlotParams{Instance: "i", Strategy: "s"}},
		{"strategy", &NameSlotParams{Instance: "i", Slot: "s", Strategy: " s"}},
		{"strategy", &NameSlotParams{Instance: "i", Slot: "s", Strategy: "s\u2028"}},
		{"instance_key", &ListPendingParams{Limit: 1}},
		{"instance_key", &CashDeltaParams{}},
		{"instance_key", &PruneParams{Limit: 1}},
		{"instance_key", &NameSlotParams{Slot: "s", Strategy: "s"}},
	} {
		refusedFor(t, "parameters", tc.field, tc.p.Validate())
	}
	for _, p := range []interface{ Validate() error }{
		&ListPendingParams{Instance: "i", Limit: MaxPage},
		&ListPendingParams{Instance: "i", Limit: 1, After: PendingPosition{DueAt: time.Now(), OutboxID: 1 << 62}},
		&CashDeltaParams{Instance: "i"},
		&RequeueParams{Instance: "i", CorrelationID: "c", From: StatusDeadLettered},
		&PruneParams{Instance: "i", Limit: MaxBatch, OlderThan: 1<<63 - 1, After: 1<<63 - 1},
		&NameSlotParams{Instance: "i", Slot: "s", Strategy: "a b"},
	} {
		if err := p.Validate(); err != nil {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func TestLegacyIDsAreWhateverATextColumnHolds(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"", " ", "a b", "\t\n", "ü", "'; --", strings.Repeat("x", MaxPayload)} {
		if err := ValidateLegacyID(good); err != nil {
			t.Errorf("%.20q: %v", good, err)
		}
	}
	for _, bad := range []string{"\x00", "\xff", strings.Repeat("x", MaxPayload+1)} {
		refusedFor(t, "legacy id", "correlation_id", ValidateLegacyID(bad))
	}
}
