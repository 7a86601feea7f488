package ledger

import (
	"context"
	"errors"
	"net"

	"github.com/fourblocks2020/fencerow"
)

// failure says what became of a request that got no answer.
func (r *reply) failure(ctx context.Context) fencerow.Answer {
	answer := fencerow.Answer{
		Class: fencerow.AnswerRetryable, Certainty: fencerow.NotSent, Scope: fencerow.ScopeEntry,
	}
	if r.sent {
		answer.Certainty = fencerow.Unknown
	}
	refused, isDial := errors.AsType[*dialError](r.err)
	switch reason := ended(ctx); {
	case reason == fencerow.ReasonDeliveryStopped:
		answer.Reason = reason
	case reason != "" && !r.connected:
		// All of the time went into connecting: the ledger is to blame, not the entry.
		answer.Reason, answer.Scope = fencerow.ReasonDialTimeout, fencerow.ScopeTarget
		if reason == fencerow.ReasonTrustWindowEnded {
			answer.Reason = reason
		}
	case reason != "":
		answer.Reason = reason
	case isDial:
		answer.Reason, answer.Scope = refused.reason, fencerow.ScopeTarget
	case isRemoteAlert(r.err):
		// A TLS 1.3 server refuses a client certificate only after the request is on its way.
		answer.Reason, answer.Scope = fencerow.ReasonTLSFailed, fencerow.ScopeTarget
	case !r.sent:
		answer.Reason, answer.Scope = fencerow.ReasonConnectionCut, fencerow.ScopeTarget
	default:
		answer.Reason = r.brokenAnswer()
	}
	return answer
}

// ended returns why ctx is over, or "" while it is not.
func ended(ctx context.Context) fencerow.ReasonCode {
	switch err := ctx.Err(); {
	case err == nil:
		return ""
	case errors.Is(context.Cause(ctx), fencerow.ErrTrustWindowEnded):
		return fencerow.ReasonTrustWindowEnded
	case errors.Is(err, context.DeadlineExceeded):
		return fencerow.ReasonDeliveryTimeout
	}
	return fencerow.ReasonDeliveryStopped
}

// brokenAnswer tells a connection that ended from one that carried something other than HTTP within the
// limits.
func (r *reply) brokenAnswer() fencerow.ReasonCode {
	if !r.answered || r.ended {
		return fencerow.ReasonConnectionCut
	}
	return fencerow.ReasonAnswerUnreadable
}

// isRemoteAlert reports whether err is an alert by which the other side ended a TLS connection.
func isRemoteAlert(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error"
}
