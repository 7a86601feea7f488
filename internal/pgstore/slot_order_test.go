package pgstore

import (
	"testing"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

// A record writes slots with a snapshot and new ones without. Two records that meet in slots nobody has
// written yet wait for each other in one order only, whichever kind a slot is for each.
func TestRecordsThatMeetInNewSlotsDoNotDeadlock(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, schema)
	// Nobody looks for a deadlock in time, so that one ends a statement instead of being repeated.
	database.Exec(t, "ALTER DATABASE "+database.Name+" SET deadlock_timeout = '1h'")
	store := openOn(t, database)
	// The first entry of each claim is for a slot whose insertion the test holds up; the next has a snapshot for
	// the slot that the other claim's last entry is for, without one.
	claims := map[string]*fencerow.Claim{}
	for name, slots := range map[string][]fencerow.SlotID{"a": {"A0", "x", "y"}, "b": {"A0", "y", "x"}} {
		var entries []fencerow.NewEntry
		for i, slot := range slots {
			entries = append(entries, fencerow.NewEntry{
				CorrelationID: fencerow.CorrelationID(name + string(rune('0'+i))), EntryKind: "fill", SlotID: slot,
				Currency: "EUR", Payload: []byte(`{}`),
			})
		}
		if _, err := store.EnqueueMany(
			t.Context(), fencerow.EnqueueParams{Instance: "i", Entries: entries},
		); err != nil {
			t.Fatal(err)
		}
		claims[name] = claim(t, store, "i", len(slots))
	}
	first, err := database.Connect(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Exec(
		t.Context(), "INSERT INTO fencerow.ledger_slot (instance_key, slot_id) VALUES ('i', 'A0')",
	); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error)
	for _, c := range claims {
		outcomes := completed(c)
		for i := range outcomes[:2] {
			outcomes[i].Snapshot = &fencerow.Snapshot{SlotID: c.Entries[i].SlotID, Currency: "EUR", Version: 1}
		}
		go func() {
			verdicts, err := store.RecordOutcomes(t.Context(), fencerow.RecordParams{
				Instance: c.Instance, Token: c.Token, Outcomes: outcomes,
			})
			if n := applied(verdicts); err == nil && n != len(outcomes) {
				t.Errorf("%d outcomes applied, want %d", n, len(outcomes))
			}
			failed <- err
		}()
	}
	waitForLocks(t, database.Connect(t), len(claims))
	if err := first.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range claims {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	slots, err := store.Slots(t.Context(), "i")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range slots {
		if s.LedgerVersion == nil {
			t.Errorf("slot %s has no snapshot", s.SlotID)
		}
	}
}
