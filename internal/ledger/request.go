package ledger

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"math/rand/v2"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"

	"github.com/fourblocks2020/fencerow"
)

// The names of headers.
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

// newHead returns what every delivery's head begins with, up to the headers that differ: net/http writes it,
// so that path, host and agent are what it makes of them.
func newHead(u *url.URL, version string) ([]byte, error) {
	header := commonHeaders(version)
	header.Set(headerType, "application/json")
	head, err := plainRequest(http.MethodPost, u, header)
	head = bytes.Replace(head, []byte("Content-Length: 0\r\n"), nil, 1)
	return bytes.TrimSuffix(head, []byte("\r\n")), err
}

// hostOf returns a URL's host as the Host header has it, in ASCII.
func hostOf(u *url.URL) (string, error) {
	written, err := plainRequest(http.MethodGet, u, nil)
	if err != nil {
		return "", err
	}
	read, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(written)))
	if err != nil {
		return "", err
	}
	return read.Host, nil
}

// commonHeaders are those that a delivery and a read-back have in common whatever they are about.
func commonHeaders(version string) http.Header {
	return http.Header{
		"Accept":          {"application/json, application/problem+json"},
		"Accept-Encoding": {"identity"},
		"User-Agent":      {"fencerow/" + version},
	}
}

// plainRequest returns a request without a body as net/http writes it.
func plainRequest(method string, u *url.URL, header http.Header) ([]byte, error) {
	r := http.Request{Method: method, URL: u, Host: u.Host, Header: header}
	var b bytes.Buffer
	err := r.Write(&b)
	return b.Bytes(), err
}

// writeDelivery writes an attempt's request into b and returns the digest of its document.
func (h *HTTP) writeDelivery(b *buffer, d fencerow.Delivery, token string) (digest string) {
	e := d.Entry
	b.document = e.AppendDocument(b.document[:0])
	digest = contentDigest(b.document)
	key := IdempotencyKey(e.Instance, e.CorrelationID)
	if h.config.QuoteKey {
		key = `"` + key + `"`
	}
	r := append(b.request[:0], h.head...)
	r = appendHeader(r, headerKey, key)
	r = appendHeader(r, headerDigest, digest)
	r = appendNumber(r, headerFence, int64(d.Epoch))
	r = appendNumber(r, headerAttempt, int64(d.Attempt))
	if token != "" {
		r = appendHeader(r, h.config.TokenHeader, token)
	}
	if trace := attemptTrace(e.TraceParent); trace != "" {
		r = appendHeader(r, headerTrace, trace)
	}
	r = appendNumber(r, "Content-Length", int64(len(b.document)))
	r = append(r, "\r\n"...)
	b.request = append(r, b.document...)
	return digest
}

// appendHeader appends a header. Whatever goes into one was checked before: keys, digests and trace contexts
// are printable ASCII, and so is a token.
func appendHeader(b []byte, name, value string) []byte {
	b = append(append(b, name...), ": "...)
	return append(append(b, value...), "\r\n"...)
}

// appendNumber appends a header whose value is a number.
func appendNumber(b []byte, name string, value int64) []byte {
	b = append(append(b, name...), ": "...)
	return append(strconv.AppendInt(b, value, 10), "\r\n"...)
}

// writeReadback writes a read-back's request into b.
func (h *HTTP) writeReadback(b *buffer, e *fencerow.Entry, token string) error {
	header := commonHeaders(h.config.Version)
	if token != "" {
		header.Set(h.config.TokenHeader, token)
	}
	if trace := attemptTrace(e.TraceParent); trace != "" {
		header.Set(headerTrace, trace)
	}
	var err error
	b.request, err = plainRequest(http.MethodGet, h.readbackURL(e), header)
	return err
}

// attemptTrace returns the trace context of one attempt, empty if the entry has none that is good.
func attemptTrace(parent string) string {
	if parent == "" {
		return ""
	}
	var span [8]byte
	binary.BigEndian.PutUint64(span[:], rand.Uint64()) //nolint:gosec // a span id is no secret
	return childTraceParent(parent, span)
}

// credential returns the token's header value, empty if none is configured, and whether it could be had.
func (h *HTTP) credential() (string, bool) {
	if h.token == nil {
		return "", true
	}
	return h.token.header()
}

// contentDigest returns the value of a Content-Digest header (RFC 9530).
func contentDigest(body []byte) string {
	sum := sha256.Sum256(body)
	b := make([]byte, 0, len("sha-256=::")+44)
	b = append(b, "sha-256=:"...)
	b = base64.StdEncoding.AppendEncode(b, sum[:])
	return string(append(b, ':'))
}
