package outbox

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/pgstore"
)

// Enqueue enqueues one entry under the instance's key in the caller's transaction, in one round trip.
//
// If the instance has an entry with this correlation id and equal content, the result is a duplicate with the
// id of that entry, and nothing is written. If its content differs, the error is a
// [*fencerow.EnqueueConflictError], nothing is written, and the transaction is still usable. A malformed key
// or entry is a [*fencerow.InputError], found before anything is sent. See the package comment for other
// errors.
//
// Like any use of a pgx.Tx it must not run at the same time as another one of the same transaction. The
// entry's payload is not kept.
func Enqueue(
	ctx context.Context, tx pgx.Tx, instance fencerow.InstanceKey, entry fencerow.NewEntry,
) (fencerow.Enqueued, error) {
	results, err := EnqueueMany(ctx, tx, instance, []fencerow.NewEntry{entry})
	if err != nil {
		return fencerow.Enqueued{}, err
	}
	if results[0].Result == fencerow.EnqueueConflict {
		return results[0], &fencerow.EnqueueConflictError{
			CorrelationID: entry.CorrelationID, OutboxID: results[0].OutboxID,
		}
	}
	return results[0], nil
}

// EnqueueMany enqueues up to [fencerow.MaxEnqueue] entries in the caller's transaction, in one round trip,
// and returns one result for each, in the order given. A conflict is a result here, not an error: the other
// entries are enqueued, and whether the transaction may commit without it is for the caller to decide. One
// malformed entry refuses the whole call, before anything is sent. No entries is no error and sends nothing.
//
// See [Enqueue] and the package comment for the rest.
func EnqueueMany(
	ctx context.Context, tx pgx.Tx, instance fencerow.InstanceKey, entries []fencerow.NewEntry,
) ([]fencerow.Enqueued, error) {
	return pgstore.EnqueueTx(ctx, tx, fencerow.EnqueueParams{Instance: instance, Entries: entries})
}
