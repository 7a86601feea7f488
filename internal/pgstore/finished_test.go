package pgstore

import (
	"testing"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

// A pending row that somebody put beside its own finished life can never be ended: it goes, and its outcome
// is lost, while the others of its batch are recorded.
func TestPendingRowBesideItsFinishedLifeGoesAndHurtsNoOther(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, schema)
	store := openOn(t, database)
	enqueue(t, store, "i", 2)
	finish := func(c *fencerow.Claim) []fencerow.Verdict {
		outcomes := make([]fencerow.Outcome, len(c.Entries))
		for i := range c.Entries {
			outcomes[i] = fencerow.Outcome{OutboxID: c.Entries[i].OutboxID, Kind: fencerow.OutcomeCompleted}
		}
		verdicts, err := store.RecordOutcomes(t.Context(), fencerow.RecordParams{
			Instance: "i", Token: c.Token, Outcomes: outcomes,
		})
		if err != nil {
			t.Fatal(err)
		}
		return verdicts
	}
	if v := finish(claim(t, store, "i", 1)); !v[0].Applied {
		t.Fatalf("the first outcome: %+v", v)
	}
	database.Exec(t, `
INSERT INTO fencerow.ledger_pending (outbox_id, instance_key, next_retry_at)
SELECT outbox_id, instance_key, now() - interval '1 h'
FROM fencerow.ledger_outcome`)
	store.instance("i").wake()
	again := claim(t, store, "i", 2)
	if len(again.Entries) != 2 {
		t.Fatalf("claimed %d rows, want both", len(again.Entries))
	}
	verdicts := finish(again)
	if verdicts[0].Applied || verdicts[0].Lost != fencerow.LostFinished || !verdicts[1].Applied {
		t.Errorf("verdicts: %+v; want the first lost as finished, the second applied", verdicts)
	}
	if c := claim(t, store, "i", 2); len(c.Entries) != 0 {
		t.Errorf("%d rows are still there", len(c.Entries))
	}
}
