package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/daemon"
)

var noon = time.Date(2024, 5, 6, 12, 30, 0, 123456000, time.FixedZone("Asia/Kathmandu", 5*3600+45*60))

func fullEntry() fencerow.Entry {
	return fencerow.Entry{
		OutboxID: 5_000_000_000, Instance: desk, CorrelationID: `a"b<&>`, EntryKind: "fill", SlotID: "slot-1",
		CashDelta: decimal.RequireFromString("-1250.40"), Currency: "EUR",
		Payload:     json.RawMessage(`{"b":1e400,"b": [1.10,  true]}`),
		TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", EnqueuedAt: noon,
	}
}

func fullPending() fencerow.PendingEntry {
	return fencerow.PendingEntry{
		Entry: fullEntry(), DueAt: noon.Add(time.Minute), Due: true, Attempts: 2, Life: 3, Uncertain: true,
		ExpiryCount: 1, LastOutcome: fencerow.OutcomeRetryableFailure, LastReason: fencerow.ReasonLedgerError,
	}
}

func fullState() *fencerow.EntryState {
	pending, resolved := fullPending(), noon.Add(time.Hour)
	return &fencerow.EntryState{
		Entry: fullEntry(), Status: fencerow.StatusPending, Pending: &pending,
		Lease: &fencerow.LeaseInfo{
			Worker: "host:1", Epoch: 1_700_000_000_000_000, Rows: 7, ClaimedAt: noon,
			Age: 1500 * time.Millisecond, Remaining: -2500 * time.Microsecond,
		},
		Outcomes: []fencerow.FinishedLife{{
			Life: 1, Status: fencerow.StatusDeadLettered, Outcome: fencerow.OutcomeDeadLettered,
			Reason: fencerow.ReasonLedgerError, Attempts: 20, Epoch: 1_600_000_000_000_000, At: noon,
		}, {
			Life: 2, Status: fencerow.StatusCompleted, Outcome: fencerow.OutcomeCompleted, Attempts: 1, Epoch: 2,
			LedgerRef: "ref-1", At: noon,
		}},
		Skip: &fencerow.Skip{OpenedAt: noon, ResolvedAt: &resolved},
	}
}

// Each document with everything in it, and with as little as there can be.
func TestDocumentsAreAsCommitted(t *testing.T) {
	t.Parallel()
	pending, bare := fullPending(), &fencerow.EntryState{Entry: fencerow.Entry{EnqueuedAt: noon}}
	lease := newLeaseDoc(fullState().Lease)
	held, blocked := noon.UTC(), fencerow.StatusCompleted
	completed := map[fencerow.OutcomeKind]int{fencerow.OutcomeCompleted: 1}
	pendingOnly := map[fencerow.Status]int64{fencerow.StatusPending: 1}
	sums := currencySumsDoc{Currency: "EUR", Pending: "-1.5", PendingCount: 1, Blocked: "0"}
	for name, doc := range map[string]any{
		"enqueue":          enqueueDoc{Inserted: 1, Duplicate: 2},
		"enqueue_conflict": enqueueDoc{Inserted: 1, Duplicate: 2, Conflict: 3},
		"process": daemon.ProcessResult{
			CorrelationID: "a", ClaimResult: "claimed", Outcome: fencerow.OutcomeDeadLettered, Reason: "ledger_error",
		},
		"process_refused": daemon.ProcessResult{CorrelationID: "a", ClaimResult: "unavailable", Reason: "leased"},
		"backfill":        backfillDoc{Claimed: 1, Outcomes: completed},
		"pending": pendingDoc{
			Entries: []pendingEntryDoc{{newEntryDoc(&pending.Entry, true), newWaitingDoc(&pending)}},
			Next:    optional(formatPlace(fencerow.PendingPosition{DueAt: noon, OutboxID: 9})),
		},
		"pending_none":   pendingDoc{Entries: []pendingEntryDoc{}},
		"cash_delta":     cashDeltaDoc{SlotID: optional("slot-1"), Currencies: []currencySumsDoc{sums}},
		"show":           newShowDoc(fullState(), true),
		"show_bare":      newShowDoc(bare, false),
		"counts":         countsDoc{Statuses: pendingOnly, HeldSince: &held},
		"claims":         claimsDoc{Claims: []leaseDoc{lease}},
		"legacy":         legacyDoc{3},
		"requeue":        requeueDoc{CorrelationID: "a", Result: "wrong_status", Status: &blocked},
		"hold":           holdDoc{Instance: desk, Held: true, Changed: true},
		"slot":           slotDoc{SlotID: "slot-1", Strategy: "mean reversion"},
		"prune":          pruneDoc{Deleted: 4},
		"doctor":         doctorDoc{Result: checkWarn, Checks: []checkDoc{{"lag", checkWarn, "2 due", "look"}}},
		"migrate_up":     migratedDoc{From: 1, To: 3},
		"migrate_status": migrateStatusDoc{Current: 1, Latest: 2, Pending: []stepDoc{{2, "002_own"}}},
		"migrate_verify": migrateVerifyDoc{Latest: 3, Checks: []string{"files"}},
		"dev": devDoc{
			AsExpected: true, Store: "memory", Instance: "dev", Enqueued: enqueueDoc{Inserted: 1}, Deliveries: 1,
			Entries: []devEntryDoc{{CorrelationID: "a", Outcome: optional("completed")}},
			Slots:   []devSlotDoc{{SlotID: "slot-1", Outstanding: []currencySumsDoc{sums}}},
		},
	} {
		line, err := marshalLine(doc)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "json/"+name+".json", string(line))
	}
}

func TestNoArrayIsNull(t *testing.T) {
	t.Parallel()
	for name, doc := range map[string]any{
		"show":   newShowDoc(&fencerow.EntryState{}, false),
		"doctor": doctorDoc{Checks: []checkDoc{}},
	} {
		b, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(b, &members); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"outcomes", "checks"} {
			if value, ok := members[key]; ok && string(value) != "[]" {
				t.Errorf("%s of %s is %s", key, name, value)
			}
		}
	}
}

func TestControlsAreEscapedAndNothingElseIs(t *testing.T) {
	t.Parallel()
	got, err := marshalLine(map[string]string{"a": "é🙂<\x1b[31m\x7f\u009b31m\u0085"})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"a":"é🙂<\u001b[31m\u007f\u009b31m\u0085"}` + "\n"
	if string(got) != want {
		t.Errorf("%s, want %s", got, want)
	}
}
