package writer

import (
	"context"
	"errors"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// work is one delivery worker. It ends when no claim has an unstarted row.
func (w *Writer) work() {
	for b := w.nextBatch(); b != nil; b = w.nextBatch() {
		for {
			if !b.exempt && b.holds != w.health.holds.Load() {
				b.stop()
			}
			now := w.now()
			row, first, ok := b.take(now)
			if !ok {
				break
			}
			if first {
				w.begun()
			}
			r := w.deliver(b, row, now.mono)
			b.finish(r, time.Since(now.mono))
		}
	}
}

// evidence is what an attempt says about the ledger as a whole.
type evidence int

const (
	noEvidence   evidence = iota // nothing was sent, or it was weighed already
	wasDefinite                  // the ledger gave a definite answer
	wasAmbiguous                 // a 500, or no answer
)

// judgement is an attempt's outcome before its effect on the others is known.
type judgement struct {
	outcome  fencerow.Outcome
	evidence evidence
	release  bool
	// retryAfter is kept for an outcome that becomes the target's fault later.
	retryAfter time.Duration
	reason     fencerow.ReasonCode
}

// deliver makes one attempt and weighs it.
func (w *Writer) deliver(b *batch, row int, started time.Time) result {
	holds := w.health.holds.Load() // before asking for one: a hold that begins in between is not missed
	held, _ := w.health.hold(started)
	e := &b.claim.Entries[row]
	j := w.attempt(b, e, started)
	r := result{row: row, outcome: j.outcome, release: j.release}
	switch j.evidence {
	case wasDefinite:
		if w.health.definite(e.OutboxID, j.outcome.Kind.Success(), holds) {
			w.healthChanged()
		}
	case wasAmbiguous:
		r.lapse = &lapse{
			id: e.OutboxID, correlationID: e.CorrelationID, life: e.Life, attempt: e.Attempt, reason: j.reason,
			dueAgain: time.Now().Add(j.outcome.Delay),
			instead:  w.forgive(e.OutboxID, j.reason, j.retryAfter, true),
			last:     j.outcome.Kind == fencerow.OutcomeDeadLettered,
			spared:   w.spare(e, j.reason, j.retryAfter, true),
			held:     held != "", holds: holds,
		}
		if w.health.ambiguous(r.lapse) {
			w.targetHeld()
		}
	case noEvidence:
	}
	return r
}

// attempt delivers one row and judges the answer. A panic of the ledger is an answer too.
func (w *Writer) attempt(b *batch, e *fencerow.ClaimedEntry, started time.Time) (j judgement) {
	var resolver fencerow.Resolver
	defer func() {
		if recover() != nil {
			j = w.judge(b, e, fencerow.Answer{
				Class: fencerow.AnswerRetryable, Certainty: fencerow.Unknown, Scope: fencerow.ScopeEntry,
				Reason: fencerow.ReasonDeliveryPanicked,
			}, resolver)
		}
	}()
	resolver = w.resolver()
	if e.Attempt > w.cfg.MaxAttempts {
		return w.exhausted(b, e, resolver)
	}
	ctx := w.newContext(b, started.Add(w.cfg.DeliveryTimeout))
	defer ctx.end()
	a := w.ledger.Deliver(ctx, fencerow.Delivery{
		Entry: &e.Entry, Epoch: b.claim.Epoch, Attempt: e.Attempt,
	})
	stopped := a.Certainty != fencerow.Answered && b.halted()
	tooLate := a.Certainty == fencerow.NotSent && a.Reason == fencerow.ReasonTrustWindowEnded
	if a.Class == fencerow.AnswerRetryable && (stopped || tooLate) {
		return judgement{release: true, outcome: fencerow.Outcome{
			OutboxID: e.OutboxID, Uncertain: a.Certainty != fencerow.NotSent,
		}}
	}
	return w.judge(b, e, sanitize(a), resolver)
}

// halted reports whether the worker cancelled the deliveries of b because it stops.
func (b *batch) halted() bool {
	return errors.Is(b.ctx.Err(), context.Canceled) &&
		!errors.Is(context.Cause(b.ctx), fencerow.ErrTrustWindowEnded)
}

// sanitize makes an answer recordable whatever the adapter put into it: bounded, and with a reason where one
// is required.
func sanitize(a fencerow.Answer) fencerow.Answer {
	a.RetryAfter = min(max(a.RetryAfter, 0), MaxRetryAfter)
	if !fencerow.ValidLedgerRef(a.LedgerRef) {
		a.LedgerRef = ""
	}
	switch a.Class {
	case fencerow.AnswerDelivered, fencerow.AnswerDuplicate:
		if !a.Reason.Valid() {
			a.Reason = ""
		}
		return a
	case fencerow.AnswerRetryable, fencerow.AnswerConflict, fencerow.AnswerPermanent:
	default:
		a.Class, a.Certainty, a.Scope = fencerow.AnswerRetryable, fencerow.Unknown, fencerow.ScopeEntry
	}
	if !a.Reason.Valid() {
		a.Reason = fencerow.ReasonAnswerUnreadable
	}
	a.LedgerRef, a.Snapshot = "", nil
	return a
}

// resolver returns the ledger's read-back, or nil if it has none.
func (w *Writer) resolver() fencerow.Resolver {
	if r, ok := w.ledger.(fencerow.Resolver); ok && r.CanResolve() {
		return r
	}
	return nil
}
