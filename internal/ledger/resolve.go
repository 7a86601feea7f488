package ledger

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/fourblocks2020/fencerow"
)

// CanResolve reports whether a read-back address is configured.
func (h *HTTP) CanResolve() bool { return h.readback != nil }

// Resolve asks the ledger what it has under the entry's key: GET <read-back URL>/<path-escaped idempotency
// key>. 200 with an answer document that repeats the content digest, or the correlation id where no digest is
// given and no echo is required, is equal; one that contradicts either is different; 404 is absent; all else
// has failed. ctx bounds it. It panics unless [HTTP.CanResolve].
func (h *HTTP) Resolve(ctx context.Context, e *fencerow.Entry) fencerow.Resolution {
	failed := fencerow.Resolution{Result: fencerow.ResolveFailed}
	token, ok := h.credential()
	if !ok {
		return failed
	}
	b := buffers.Get().(*buffer) //nolint:errcheck // the pool holds nothing else
	defer buffers.Put(b)
	if h.writeReadback(b, e, token) != nil {
		return failed
	}
	r := h.readbacks.exchange(ctx, b.request, b.answer[:0])
	b.answer = r.body
	if r.Response == nil || r.err != nil {
		return failed
	}
	switch r.StatusCode {
	case http.StatusOK:
		return h.compare(e, &r)
	case http.StatusNotFound:
		return fencerow.Resolution{Result: fencerow.ResolvedAbsent}
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		if h.token != nil {
			h.token.refused()
		}
	}
	return failed
}

func (h *HTTP) compare(e *fencerow.Entry, r *reply) fencerow.Resolution {
	failed := fencerow.Resolution{Result: fencerow.ResolveFailed}
	d, ok := parseDocument(r.body)
	if !ok || !isJSON(r.Header) || d.result == resultConflict {
		return failed
	}
	const around = 512
	digest := contentDigest(e.AppendDocument(make([]byte, 0, len(e.Payload)+around)))
	switch said := d.echo(string(e.CorrelationID), digest); {
	case said == echoContradicts:
		return fencerow.Resolution{Result: fencerow.ResolvedDifferent}
	case said == echoBoth, !h.config.RequireEcho && said != echoAbsent:
		return fencerow.Resolution{Result: fencerow.ResolvedEqual, LedgerRef: d.ref, Snapshot: d.snapshotFor(e)}
	}
	return failed
}

// readbackURL escapes the key as one segment of the path.
func (h *HTTP) readbackURL(e *fencerow.Entry) *url.URL {
	key := IdempotencyKey(e.Instance, e.CorrelationID)
	u := *h.readback
	u.RawPath = strings.TrimRight(u.EscapedPath(), "/") + "/" + url.PathEscape(key)
	u.Path = strings.TrimRight(u.Path, "/") + "/" + key
	return &u
}
