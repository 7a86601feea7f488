package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/fourblocks2020/fencerow"
)

var noon = time.Date(2024, 5, 6, 12, 30, 0, 123456000, time.FixedZone("Asia/Kathmandu", 5*3600+45*60))

func fullEntry() fencerow.Entry {
	return fencerow.Entry{
		OutboxID: 5_000_000_000, Instance: desk, CorrelationID: "fill-8841", EntryKind: "fill", SlotID: "slot-1",
		CashDelta: decimal.RequireFromString("-1250.40"), Currency: "EUR",
		Payload:     json.RawMessage(`{"fill_id":"8841",  "quantity": 30}`),
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
			Worker: "ledger-1:4711", Epoch: 1_714_978_500_000_000, Rows: 7, ClaimedAt: noon,
			Age: 1500 * time.Millisecond, Remaining: 28500 * time.Millisecond,
		},
		Outcomes: []fencerow.FinishedLife{{
			Life: 1, Status: fencerow.StatusDeadLettered, Outcome: fencerow.OutcomeDeadLettered,
			Reason: fencerow.ReasonLedgerError, Attempts: 20, Epoch: 1_714_978_400_000_000, At: noon,
		}, {
			Life: 2, Status: fencerow.StatusCompleted, Outcome: fencerow.OutcomeCompleted, Attempts: 1,
			Epoch:     1_714_978_450_000_000,
			LedgerRef: "bk-77120", At: noon,
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
	outcomes, statuses := map[fencerow.OutcomeKind]int{}, map[fencerow.Status]int64{}
	for i, kind := range fencerow.OutcomeKinds() {
		outcomes[kind] = max(0, 240-120*i)
	}
	for i, status := range fencerow.Statuses() {
		statuses[status] = int64(i)
	}
	steps := []stepDoc{{7, "007_store_claims_uncompressed"}}
	checks := []checkDoc{{"fsync", checkOK, "on", ""}, {"autovacuum", checkWarn, "off", "turn it on"}}
	sums := currencySumsDoc{Currency: "EUR", Pending: "-1.5", PendingCount: 1, Blocked: "0"}
	for name, doc := range map[string]any{
		"enqueue":          enqueueDoc{Inserted: 1, Duplicate: 2},
		"enqueue_conflict": enqueueDoc{Inserted: 1, Duplicate: 2, Conflict: 3},
		"process":          process("fill-8841", "claimed", fencerow.OutcomeDeadLettered, "ledger_error"),
		"process_refused":  process("fill-8841", "unavailable", "", "leased"),
		"backfill":         backfillDoc{Claimed: 360, Outcomes: outcomes},
		"pending": pendingDoc{
			Entries: []pendingEntryDoc{{newEntryDoc(&pending.Entry, true), newWaitingDoc(&pending)}},
			Next:    optional(formatPlace(fencerow.PendingPosition{DueAt: noon, OutboxID: 9})),
		},
		"pending_none": pendingDoc{Entries: []pendingEntryDoc{}},
		"blocked": blockedDoc{
			Entries: []blockedEntryDoc{{newEntryDoc(&pending.Entry, false), newLifeDoc(&fullState().Outcomes[0])}},
			Next:    optional("5000000000"),
		},
		"blocked_none":   blockedDoc{Entries: []blockedEntryDoc{}},
		"cash_delta":     cashDeltaDoc{SlotID: optional("slot-1"), Currencies: []currencySumsDoc{sums}},
		"show":           newShowDoc(fullState(), true),
		"show_bare":      newShowDoc(bare, false),
		"counts":         countsDoc{statuses, 1, 2, 3.5, 7.25, &held},
		"claims":         claimsDoc{Claims: []leaseDoc{lease}},
		"legacy":         legacyDoc{3},
		"requeue":        requeueDoc{CorrelationID: "fill-8841", Result: "wrong_status", Status: &blocked},
		"hold":           holdDoc{Instance: desk, Held: true, Changed: true},
		"slot":           slotDoc{SlotID: "slot-1", Strategy: "mean reversion"},
		"prune":          pruneDoc{Deleted: 4},
		"doctor":         doctorDoc{Result: checkWarn, Checks: checks},
		"migrate_up":     migratedDoc{From: 1, To: 3},
		"migrate_status": migrateStatusDoc{Current: 6, Latest: 7, Oldest: 6, Pending: steps},
		"migrate_walls": migrateWallsDoc{
			Walls: wallsUp, Changed: 8, Roles: 2, Policies: []string{"ledger_skip_wall"},
			Unknown: []string{"desk1_deamon"}, Unmapped: []string{"desk2_producer"},
		},
		"migrate_verify": migrateVerifyDoc{Latest: 3, Checks: []string{"files", "from_empty", "from_rows"}},
		"dev": devDoc{
			AsExpected: true, Store: "memory", Instance: "dev", Enqueued: enqueueDoc{Inserted: 1}, Deliveries: 1,
			Elapsed: 0.25,
			Entries: []devEntryDoc{{
				CorrelationID: "fill-1001", EntryKind: "fill", SlotID: optional("slot-1"), CashDelta: "-1.5",
				Currency: optional("EUR"), Ledger: "books it", Sends: 1, Booked: true,
				Status: fencerow.StatusCompleted, Outcome: optional("completed"), Attempts: 1, AsExpected: true,
			}},
			Slots: []devSlotDoc{{
				SlotID: "slot-1", Currency: optional("EUR"), LedgerBalance: "-1.5", KnownBalance: optional("-1.5"),
				Outstanding: []currencySumsDoc{sums},
			}},
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

// Every document is described, with the very keys and in the very form that the golden files hold.
func TestDocumentsAreDescribed(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/interfaces.md")
	if err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	for _, part := range bytes.Split(page, []byte("```json\n"))[1:] {
		block, _, _ := bytes.Cut(part, []byte("```"))
		var compact bytes.Buffer
		if err := json.Compact(&compact, block); err != nil {
			t.Fatalf("%v: %s", err, block)
		}
		described[compact.String()] = true
	}
	files, err := filepath.Glob("testdata/json/*.json")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		document, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		bare := strings.HasSuffix(file, "_bare.json") || strings.HasSuffix(file, "_none.json")
		if !bare && !described[strings.TrimSpace(string(document))] {
			t.Errorf("docs/interfaces.md does not hold the document of %s", file)
		}
	}
}
