package pgstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

// openOn opens a store on the database; it ends with the test.
func openOn(t testing.TB, database *pgtest.Database, options ...pgtest.DSNOption) *Store {
	t.Helper()
	store, err := Open(Config{DSN: fencerow.NewSecret(database.DSN(options...)), MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

// enqueue puts n entries c-0 to c-(n-1).
func enqueue(t testing.TB, store fencerow.Store, instance fencerow.InstanceKey, n int) {
	t.Helper()
	enqueueNamed(t, store, instance, "c", n)
}

// enqueueNamed enqueues n entries NAME-0, NAME-1 and so on.
func enqueueNamed(
	t testing.TB, store fencerow.Store, instance fencerow.InstanceKey, name string, n int,
) {
	t.Helper()
	entries := make([]fencerow.NewEntry, n)
	for i := range entries {
		entries[i] = fencerow.NewEntry{
			CorrelationID: fencerow.CorrelationID(fmt.Sprint(name, "-", i)), EntryKind: "fill", Payload: []byte(`{}`),
		}
	}
	if _, err := store.EnqueueMany(
		t.Context(),
		fencerow.EnqueueParams{Instance: instance, Entries: entries},
	); err != nil {
		t.Fatal(err)
	}
}

func batchParams(instance fencerow.InstanceKey, limit int) fencerow.ClaimBatchParams {
	return fencerow.ClaimBatchParams{
		Instance: instance, Worker: "w", Token: fencerow.NewClaimToken(), Limit: limit, Lease: time.Minute,
	}
}

func claim(t testing.TB, store fencerow.Store, instance fencerow.InstanceKey, limit int) *fencerow.Claim {
	t.Helper()
	c, err := store.ClaimBatch(t.Context(), batchParams(instance, limit))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func release(t testing.TB, store fencerow.Store, c *fencerow.Claim) {
	t.Helper()
	if _, err := store.Release(t.Context(), fencerow.ReleaseParams{
		Instance: c.Instance, Token: c.Token, All: true,
	}); err != nil {
		t.Fatal(err)
	}
}

func completed(c *fencerow.Claim) []fencerow.Outcome {
	outcomes := make([]fencerow.Outcome, len(c.Entries))
	for i := range c.Entries {
		outcomes[i] = fencerow.Outcome{OutboxID: c.Entries[i].OutboxID, Kind: fencerow.OutcomeCompleted}
	}
	return outcomes
}

func record(t testing.TB, store fencerow.Store, c *fencerow.Claim) []fencerow.Verdict {
	t.Helper()
	verdicts, err := store.RecordOutcomes(t.Context(), fencerow.RecordParams{
		Instance: c.Instance, Token: c.Token, Outcomes: completed(c),
	})
	if err != nil {
		t.Fatal(err)
	}
	return verdicts
}

func applied(verdicts []fencerow.Verdict) int {
	n := 0
	for _, v := range verdicts {
		if v.Applied {
			n++
		}
	}
	return n
}
