package main

import (
	"context"
	"errors"

	"github.com/fourblocks2020/fencerow"
)

//nolint:lll // a struct tag cannot be wrapped
type requeueCmd struct {
	Own   owned    `embed:""`
	Entry entryArg `embed:""`
	From  string   `name:"from" env:"FENCEROW_REQUEUE_FROM" required:"" placeholder:"STATUS" help:"The status that the entry must have: conflict_blocked, permanent_failure or dead_lettered."`
}

// Help says what a requeue keeps.
func (*requeueCmd) Help() string {
	return `The entry begins its next life: no attempts, the same bytes and idempotency key. It may have been
booked before, and is marked so: a ledger that honours the key books it once.`
}

// Validate checks the expected status.
func (c *requeueCmd) Validate() error {
	if !fencerow.Status(c.From).Blocked() {
		return usage("--from", "must be conflict_blocked, permanent_failure or dead_lettered")
	}
	return nil
}

// Run requeues one entry.
func (c *requeueCmd) Run(ctx context.Context, a *app) error {
	store, err := openStore(ctx, &c.Own.Database)
	if err != nil {
		return err
	}
	defer store.Close()
	err = store.Requeue(ctx, fencerow.RequeueParams{
		Instance: c.Own.Instance.Key(), CorrelationID: c.Entry.id(), From: fencerow.Status(c.From),
	})
	doc := requeueDoc{CorrelationID: c.Entry.id(), Result: "requeued"}
	status := fencerow.StatusPending
	switch wrong, isWrong := errors.AsType[*fencerow.WrongStatusError](err); {
	case err == nil:
		doc.Status = &status
	case isWrong:
		doc.Result, doc.Status = string(fencerow.ErrWrongStatus), &wrong.Status
		err = ended(exitNothingDone, "nothing done: %v", wrong)
	case errors.Is(err, fencerow.ErrNotFound):
		doc.Result = string(fencerow.ErrNotFound)
		err = ended(exitNothingDone, "nothing done: the instance has no such entry")
	case errors.Is(err, fencerow.ErrForeignInstance):
		doc.Result = string(fencerow.ErrForeignInstance)
	default:
		return err
	}
	printed := a.print(doc, func(t *table) {
		if doc.Result == "requeued" {
			t.line("%s is pending again", doc.CorrelationID)
		}
	})
	return errors.Join(err, printed)
}

type holdCmd struct {
	Own owned `embed:""`
}

// Help says what a hold does not do.
func (*holdCmd) Help() string {
	return `The pause is durable and counts for every worker of the instance. Claims that stand are not touched:
what is being delivered is delivered and recorded.`
}

// Run holds the instance.
func (c *holdCmd) Run(ctx context.Context, a *app) error { return c.Own.setHold(ctx, a, true) }

type resumeCmd struct {
	Own owned `embed:""`
}

// Run ends the hold.
func (c *resumeCmd) Run(ctx context.Context, a *app) error { return c.Own.setHold(ctx, a, false) }

// setHold is done also if it was so before.
func (o *owned) setHold(ctx context.Context, a *app, held bool) error {
	store, err := openStore(ctx, &o.Database)
	if err != nil {
		return err
	}
	defer store.Close()
	change, done, nothing := store.Resume, "%s is not on hold any more", "%s was not on hold; nothing changed"
	if held {
		change, done, nothing = store.Hold, "%s is on hold", "%s was on hold already; nothing changed"
	}
	changed, err := change(ctx, o.Instance.Key())
	if err != nil {
		return err
	}
	return a.print(holdDoc{o.Instance.Key(), held, changed}, func(t *table) {
		if !changed {
			done = nothing
		}
		t.line(done, o.Instance.Key())
	})
}

//nolint:lll // a struct tag cannot be wrapped
type slotCmd struct {
	Own      owned  `embed:""`
	ID       string `arg:"" name:"id" help:"The slot's id."`
	Strategy string `name:"strategy" env:"FENCEROW_SLOT_STRATEGY" required:"" placeholder:"NAME" help:"The strategy's name: 1 to 128 printable ASCII characters, spaces inside allowed."`
}

// Validate checks the id and the name.
func (c *slotCmd) Validate() error {
	if err := named("<id>", fencerow.SlotID(c.ID).Validate()); err != nil {
		return err
	}
	params := fencerow.NameSlotParams{Instance: "any", Slot: fencerow.SlotID(c.ID), Strategy: c.Strategy}
	return named("--strategy", params.Validate())
}

// Run names the strategy.
func (c *slotCmd) Run(ctx context.Context, a *app) error {
	store, err := openStore(ctx, &c.Own.Database)
	if err != nil {
		return err
	}
	defer store.Close()
	slot := fencerow.SlotID(c.ID)
	err = store.NameSlot(ctx, fencerow.NameSlotParams{
		Instance: c.Own.Instance.Key(), Slot: slot, Strategy: c.Strategy,
	})
	if err != nil {
		return err
	}
	return a.print(slotDoc{slot, c.Strategy}, func(t *table) { t.line("%s runs %s", slot, c.Strategy) })
}
