package ledger

import (
	"context"
	"sync"

	"github.com/fourblocks2020/fencerow"
)

// Deliver makes one attempt: one request on the wire, whatever comes back.
func (h *HTTP) Deliver(ctx context.Context, d fencerow.Delivery) fencerow.Answer {
	token, ok := h.credential()
	if !ok {
		return fencerow.Answer{
			Class: fencerow.AnswerRetryable, Certainty: fencerow.NotSent, Scope: fencerow.ScopeTarget,
			Reason: fencerow.ReasonCredentialsUnreadable,
		}
	}
	b := buffers.Get().(*buffer) //nolint:errcheck // the pool holds nothing else
	defer buffers.Put(b)
	digest := h.writeDelivery(b, d, token)
	r := h.deliveries.exchange(ctx, b.request, b.answer[:0])
	b.answer = r.body
	switch {
	case r.Response == nil:
		return r.failure(ctx)
	case r.StatusCode >= 200 && r.StatusCode <= 299:
		return h.success(ctx, d.Entry, digest, &r)
	case r.err != nil:
		return h.refusal(r.Response, nil) // The status is the truth; half a body adds nothing.
	}
	return h.refusal(r.Response, r.body)
}

// buffer is what an exchange is written to and read into. One is used again: the request has left when the
// exchange is over, and nothing of the answer's bytes is kept.
type buffer struct{ document, request, answer []byte }

var buffers = sync.Pool{New: func() any {
	const most = 1 << 10 // of most documents, requests and answers
	return &buffer{make([]byte, 0, most), make([]byte, 0, most), make([]byte, 0, most)}
}}
