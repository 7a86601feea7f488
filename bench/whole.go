package main

import (
	"context"
	"fmt"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/pgstore"
	"github.com/fourblocks2020/fencerow/internal/writer"
)

// wholeQueue is fencerow's store without its writer: one loop claims a batch and records it whole. It tells
// what the claims and outcomes themselves cost.
type wholeQueue struct{ fencerowQueue }

func (q *wholeQueue) setting() string {
	return fmt.Sprintf("the store alone: one loop claims %d and records them whole", q.batch)
}

func (q *wholeQueue) open(_ context.Context, db *database, n int) (consumer, error) {
	store, err := openStore(db.dsn, 1)
	return &wholeConsumer{queue: q, store: store, n: n, ended: make(chan error, 1)}, err
}

type wholeConsumer struct {
	inProcess
	queue *wholeQueue
	store *pgstore.Store
	n     int
	begun bool
	ended chan error
}

func (c *wholeConsumer) begin(ctx context.Context) error {
	c.begun = true
	go func() { c.ended <- c.work(ctx) }()
	return nil
}

func (c *wholeConsumer) work(ctx context.Context) error {
	for c.delivered() < int64(c.n) {
		claim, err := c.store.ClaimBatch(ctx, fencerow.ClaimBatchParams{
			Instance: c.queue.instance, Worker: "bench:1", Token: fencerow.NewClaimToken(), Limit: c.queue.batch,
			Lease: writer.DefaultLease,
		})
		if err != nil {
			return err
		}
		outcomes := make([]fencerow.Outcome, len(claim.Entries))
		for i := range outcomes {
			outcomes[i] = fencerow.Outcome{
				OutboxID: claim.Entries[i].OutboxID, Kind: fencerow.OutcomeCompleted,
				Charge: fencerow.ChargeAttempt,
			}
		}
		if len(outcomes) == 0 {
			return fmt.Errorf("nothing to claim after %d of %d entries", c.delivered(), c.n)
		}
		verdicts, err := c.store.RecordOutcomes(ctx, fencerow.RecordParams{
			Instance: c.queue.instance, Token: claim.Token, Outcomes: outcomes,
		})
		if err != nil {
			return err
		}
		for _, v := range verdicts {
			if !v.Applied {
				return fmt.Errorf("an outcome was lost: %s", v.Lost)
			}
		}
		c.count.Add(int64(len(verdicts)))
	}
	return nil
}

func (c *wholeConsumer) stop(context.Context) (err error) {
	if c.begun {
		err = <-c.ended
	}
	c.store.Close()
	return err
}
