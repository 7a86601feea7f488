package writer

import (
	"context"
	"errors"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// PollResult says what one poll did.
type PollResult struct {
	// Claimed is how many rows the poll claimed.
	Claimed int
	// More says that another poll at once may claim more. It is never set while the target is on hold, and by
	// RunOnce only if a delivery started.
	More bool
	// Skipped is empty if the store was asked and answered. A poll that neither claimed nor was skipped found
	// nothing due.
	Skipped SkipReason
}

// Empty reports whether the poll found nothing due.
func (r PollResult) Empty() bool { return r.Claimed == 0 && r.Skipped == "" }

// SkipReason says why a poll claimed nothing without finding nothing due. The vocabulary is closed.
type SkipReason string

// The skip reasons. None of them is an empty poll or a failure.
const (
	// SkippedNoRoom: the rows in flight use up the budget, or what could start in the trust window.
	SkippedNoRoom SkipReason = "no_room"
	// SkippedTargetHeld: the ledger asked for a pause that has not passed.
	SkippedTargetHeld SkipReason = "target_held"
	// SkippedInstanceHeld: an operator holds the instance.
	SkippedInstanceHeld SkipReason = "instance_held"
	// SkippedStoreBusy: the store's lock or connection was not had in time.
	SkippedStoreBusy SkipReason = "store_busy"
	// SkippedStopping: the writer stops, or the context was already cancelled.
	SkippedStopping SkipReason = "stopping"
)

// Poll is one tick: it claims what fits beside the rows in flight and starts their deliveries, and returns
// without waiting for them. A claim once sent is awaited even if ctx is cancelled. An error is an unexpected
// one, such as a database that cannot be reached; or, beside what the poll did, that of an earlier claim's
// outcomes or releases, which could not be written and had to be given up.
func (w *Writer) Poll(ctx context.Context) (PollResult, error) {
	res, _, err := w.poll(ctx, w.cfg.BatchLimit)
	if err == nil && res.Skipped != SkippedStopping {
		err = w.unwritten.failure()
	}
	return res, err
}

// RunOnce is a Poll that waits until the rows it claimed are recorded, released or given up. When ctx is
// cancelled, rows not yet started are released and running deliveries get Config.Grace. An error is as in
// Poll, or says that rows could not be recorded.
func (w *Writer) RunOnce(ctx context.Context) (PollResult, error) {
	res, b, err := w.poll(ctx, w.cfg.BatchLimit)
	if b == nil {
		return res, err
	}
	w.await(ctx, b)
	why, _ := w.health.hold(w.now().mono)
	res.More = b.claim.More && b.started() && why == ""
	return res, b.sum().err
}

// poll claims up to limit rows and starts them. The batch is nil if nothing was claimed.
func (w *Writer) poll(ctx context.Context, limit int) (PollResult, *batch, error) {
	if ctx.Err() != nil || !w.enter() {
		return PollResult{Skipped: SkippedStopping}, nil, nil
	}
	defer w.leave()
	w.settleDoubts()
	res, b, err := w.claimBatch(limit)
	if err == nil && res.Skipped != SkippedStoreBusy && res.Skipped != SkippedInstanceHeld {
		w.giveBackCharges(giveBacksAPoll)
	}
	return res, b, err
}

// claimBatch is the claim of a poll.
func (w *Writer) claimBatch(limit int) (PollResult, *batch, error) {
	rows, probe, skip := w.reserve(limit)
	if skip != "" {
		return PollResult{Skipped: skip}, nil, nil
	}
	claimed := 0
	defer func() { w.unreserve(rows, claimed) }()

	win, token := w.openWindow(), fencerow.NewClaimToken()
	claim, err := w.claim(token, w.claimTime(), func(ctx context.Context) (*fencerow.Claim, error) {
		return w.store.ClaimBatch(ctx, fencerow.ClaimBatchParams{
			Instance: w.cfg.Instance, Worker: w.cfg.Worker, Token: token, Limit: rows, Lease: w.cfg.Lease,
		})
	})
	switch {
	case errors.Is(err, fencerow.ErrStoreBusy):
		return PollResult{Skipped: SkippedStoreBusy}, nil, nil
	case errors.Is(err, fencerow.ErrInstanceHeld):
		return PollResult{Skipped: SkippedInstanceHeld}, nil, nil
	case err != nil:
		return PollResult{}, nil, err
	case len(claim.Entries) == 0:
		w.obs.EmptyPoll()
		w.foundNothing(rows)
		return PollResult{}, nil, nil
	}
	w.obs.BatchClaimed(claim, rows)
	claimed = len(claim.Entries)
	b := newBatch(claim, win, win.left(w.now()), probe)
	w.start(b, false)
	return PollResult{Claimed: claimed, More: claim.More && !probe}, b, nil
}

// foundNothing notes that a claim of up to so many rows found nothing due. With nothing else in flight there
// is nothing to probe the target by.
func (w *Writer) foundNothing(rows int) {
	w.mu.Lock()
	idle := w.inFlight == rows
	w.mu.Unlock()
	if idle && w.health.forget(w.cfg.quiet()) {
		w.healthChanged()
	}
}

// claimTime is how long a claim for delivery may take: about until nothing of it could start any more.
func (w *Writer) claimTime() time.Duration { return max(w.cfg.startWindow(), minWriteTime) }

// claim asks the store for a claim. The request outlives its caller's context, because an answer that nobody
// waits for leaves rows leased; it is bounded by the given time. When it is not known whether the claim was
// made, it is given back by its token.
func (w *Writer) claim(
	token fencerow.ClaimToken, within time.Duration, ask func(context.Context) (*fencerow.Claim, error),
) (claim *fencerow.Claim, err error) {
	ctx, cancel := context.WithTimeout(w.life, within)
	defer cancel()
	defer func() {
		if v := recover(); v != nil {
			w.doubt(token)
			panic(v)
		}
	}()
	claim, err = ask(ctx)
	if err != nil && mayHaveBeenMade(err) {
		w.doubt(token)
	}
	return claim, err
}

// await waits for the first batch. Once ctx is cancelled it gives the running deliveries of all of them one
// grace period, stops them, and waits for all.
func (w *Writer) await(ctx context.Context, batches ...*batch) {
	select {
	case <-batches[0].settled:
		return
	case <-ctx.Done():
	}
	for _, b := range batches {
		b.stop()
	}
	halt := time.AfterFunc(w.cfg.Grace, func() {
		for _, b := range batches {
			b.halt()
		}
	})
	defer halt.Stop()
	for _, b := range batches {
		<-b.settled
	}
}
