package outbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/shopspring/decimal"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/outbox"
)

// book stores a fill in the service's own table and enqueues it for the ledger in one transaction. README.md
// shows this function.
func book(ctx context.Context, pool *pgxpool.Pool, fillID string, cash decimal.Decimal) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx,
			"INSERT INTO fill (fill_id, cash) VALUES ($1, $2) ON CONFLICT DO NOTHING", fillID, cash.String())
		if err != nil {
			return err
		}
		enqueued, err := outbox.Enqueue(ctx, tx, "desk-1", fencerow.NewEntry{
			CorrelationID: fencerow.CorrelationID("fill-" + fillID),
			EntryKind:     "fill",
			SlotID:        "momentum-eu",
			CashDelta:     cash,
			Currency:      "EUR",
			Payload:       json.RawMessage(`{"fill_id":"` + fillID + `"}`),
		})
		fmt.Println(fillID, enqueued.Result)
		return err
	})
}

// A retry of the service enqueues nothing twice; other content under the same correlation id is refused.
func ExampleEnqueue() {
	ctx := context.Background()
	pool, closePool := examplePool() // In a service: pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	defer closePool()

	cash := decimal.RequireFromString("-1250.40")
	fmt.Println(book(ctx, pool, "8841", cash))
	fmt.Println(book(ctx, pool, "8841", cash))
	err := book(ctx, pool, "8841", decimal.RequireFromString("-9.99"))
	fmt.Println(errors.Is(err, fencerow.ErrEnqueueConflict), err)

	// Output:
	// 8841 inserted
	// <nil>
	// 8841 duplicate
	// <nil>
	// 8841 conflict
	// true correlation_id fill-8841 is already enqueued with other content
}
