package writer

import (
	"time"

	"github.com/fourblocks2020/fencerow"
)

// judge turns an answer into an outcome: who is to blame, whether it was the last attempt, and what a
// read-back says before an entry is parked that may have been booked. resolver is nil if there is no
// read-back.
func (w *Writer) judge(
	b *batch, e *fencerow.ClaimedEntry, a fencerow.Answer, resolver fencerow.Resolver,
) judgement {
	if w.stalled(b, a) {
		return judgement{outcome: w.spare(e, a.Reason, a.RetryAfter, a.Certainty == fencerow.Unknown)}
	}
	if a.Class == fencerow.AnswerRetryable && a.Scope == fencerow.ScopeTarget {
		chargedFor, began := w.health.targetFailed(e.OutboxID, a.Reason, a.RetryAfter)
		if began {
			w.targetHeld()
		}
		if !chargedFor {
			return judgement{outcome: w.forgive(e.OutboxID, a.Reason, a.RetryAfter, a.Certainty == fencerow.Unknown)}
		}
	}
	j := judgement{
		outcome: w.outcome(e, a), evidence: evidenceOf(a), retryAfter: a.RetryAfter, reason: a.Reason,
	}
	uncertain := e.Uncertain || a.Certainty == fencerow.Unknown
	parks := j.outcome.Kind.Terminal() && !j.outcome.Kind.Success()
	switch {
	case j.outcome.Kind.Success():
	case resolver != nil && (a.Resolve || parks && uncertain):
		return w.resolve(b, e, a, j, resolver)
	case parks && uncertain:
		j.outcome.Reason = j.outcome.Reason.AsUnverified()
	}
	return j
}

// stalled reports whether a delivery without an answer ended with the trust window, or after it. The ledger
// had its time long before: it was this process that stood still, or a clock that jumped, which is the fault
// of neither the ledger nor the entry.
func (w *Writer) stalled(b *batch, a fencerow.Answer) bool {
	return a.Class == fencerow.AnswerRetryable && a.Certainty != fencerow.Answered &&
		(a.Reason == fencerow.ReasonTrustWindowEnded || b.window.left(w.now()) <= 0)
}

// evidenceOf says what an answer tells about the target. One that blames it was weighed before.
func evidenceOf(a fencerow.Answer) evidence {
	switch {
	case a.Scope == fencerow.ScopeTarget && a.Class == fencerow.AnswerRetryable:
		return noEvidence
	case a.Class != fencerow.AnswerRetryable:
		return wasDefinite
	case a.Certainty == fencerow.Unknown || a.Reason == fencerow.ReasonLedgerError:
		return wasAmbiguous
	case a.Certainty == fencerow.Answered:
		return wasDefinite
	}
	return noEvidence
}

// outcome maps an answer that is the entry's own, before any read-back.
func (w *Writer) outcome(e *fencerow.ClaimedEntry, a fencerow.Answer) fencerow.Outcome {
	o := fencerow.Outcome{OutboxID: e.OutboxID, Reason: a.Reason}
	switch a.Class {
	case fencerow.AnswerDelivered:
		o.Kind, o.LedgerRef, o.Snapshot = fencerow.OutcomeCompleted, a.LedgerRef, a.Snapshot
	case fencerow.AnswerDuplicate:
		o.Kind, o.LedgerRef, o.Snapshot = fencerow.OutcomeDuplicateCompleted, a.LedgerRef, a.Snapshot
	case fencerow.AnswerConflict:
		o.Kind = fencerow.OutcomeConflictBlocked
	case fencerow.AnswerPermanent:
		o.Kind = fencerow.OutcomePermanentFailure
	case fencerow.AnswerRetryable:
		if w.alwaysInFlight(e, a) {
			o.Kind, o.Reason = fencerow.OutcomeConflictBlocked, fencerow.ReasonConflict.AsUnverified()
			return o
		}
		return w.retry(e, a.Reason, a.RetryAfter, a.Certainty == fencerow.Unknown)
	}
	return o
}

// alwaysInFlight reports whether the ledger has called the entry's key in flight so often that no other
// request can still be at it.
func (w *Writer) alwaysInFlight(e *fencerow.ClaimedEntry, a fencerow.Answer) bool {
	return a.Reason == fencerow.ReasonInFlight && e.LastReason == fencerow.ReasonInFlight &&
		e.Attempt >= w.cfg.InFlightAttempts
}

// retry charges the entry for a failure: due again later, or dead-lettered at its last attempt.
func (w *Writer) retry(
	e *fencerow.ClaimedEntry, why fencerow.ReasonCode, retryAfter time.Duration, uncertain bool,
) fencerow.Outcome {
	o := fencerow.Outcome{
		OutboxID: e.OutboxID, Kind: fencerow.OutcomeRetryableFailure, Reason: why,
		Charge: fencerow.ChargeAttempt, Uncertain: uncertain,
	}
	if e.Attempt >= w.cfg.MaxAttempts {
		o.Kind = fencerow.OutcomeDeadLettered
		return o
	}
	o.Delay = w.cfg.backoff(e.Attempt, retryAfter)
	return o
}

