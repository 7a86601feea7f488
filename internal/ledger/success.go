package ledger

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/fourblocks2020/fencerow"
)

// success reads a 2xx answer. Only what is clear counts as booked; what is not is worth a read-back, and
// otherwise the same key is sent again.
func (h *HTTP) success(ctx context.Context, e *fencerow.Entry, digest string, r *reply) fencerow.Answer {
	status := r.StatusCode
	accepted := status == http.StatusAccepted && h.config.AcceptedIsDuplicate
	booked := accepted || status == http.StatusOK || status == http.StatusCreated ||
		status == http.StatusNoContent
	switch {
	case r.err != nil:
		return cutShort(ctx)
	case !r.sentWhole: // What it does not know it cannot have booked.
		return doubtful(fencerow.ReasonUnexpectedSuccess)
	}
	if len(r.body) == 0 {
		switch {
		case !booked:
			return notBooked(status)
		case h.config.RequireEcho:
			return doubtful(fencerow.ReasonAnswerIncomplete)
		case !endsClearly(r.Response):
			return doubtful(fencerow.ReasonAnswerUnreadable)
		}
		return settled(e, accepted || saysReplayed(r.Header), &document{})
	}
	d, ok := parseDocument(r.body)
	said := d.echo(string(e.CorrelationID), digest)
	switch {
	case (!ok || !isJSON(r.Header)) && booked:
		return doubtful(fencerow.ReasonAnswerUnreadable)
	case ok && isJSON(r.Header) && (said == echoContradicts || d.result == resultConflict):
		a := entry(fencerow.AnswerConflict, fencerow.Answered, fencerow.ReasonEchoConflict)
		a.Resolve = true
		return a
	case !booked:
		return notBooked(status)
	case h.config.RequireEcho && said != echoBoth:
		return doubtful(fencerow.ReasonAnswerIncomplete)
	}
	return settled(e, accepted || d.result == resultDuplicate || saysReplayed(r.Header), &d)
}

// settled is a booking, made by this attempt or by an earlier one.
func settled(e *fencerow.Entry, before bool, d *document) fencerow.Answer {
	class := fencerow.AnswerDelivered
	if before {
		class = fencerow.AnswerDuplicate
	}
	a := entry(class, fencerow.Answered, "")
	a.LedgerRef, a.Snapshot = d.ref, d.snapshotFor(e)
	return a
}

// doubtful is a success that cannot be relied on: it may have been booked.
func doubtful(reason fencerow.ReasonCode) fencerow.Answer {
	a := entry(fencerow.AnswerRetryable, fencerow.Unknown, reason)
	a.Resolve = true
	return a
}

func notBooked(status int) fencerow.Answer {
	if status == http.StatusAccepted {
		return doubtful(fencerow.ReasonAcceptedNotBooked)
	}
	return doubtful(fencerow.ReasonUnexpectedSuccess)
}

// cutShort is a success whose body did not arrive whole.
func cutShort(ctx context.Context) fencerow.Answer {
	switch reason := ended(ctx); reason {
	case "":
		return doubtful(fencerow.ReasonAnswerUnreadable)
	case fencerow.ReasonDeliveryStopped:
		return entry(fencerow.AnswerRetryable, fencerow.Unknown, reason)
	default:
		return doubtful(reason)
	}
}

// endsClearly reports whether an empty body is known to be whole. A body that ends with the connection is
// not: the answer may have been cut before its first byte.
func endsClearly(response *http.Response) bool {
	return response.ContentLength == 0 || response.StatusCode == http.StatusNoContent ||
		slices.Contains(response.TransferEncoding, "chunked")
}

// saysReplayed reports whether the ledger marked its answer as that of an earlier request.
func saysReplayed(header http.Header) bool {
	for _, name := range [...]string{"Idempotency-Hit", "Idempotent-Replayed", "Idempotency-Replayed"} {
		if values := header[name]; len(values) > 0 && strings.EqualFold(values[0], "true") {
			return true
		}
	}
	return false
}
