package writer

import (
	"context"
	"errors"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/observe"
)

const (
	// recordLinger is how long the recorder waits after the first result for others to write with it. A record
	// costs about as long, and one of 20 rows costs almost as much as one of 100.
	recordLinger = 2 * time.Millisecond
	// longLinger is how long it waits in all, a recordLinger at a time, while the group is small, rows are still
	// to start and few wait for it: each record costs the server about half a millisecond beside its rows, and a
	// write for each slot among them.
	longLinger = 16 * recordLinger
	// fullGroup is the part of a claim that is a group worth writing at once: half.
	fullGroup = 2
	// othersPerWaiter is how many results must be there, and how many deliveries under way, for each worker that
	// waits for the record. Fewer is a slow ledger.
	othersPerWaiter = 4
	// The pauses between tries when the store is in trouble.
	firstPause, lastPause = 50 * time.Millisecond, time.Second
	// clockPause is how often the clocks are looked at while deliveries run. Timers stand still while a machine
	// is suspended, and do not see the wall clock jump.
	clockPause = time.Second
	// minWriteTime is what a write gets even at the end of the window: a late outcome still counts unless
	// someone reclaimed the row.
	minWriteTime = 3 * time.Second
)

// group is what the recorder writes at once.
type group struct {
	results  []result
	releases []fencerow.ReleaseRow
}

// record is the recorder of one claim. It ends when every row is settled.
func (w *Writer) record(b *batch) {
	defer w.retire(b)
	defer w.surviveRecorder(b)
	alarm := time.NewTimer(0)
	defer alarm.Stop()
	for done := false; !done; {
		alarm.Reset(w.tendWindow(b))
		select {
		case <-b.delivered:
			done = true
		case <-alarm.C:
		case <-b.arrived:
			done = b.gather()
		}
		g := w.collect(b, done)
		w.recordOutcomes(b, g.results)
		w.release(b, g.releases)
		b.noteWritten()
	}
}

// gather waits for others to be written with the first result. It reports whether all rows are delivered, so
// that the last of a claim never wait.
func (b *batch) gather() (delivered bool) {
	for waited := time.Duration(0); waited == 0 || waited < longLinger && b.patient(); waited += recordLinger {
		select {
		case <-b.delivered:
			return true
		case <-time.After(recordLinger):
		}
	}
	return false
}

// surviveRecorder ends a batch whose recorder panicked: what is not settled comes back when the lease
// expires.
func (w *Writer) surviveRecorder(b *batch) {
	v := recover()
	if v == nil {
		return
	}
	w.obs.PollFailed(v)
	b.stop()
	<-b.delivered
	b.mu.Lock()
	rest := len(b.claim.Entries) - b.done
	b.mu.Unlock()
	w.settle(b, rest, tally{err: panicError(v), reason: string(fencerow.ErrStoreFailed)})
}

// tendWindow gives back rows that can no longer start, ends the deliveries when the window has, and returns
// when to look at it again.
func (w *Writer) tendWindow(b *batch) time.Duration {
	now := w.now()
	if until := b.window.startBy - b.window.elapsed(now); until > 0 {
		return min(until, clockPause)
	}
	b.stop()
	if until := b.window.left(now) - Margin(w.cfg.Lease); until > 0 {
		return min(until, clockPause)
	}
	w.watchWindow(b)
	return clockPause
}

// collect takes what has arrived. A result of an undecided streak is left aside unless nothing is to be
// waited for any more: all rows are delivered, or the window nears its end.
func (w *Writer) collect(b *batch, delivered bool) group {
	must := delivered || b.window.left(w.now()) <= Margin(w.cfg.Lease)
	b.mu.Lock()
	g := group{results: b.ready, releases: b.giveUp}
	aside := b.aside
	busy, ended := b.busy, b.ended
	b.ready, b.giveUp, b.aside, b.busy, b.ended, b.awaited = nil, nil, nil, 0, 0, 0
	b.taken++
	b.mu.Unlock()

	var wait []result
	for _, r := range aside {
		switch w.health.settleFate(r.lapse, must) {
		case undecided:
			wait = append(wait, r)
			continue
		case forgiven:
			r.outcome = r.lapse.instead
		case spared:
			r.outcome = r.lapse.spared
		case charged:
		}
		g.results = append(g.results, r)
	}
	b.mu.Lock()
	b.aside = append(b.aside, wait...)
	b.mu.Unlock()
	w.foldRate(busy, ended)
	return g
}

// recordOutcomes writes the results of one group and tells what came of them.
func (w *Writer) recordOutcomes(b *batch, results []result) {
	if len(results) == 0 {
		return
	}
	outcomes := make([]fencerow.Outcome, len(results))
	for i := range results {
		outcomes[i] = results[i].outcome
	}
	var verdicts []fencerow.Verdict
	repeated, err := w.persist(b, func(ctx context.Context) (err error) {
		verdicts, err = w.store.RecordOutcomes(ctx, fencerow.RecordParams{
			Instance: w.cfg.Instance, Token: b.claim.Token, Outcomes: outcomes,
		})
		return err
	})
	if err != nil {
		ids := make([]fencerow.CorrelationID, len(results))
		for i := range results {
			ids[i] = b.claim.Entries[results[i].row].CorrelationID
		}
		w.abandon(b, err, ids, finishes(outcomes))
		return
	}
	w.unwritten.written(finishes(outcomes))
	w.reportRecorded(b, results, verdicts, repeated)
}