// forgive is the outcome of a failure that was the target's: it uses up no attempt and parks nothing.
func (w *Writer) forgive(
	id fencerow.OutboxID, why fencerow.ReasonCode, retryAfter time.Duration, uncertain bool,
) fencerow.Outcome {
	return fencerow.Outcome{
		OutboxID: id, Kind: fencerow.OutcomeRetryableFailure, Reason: why, Charge: fencerow.ChargeNothing,
		Delay: w.cfg.targetDelay(retryAfter), Uncertain: uncertain,
	}
}

// spare is the outcome of a failure that was nobody's fault, or at the last attempt, of which it is not known
// whose it was: it uses up nothing and waits as long as if it had.
func (w *Writer) spare(
	e *fencerow.ClaimedEntry, why fencerow.ReasonCode, retryAfter time.Duration, uncertain bool,
) fencerow.Outcome {
	return fencerow.Outcome{
		OutboxID: e.OutboxID, Kind: fencerow.OutcomeRetryableFailure, Reason: why, Charge: fencerow.ChargeNothing,
		Delay: w.cfg.backoff(e.Attempt, retryAfter), Uncertain: uncertain,
	}
}

// exhausted ends an entry whose attempts were used up before this claim, by workers that died or under a
// higher limit. It is not delivered again, but the ledger is asked first if it can be.
func (w *Writer) exhausted(b *batch, e *fencerow.ClaimedEntry, resolver fencerow.Resolver) judgement {
	why := fencerow.ReasonLeaseExpired
	if e.ExpiryCount == 0 && e.LastReason.Valid() {
		why = e.LastReason
	}
	j := judgement{reason: why, outcome: fencerow.Outcome{
		OutboxID: e.OutboxID, Kind: fencerow.OutcomeDeadLettered, Reason: why,
	}}
	switch {
	case !e.Uncertain:
	case resolver != nil:
		return w.resolve(b, e, fencerow.Answer{
			Class: fencerow.AnswerRetryable, Certainty: fencerow.NotSent, Scope: fencerow.ScopeEntry, Reason: why,
		}, j, resolver)
	default:
		j.outcome.Reason = why.AsUnverified()
	}
	return j
}

// resolve asks the ledger what it has under the entry's key and amends j by what it says.
func (w *Writer) resolve(
	b *batch, e *fencerow.ClaimedEntry, a fencerow.Answer, j judgement, resolver fencerow.Resolver,
) judgement {
	res := w.readBack(b, e, resolver)
	switch res.Result {
	case fencerow.ResolvedEqual:
		j.evidence = wasDefinite
		j.outcome = fencerow.Outcome{
			OutboxID: e.OutboxID, Kind: fencerow.OutcomeDuplicateCompleted, Reason: fencerow.ReasonResolvedEqual,
			LedgerRef: validRef(res.LedgerRef), Snapshot: res.Snapshot,
		}
		return j
	case fencerow.ResolvedDifferent:
		j.evidence = wasDefinite
		j.outcome = fencerow.Outcome{
			OutboxID: e.OutboxID, Kind: fencerow.OutcomeConflictBlocked, Reason: fencerow.ReasonResolvedDifferent,
		}
		return j
	case fencerow.ResolvedAbsent:
		// Nothing is booked. An answer that left it open is tried again; a definite one stands as it is, and
		// verified. Deliveries that get nowhere are still evidence against the target, so that is left as it is.
		if a.Resolve {
			j.outcome = w.retry(e, fencerow.ReasonResolvedAbsent, a.RetryAfter, a.Certainty == fencerow.Unknown)
		}
		return j
	case fencerow.ResolveFailed:
	}
	switch {
	case b.halted():
		return judgement{release: true, outcome: fencerow.Outcome{
			OutboxID: e.OutboxID, Uncertain: a.Certainty != fencerow.NotSent,
		}}
	case e.Attempt > w.cfg.MaxAttempts && b.window.left(w.now()) <= 0:
		j.outcome = w.spare(e, j.reason, 0, true)
	case e.Attempt > w.cfg.MaxAttempts:
		// Nothing was delivered, so that this is all that is known of the ledger: it may be down.
		j.evidence, j.outcome.Reason = wasAmbiguous, j.outcome.Reason.AsUnverified()
	case e.Attempt < w.cfg.MaxAttempts:
		// The ledger could not be asked: the entry is tried again, uncertain as it is.
		j.outcome = w.retry(e, a.Reason, a.RetryAfter, true)
	case j.outcome.Kind.Terminal():
		j.outcome.Reason = j.outcome.Reason.AsUnverified()
	}
	return j
}

// readBack asks the ledger inside the trust window. A panic is no answer.
func (w *Writer) readBack(
	b *batch, e *fencerow.ClaimedEntry, resolver fencerow.Resolver,
) (res fencerow.Resolution) {
	defer func() {
		if recover() != nil {
			res = fencerow.Resolution{Result: fencerow.ResolveFailed}
		}
	}()
	ctx := w.newContext(b, time.Now().Add(w.cfg.DeliveryTimeout))
	defer ctx.end()
	if ctx.Err() == nil {
		return resolver.Resolve(ctx, &e.Entry)
	}
	return fencerow.Resolution{Result: fencerow.ResolveFailed}
}

func validRef(s string) string {
	if fencerow.ValidLedgerRef(s) {
		return s
	}
	return ""
}
