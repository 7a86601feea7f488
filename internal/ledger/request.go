package ledger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"

	"github.com/fourblocks2020/fencerow"
)

// The names of headers, in the canonical form in which http.Header is indexed.
const (
	headerKey     = "Idempotency-Key"
	headerFence   = "Fencerow-Fencing-Token"
	headerAttempt = "Fencerow-Attempt"
	headerDigest  = "Content-Digest"
	headerTrace   = "Traceparent"
	headerType    = "Content-Type"
)

// reservedHeader reports whether a token cannot be sent under this name, because the request needs it.
func reservedHeader(name string) bool {
	return slices.Contains([]string{
		headerKey, headerFence, headerAttempt, headerDigest, headerTrace, headerType, "Accept", "Accept-Encoding",
		"User-Agent", "Host", "Content-Length", "Transfer-Encoding", "Connection", "Trailer", "Te", "Upgrade",
		"Expect",
	}, textproto.CanonicalMIMEHeaderKey(name))
}

// fixedHeaders are the header values that every request shares. They are never changed.
type fixedHeaders struct {
	json, accept, identity, agent []string
	tokenName                     string
}

func newFixedHeaders(c Config) fixedHeaders {
	return fixedHeaders{
		json:      []string{"application/json"},
		accept:    []string{"application/json, application/problem+json"},
		identity:  []string{"identity"},
		agent:     []string{"fencerow/" + c.Version},
		tokenName: textproto.CanonicalMIMEHeaderKey(c.TokenHeader),
	}
}

// maxHeaders is how many headers a delivery has at most. A map that grows to them costs more than one that
// begins with the room.
const maxHeaders = 10

// message is one entry ready to be sent.
type message struct {
	entry  *fencerow.Entry
	digest string
	body   []byte
	header http.Header
}

// newMessage builds the body and the headers of an attempt. The body is fresh memory, not a pooled buffer:
// the transport may still be writing it when an early answer has arrived, and other bytes must never take its
// place.
func (h *HTTP) newMessage(d fencerow.Delivery, token []string) *message {
	e := d.Entry
	const around = 512 // most documents without their payload
	m := &message{entry: e}
	m.body = e.AppendDocument(make([]byte, 0, len(e.Payload)+around))
	m.digest = contentDigest(m.body)

	key := IdempotencyKey(e.Instance, e.CorrelationID)
	if h.config.QuoteKey {
		key = `"` + key + `"`
	}
	fence, attempt := strconv.FormatInt(int64(d.Epoch), 10), strconv.Itoa(d.Attempt)
	values := []string{key, fence, attempt, m.digest} // one allocation for all
	m.header = make(http.Header, maxHeaders)
	m.header[headerKey] = values[0:1:1]
	m.header[headerFence] = values[1:2:2]
	m.header[headerAttempt] = values[2:3:3]
	m.header[headerDigest] = values[3:4:4]
	m.header[headerType] = h.fixed.json
	h.addCommon(m.header, e.TraceParent, token)
	return m
}

// addCommon adds what a delivery and a read-back have in common.
func (h *HTTP) addCommon(header http.Header, traceParent string, token []string) {
	header["Accept"] = h.fixed.accept
	header["Accept-Encoding"] = h.fixed.identity
	header["User-Agent"] = h.fixed.agent
	if token != nil {
		header[h.fixed.tokenName] = token
	}
	if traceParent != "" {
		var span [8]byte
		binary.BigEndian.PutUint64(span[:], rand.Uint64()) //nolint:gosec // a span id is no secret
		if child := childTraceParent(traceParent, span); child != "" {
			header[headerTrace] = []string{child}
		}
	}
}

// credential returns the token's header value, nil if none is configured, and whether it could be had.
func (h *HTTP) credential() ([]string, bool) {
	if h.token == nil {
		return nil, true
	}
	return h.token.header()
}

// request has no GetBody, on purpose: see the package comment. The reader is one that net/http knows to be in
// memory, so that headers and body leave in one write.
func (h *HTTP) request(ctx context.Context, m *message) *http.Request {
	r := http.Request{
		Method: http.MethodPost, URL: h.url, Host: h.url.Host, Header: m.header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		ContentLength: int64(len(m.body)), Body: io.NopCloser(bytes.NewReader(m.body)),
	}
	return r.WithContext(ctx)
}

// contentDigest returns the value of a Content-Digest header (RFC 9530).
func contentDigest(body []byte) string {
	sum := sha256.Sum256(body)
	b := make([]byte, 0, len("sha-256=::")+44)
	b = append(b, "sha-256=:"...)
	b = base64.StdEncoding.AppendEncode(b, sum[:])
	return string(append(b, ':'))
}
