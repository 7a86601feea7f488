package main

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/config"
	"github.com/fourblocks2020/fencerow/internal/daemon"
	"github.com/fourblocks2020/fencerow/internal/ledger"
	"github.com/fourblocks2020/fencerow/internal/observe"
	"github.com/fourblocks2020/fencerow/internal/pgstore"
	"github.com/fourblocks2020/fencerow/internal/writer"
)

// delivery is what a command that delivers is given. It works as the daemon does, by the same code.
type delivery struct {
	Own    owned         `embed:""`
	Ledger config.Ledger `embed:""`
	Writer config.Writer `embed:""`
	Log    config.Log    `embed:""`
}

// deliverer delivers until it is closed.
type deliverer struct {
	writers  []*writer.Writer
	observer *observe.Observer
	store    *pgstore.Store
	ledger   *ledger.HTTP
}

// open makes the parts. What is wrong with the settings is found before a connection is opened. The log goes
// to w.
func (d *delivery) open(ctx context.Context, w io.Writer) (*deliverer, error) {
	adapter, err := d.Ledger.Open(d.Writer.Deliveries())
	if err != nil {
		return nil, err
	}
	observer, err := d.Log.Observer(w, d.Own.Instance.Key(), observe.Alerting{Worker: d.Writer.WorkerID()})
	if err != nil {
		return nil, err
	}
	store, err := openStore(ctx, d.Own.Database.Within(d.Writer.Lease))
	if err != nil {
		return nil, err
	}
	writers, err := d.Writer.New(store, adapter, observer, writer.DefaultTargetDelay)
	if err != nil {
		store.Close()
		return nil, err
	}
	if adapter.TokenFileExposed() {
		observer.FileNotice(observe.NoticeTokenFileReadable, "ledger_token_file")
	}
	return &deliverer{writers: writers, observer: observer, store: store, ledger: adapter}, nil
}

// lastLook is how long closing may look for a claim whose answer was lost.
const lastLook = 5 * time.Second

// close gives back what is still held, and closes the parts.
func (d *deliverer) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastLook)
	defer cancel()
	var stopping sync.WaitGroup
	for _, w := range d.writers {
		// Its error says that deliveries were cancelled; there are none any more.
		stopping.Go(func() { _ = w.Shutdown(ctx) })
	}
	stopping.Wait()
	d.observer.CloseAlerts()
	d.ledger.Close()
	d.store.Close()
}

//nolint:lll // a struct tag cannot be wrapped
type processCmd struct {
	Delivery delivery         `embed:""`
	Ops      config.OpsClient `embed:""`
	Entry    entryArg         `embed:""`
	ForceDue bool             `name:"force-due" env:"FENCEROW_FORCE_DUE" help:"Also take an entry that waits for its retry."`
}

// Help says who delivers.
func (*processCmd) Help() string {
	return `Without --ops-url this command claims, delivers and records by itself; with it the running daemon
does, so that its counters see it, and neither database nor ledger need be given here.

Exit status: 0 the entry is in the ledger; 2 it cannot be claimed now, and the reason says why; 3 it is
another instance's or nobody's; 4 the claim was lost meanwhile; 5 it was tried and is not in the ledger as
far as is known.`
}

// Run processes one entry.
func (c *processCmd) Run(ctx context.Context, a *app) error {
	result, err := c.process(ctx, a)
	if err != nil {
		return err
	}
	err = a.print(result, func(t *table) {
		t.row("correlation id", result.CorrelationID)
		t.row("claim", result.ClaimResult)
		t.row("outcome", result.Outcome)
		t.row("reason", result.Reason)
	})
	if err != nil {
		return err
	}
	switch observe.ClaimResult(result.ClaimResult) {
	case observe.ResultUnavailable:
		return ended(exitNothingDone, "nothing done: the entry cannot be claimed (%s)", result.Reason)
	case observe.ResultForeign:
		return ended(exitRefused, "refused: %s", hints[fencerow.ErrForeignInstance])
	case observe.ResultLost:
		return ended(exitClaimLost, "the claim was lost (%s): another worker has the entry or finished it",
			result.Reason)
	case observe.ResultClaimed:
	}
	if !result.Outcome.Success() {
		return ended(exitNotCompleted, "the entry was tried and is not completed")
	}
	return nil
}

