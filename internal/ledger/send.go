package ledger

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
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
	a := newAttempt(ctx.Err)
	defer a.done()
	m := h.newMessage(d, token)
	response, err := h.send(ctx, a, m)
	if err != nil {
		return a.failure(ctx, err)
	}
	if response.StatusCode < 200 { // 101: its body is the connection and does not end.
		response.Body.Close() //nolint:errcheck // nothing more is wanted of it
		return h.refusal(response, nil)
	}
	buffer := bodies.Get().(*[]byte) //nolint:errcheck // the pool holds nothing else
	defer bodies.Put(buffer)
	*buffer, err = readBody(response, (*buffer)[:0])
	if status := response.StatusCode; status >= 200 && status <= 299 {
		return h.success(ctx, m, response, *buffer, err)
	}
	if err != nil {
		return h.refusal(response, nil) // The status is the truth; half a body adds nothing.
	}
	return h.refusal(response, *buffer)
}

// send makes the request and, where not one byte of it was written on a connection that had been used before,
// makes it once more on a fresh one: the ledger closed the old one while it was idle.
func (h *HTTP) send(ctx context.Context, a *attempt, m *message) (*http.Response, error) {
	traced := httptrace.WithClientTrace(ctx, &a.trace)
	response, err := h.pooled.RoundTrip(h.request(traced, m))
	if err != nil && a.reused && !a.sent() && ctx.Err() == nil {
		a.forget()
		return h.fresh.RoundTrip(h.request(traced, m))
	}
	return response, err
}

// attempt watches one request. It is used again for later ones: its hook runs on the goroutine that calls
// RoundTrip, so nothing refers to it afterwards, and the trace itself is never changed.
type attempt struct {
	trace         httptrace.ClientTrace
	conn          *countedConn // nil while there is no connection
	reused        bool
	written, read int64 // the connection's counts when this request got it
	over          func() error
}

var attempts = sync.Pool{New: func() any {
	a := &attempt{}
	a.trace.GotConn = a.gotConn
	return a
}}

// newAttempt returns an attempt that sends nothing once over returns an error.
func newAttempt(over func() error) *attempt {
	a := attempts.Get().(*attempt) //nolint:errcheck // the pool holds nothing else
	a.over = over
	return a
}

func (a *attempt) done() {
	a.forget()
	a.over = nil
	attempts.Put(a)
}

func (a *attempt) forget() { a.conn, a.reused, a.written, a.read = nil, false, 0, 0 }

// gotConn is called after connecting, which takes its time, and just before the request is written. The
// transport does not look at the context in between.
func (a *attempt) gotConn(info httptrace.GotConnInfo) {
	a.conn = info.Conn.(*countedConn) //nolint:errcheck // the dialer makes no other kind
	a.reused = info.Reused
	a.written, a.read = a.conn.written.Load(), a.conn.read.Load()
	if a.over() != nil {
		a.conn.barred.Store(true)
	}
}

// sent reports whether any byte of the request was written. It is exact once RoundTrip has returned an error:
// the transport waits for its writer then.
func (a *attempt) sent() bool { return a.conn != nil && a.conn.written.Load() > a.written }

// answered reports whether any byte of an answer was read.
func (a *attempt) answered() bool { return a.conn != nil && a.conn.read.Load() > a.read }

// bodies are buffers for answers, which are small as a rule.
var bodies = sync.Pool{New: func() any {
	b := make([]byte, 0, 1<<10)
	return &b
}}

// errTooLong says that an answer's body is over the limit.
var errTooLong = errors.New("answer too long")

// readBody reads an answer into b, to its end so that the connection can be used again, or up to the limit.
func readBody(response *http.Response, b []byte) ([]byte, error) {
	defer response.Body.Close() //nolint:errcheck // the body was read, or is given up
	if response.ContentLength > maxAnswer {
		return b, errTooLong
	}
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := response.Body.Read(b[len(b):min(cap(b), maxAnswer+1)])
		b = b[:len(b)+n]
		switch {
		case len(b) > maxAnswer:
			return b, errTooLong
		case err == io.EOF:
			return b, nil
		case err != nil:
			return b, err
		}
	}
}