// reportRecorded counts, logs and sums up what was applied and what was lost. repeated says that an earlier
// try may have been done without our knowing: an item lost to our own outcome was recorded then.
func (w *Writer) reportRecorded(b *batch, results []result, verdicts []fencerow.Verdict, repeated bool) {
	var completed, duplicate []fencerow.CorrelationID
	sum := tally{outcomes: map[fencerow.OutcomeKind]int{}}
	for i, r := range results {
		e, o, v := &b.claim.Entries[r.row], r.outcome, verdicts[i]
		ours := repeated && v.RecordedEpoch == b.claim.Epoch && v.Outcome == o.Kind && v.Reason == o.Reason
		if !v.Applied && !ours {
			sum.lost++
			sum.outcome, sum.reason, sum.wasLost = "", string(v.Lost), true
			w.obs.ClaimLost(b.claim.Epoch, v.Lost, e.CorrelationID, o.Kind)
			continue
		}
		sum.outcomes[o.Kind]++
		sum.outcome, sum.reason, sum.wasLost = o.Kind, string(o.Reason), false
		if v.SnapshotRejected {
			w.obs.SnapshotRejected(e.CorrelationID)
		}
		switch o.Kind {
		case fencerow.OutcomeCompleted:
			completed = append(completed, e.CorrelationID)
		case fencerow.OutcomeDuplicateCompleted:
			duplicate = append(duplicate, e.CorrelationID)
		default:
			w.obs.OutcomeFailed(observe.Failure{
				Kind: o.Kind, Reason: o.Reason, Attempt: e.Attempt, CorrelationID: e.CorrelationID,
			})
		}
	}
	w.obs.RecordedSuccess(fencerow.OutcomeCompleted, completed)
	w.obs.RecordedSuccess(fencerow.OutcomeDuplicateCompleted, duplicate)
	w.settle(b, len(results), sum)
}

// release gives rows back. One that the claim does not hold any more is lost like an outcome, unless an
// unacknowledged try may have released it.
func (w *Writer) release(b *batch, rows []fencerow.ReleaseRow) {
	if len(rows) == 0 {
		return
	}
	var verdicts []fencerow.Verdict
	repeated, err := w.persist(b, func(ctx context.Context) (err error) {
		verdicts, err = w.store.Release(ctx, fencerow.ReleaseParams{
			Instance: w.cfg.Instance, Token: b.claim.Token, Rows: rows,
		})
		return err
	})
	ids := b.correlationIDs(rows)
	if err != nil {
		w.abandon(b, err, ids, false)
		return
	}
	w.unwritten.written(false)
	sum := tally{outcome: "", reason: string(fencerow.ReasonDeliveryStopped)}
	for i, v := range verdicts {
		ours := repeated && v.RecordedEpoch == b.claim.Epoch && v.Reason != fencerow.ReasonLeaseExpired
		if v.Applied || ours {
			sum.released++
			continue
		}
		sum.lost++
		sum.reason, sum.wasLost = string(v.Lost), true
		w.obs.ClaimLost(b.claim.Epoch, v.Lost, ids[i], observe.DroppedNothing)
	}
	w.settle(b, len(rows), sum)
}

func (b *batch) correlationIDs(rows []fencerow.ReleaseRow) []fencerow.CorrelationID {
	byID := make(map[fencerow.OutboxID]fencerow.CorrelationID, len(b.claim.Entries))
	for i := range b.claim.Entries {
		byID[b.claim.Entries[i].OutboxID] = b.claim.Entries[i].CorrelationID
	}
	ids := make([]fencerow.CorrelationID, len(rows))
	for i, r := range rows {
		ids[i] = byID[r.OutboxID]
	}
	return ids
}

// abandon gives rows up that could not be written: they come back when the lease expires, marked uncertain.
func (w *Writer) abandon(b *batch, err error, ids []fencerow.CorrelationID, finishes bool) {
	code := codeOf(err)
	w.unwritten.refused(err, finishes, w.cfg.unwrittenFor())
	w.obs.RecordAbandoned(code, ids)
	w.settle(b, len(ids), tally{reason: string(code), err: err})
}

// codeOf returns the code that an error of a store carries.
func codeOf(err error) fencerow.Code {
	if e, ok := errors.AsType[*fencerow.Error](err); ok {
		return e.Code()
	}
	if errors.Is(err, fencerow.ErrInvalidInput) {
		return fencerow.ErrInvalidInput
	}
	return fencerow.ErrStoreFailed
}

// persist repeats a write with the same token until it is acknowledged, or until a try that began when the
// claim could be trusted no more: that one finds out whether the claim still stands, after a process was
// stopped amid the try before. repeated says that an earlier try may have been done without an
// acknowledgement.
func (w *Writer) persist(b *batch, write func(context.Context) error) (repeated bool, err error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		over := b.window.left(w.now()) <= 0
		err = w.tryWrite(b, write)
		if err == nil || over || errors.Is(err, fencerow.ErrInvalidInput) {
			return repeated, err
		}
		repeated = repeated || !errors.Is(err, fencerow.ErrStoreBusy)
		if left := b.window.left(w.now()); left > 0 && !w.sleep(min(pause, left)) || w.life.Err() != nil {
			return repeated, err
		}
	}
}

func (w *Writer) tryWrite(b *batch, write func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicError(v)
		}
	}()
	ctx, cancel := context.WithTimeout(w.life, max(b.window.left(w.now()), minWriteTime))
	defer cancel()
	return write(ctx)
}

// sleep pauses; it reports false if the writer's time is over.
func (w *Writer) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-w.life.Done():
		return false
	}
}