func (c *processCmd) process(ctx context.Context, a *app) (daemon.ProcessResult, error) {
	if c.Ops.Given() {
		client, err := c.Ops.Open()
		if err != nil {
			return daemon.ProcessResult{}, err
		}
		result, err := client.Process(ctx, c.Delivery.Own.Instance.Key(), c.Entry.id(), c.ForceDue)
		return result, told(err)
	}
	d, err := c.Delivery.open(ctx, a.stderr)
	if err != nil {
		return daemon.ProcessResult{}, err
	}
	defer d.close(ctx)
	result, err := d.writers[0].RunTargeted(ctx, c.Entry.id(), c.ForceDue)
	return daemon.NewProcessResult(result), err
}

//nolint:lll // a struct tag cannot be wrapped
type backfillCmd struct {
	Delivery delivery `embed:""`
	Limit    int      `name:"limit" env:"FENCEROW_BACKFILL_LIMIT" default:"0" help:"Entries to claim at most; 0 is no limit."`
}

// Help says when it ends.
func (*backfillCmd) Help() string {
	return `Delivers what is due until nothing is, or until the limit is reached, beside the daemons of the
instance if there are any. It stops early when the ledger as a whole fails, or the instance is on hold.

Exit status: 0 everything claimed is in the ledger; 1 it was interrupted or failed; 2 the instance is on
hold; 4 claims were lost; 5 entries did not complete, or the ledger failed.`
}

// Validate checks the limit.
func (c *backfillCmd) Validate() error {
	if c.Limit < 0 {
		return usage("--limit", "must not be negative")
	}
	return nil
}

// Run drains the backlog.
func (c *backfillCmd) Run(ctx context.Context, a *app) error {
	config.CollectLessOften()
	show := newProgress(a.stderr)
	d, err := c.Delivery.open(ctx, show)
	if err != nil {
		return err
	}
	defer d.close(ctx)
	stopWatching := d.watch(ctx, show, int64(c.Limit))
	result, err := writer.Backfill(ctx, d.writers, c.Limit)
	stopWatching()
	doc := backfillDoc{Claimed: result.Claimed, Lost: result.Lost, Outcomes: result.Outcomes}
	printed := a.print(doc, func(t *table) {
		t.line("%d claimed, %d lost", doc.Claimed, doc.Lost)
		for _, kind := range fencerow.OutcomeKinds() {
			t.row("  "+string(kind), doc.Outcomes[kind])
		}
	})
	switch {
	case err != nil:
		return err
	case printed != nil:
		return printed
	case ctx.Err() != nil:
		return failure("interrupted; what was claimed is recorded or given back")
	}
	return endBackfill(&result)
}

// endBackfill tells how a backfill ended that nobody interrupted.
func endBackfill(r *writer.BackfillResult) error {
	completed := r.Outcomes[fencerow.OutcomeCompleted] + r.Outcomes[fencerow.OutcomeDuplicateCompleted]
	switch {
	case r.Stopped == string(writer.SkippedInstanceHeld):
		return ended(exitNothingDone, "the instance is on hold; end that with \"fencerow resume\"")
	case r.Stopped == writer.StoppedNothingStarted:
		return ended(exitNotCompleted,
			"stopped: no delivery could start in time; give a longer --lease or a shorter --delivery-timeout")
	case r.Stopped != "":
		return ended(exitNotCompleted, "stopped: the ledger as a whole fails (%s)", r.Stopped)
	case r.Lost > 0:
		return ended(exitClaimLost, "%d claims were lost: other workers have those entries or finished them",
			r.Lost)
	case completed < r.Claimed:
		return ended(exitNotCompleted, "%d entries were tried and are not completed", r.Claimed-completed)
	}
	return nil
}

// watchPause is how often progress is looked at.
const watchPause = 200 * time.Millisecond

// watch shows how far a backfill is, until the function it returns is called. How much there is to do is only
// known at its beginning, and roughly.
func (d *deliverer) watch(ctx context.Context, show *progress, limit int64) (stop func()) {
	if !show.shown {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		total := limit
		counts, err := d.store.Counts(ctx, d.observer.Instance())
		if err == nil && (limit == 0 || counts.Due < limit) {
			total = counts.Due
		}
		ticker := time.NewTicker(watchPause)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				show.update(d.recorded(), total, "entries recorded")
			}
		}
	})
	return func() {
		cancel()
		watching.Wait()
		show.end()
	}
}

func (d *deliverer) recorded() int64 {
	o := d.observer.Metrics().Outcomes
	return o.Completed + o.DuplicateCompleted + o.RetryableFailure + o.ConflictBlocked + o.PermanentFailure +
		o.DeadLettered
}
