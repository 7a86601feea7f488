package pgstore

import (
	"testing"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

// An age beyond what a duration holds would come out as any other.
func TestARowThatIsDueSinceEverHasABoundedAge(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, schema)
	store := openOn(t, database)
	enqueue(t, store, "i", 1)
	database.Exec(t, "UPDATE fencerow.ledger_pending SET next_retry_at = '0001-01-01 00:00:01 UTC'")
	listed, err := store.ListPending(t.Context(), fencerow.ListPendingParams{Instance: "i", Limit: 1})
	if err != nil || len(listed) != 1 || listed[0].DueFor != fencerow.MaxDueFor {
		t.Fatalf("listed %+v, %v", listed, err)
	}
	state, err := store.Show(t.Context(),
		fencerow.EntryParams{Instance: "i", CorrelationID: listed[0].CorrelationID})
	if err != nil || state.Pending.DueFor != fencerow.MaxDueFor {
		t.Errorf("shown %+v, %v", state, err)
	}
}
