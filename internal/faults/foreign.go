package faults

import (
	"context"
	"fmt"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/pgstore"
)

// foreignKey is an instance that nobody works for: all that it has must stay as it is.
const foreignKey = "foreign-desk"

// seedForeign gives the foreign instance entries that wait, some that a claim of an hour holds, some that an
// expired claim holds, and some that are finished. Half of them have correlation ids that others have too.
func seedForeign(ctx context.Context, db *database) error {
	store, err := pgstore.Open(pgstore.Config{DSN: fencerow.NewSecret(db.adminDSN)})
	if err != nil {
		return err
	}
	defer store.Close()
	entries := make([]fencerow.NewEntry, 80)
	for n := range entries {
		entries[n] = entry{instance: foreignKey, n: n}.new()
		if n%2 == 1 {
			entries[n].CorrelationID = fencerow.CorrelationID(fmt.Sprintf("foreign-%d", n))
		}
	}
	_, err = store.EnqueueMany(ctx, fencerow.EnqueueParams{Instance: foreignKey, Entries: entries})
	if err != nil {
		return err
	}
	var claim *fencerow.Claim
	for _, lease := range []time.Duration{fencerow.MaxLease, fencerow.MinLease, fencerow.MaxLease} {
		claim, err = store.ClaimBatch(ctx, fencerow.ClaimBatchParams{
			Instance: foreignKey, Worker: "foreign-worker", Token: fencerow.NewClaimToken(), Limit: 20, Lease: lease,
		})
		if err != nil {
			return err
		}
	}
	outcomes := make([]fencerow.Outcome, len(claim.Entries))
	for i := range outcomes {
		outcomes[i] = fencerow.Outcome{OutboxID: claim.Entries[i].OutboxID, Kind: fencerow.OutcomeCompleted}
	}
	_, err = store.RecordOutcomes(ctx, fencerow.RecordParams{
		Instance: foreignKey, Token: claim.Token, Outcomes: outcomes,
	})
	return err
}

// foreignSQL is all that the foreign instance has, a row a line.
const foreignSQL = `
SELECT t FROM (
    SELECT 'entry ' || o::text AS t FROM fencerow.ledger_outbox o WHERE instance_key = $1
    UNION ALL
    SELECT 'pending ' || p::text FROM fencerow.ledger_pending p WHERE instance_key = $1
    UNION ALL
    SELECT 'claim ' || c::text FROM fencerow.ledger_claim c WHERE instance_key = $1
    UNION ALL
    SELECT 'outcome ' || f::text FROM fencerow.ledger_outcome f WHERE instance_key = $1
    UNION ALL
    SELECT 'slot ' || s::text FROM fencerow.ledger_slot s WHERE instance_key = $1
    UNION ALL
    SELECT 'skip ' || k::text FROM fencerow.ledger_skip k WHERE instance_key = $1
    UNION ALL
    SELECT 'instance ' || i::text FROM fencerow.ledger_instance i WHERE instance_key = $1
) AS everything
ORDER BY t`
