package ledger

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/secretfile"
)

const (
	// maxAnswer bounds the body of an answer, and separately its headers, in bytes.
	maxAnswer = 64 << 10
	// idleTimeout closes idle connections before common servers do (5 s and more): a request that meets a
	// connection being closed has an unknown outcome.
	idleTimeout = 4 * time.Second
)

// HTTP delivers entries with one POST for each attempt. It is a [fencerow.Ledger] and a [fencerow.Resolver],
// safe for concurrent use.
type HTTP struct {
	config   Config
	url      *url.URL
	readback *url.URL // nil without read-back
	token    *tokenFile
	fixed    fixedHeaders
	pooled   *http.Transport
	// fresh makes a new connection for each request and keeps none.
	fresh *http.Transport
	now   func() time.Time
}

var (
	_ fencerow.Ledger   = (*HTTP)(nil)
	_ fencerow.Resolver = (*HTTP)(nil)
)

// New checks the configuration and reads the files it names; nothing is sent. The error is an
// [*fencerow.InputError] that names the setting and never its value.
func New(config Config) (*HTTP, error) {
	c, err := config.checked()
	if err != nil {
		return nil, err
	}
	h := &HTTP{config: c, fixed: newFixedHeaders(c), now: time.Now}
	h.config.RetryableStatus = slices.Clone(c.RetryableStatus)
	if h.url, err = parseURL("ledger_url", c.URL, c.AllowInsecure); err != nil {
		return nil, err
	}
	if c.ReadbackURL != "" {
		if h.readback, err = parseURL("ledger_readback_url", c.ReadbackURL, c.AllowInsecure); err != nil {
			return nil, err
		}
	}
	if c.TokenFile != "" {
		h.token = &tokenFile{path: c.TokenFile, prefix: strings.TrimPrefix(c.TokenScheme+" ", NoScheme+" "),
			reread: tokenReread}
		if _, ok := h.token.header(); !ok {
			return nil, inputError("ledger_token_file", "cannot be read, or is not one line of printable ASCII")
		}
	}
	d, err := newDialer(c)
	if err != nil {
		return nil, err
	}
	h.pooled, h.fresh = newTransport(d, c.Concurrency), newTransport(d, -1)
	return h, nil
}

// newTransport keeps up to idle connections; with a negative number each request has its own.
func newTransport(d *dialer, idle int) *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext:            d.dial,
		DialTLSContext:         d.dialTLS,
		Protocols:              &protocols,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    idle,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxAnswer,
	}
}

// TokenFileExposed reports whether users other than the token file's owner and group can read or change it,
// which an operator should be warned of.
func (h *HTTP) TokenFileExposed() bool {
	return h.token != nil && secretfile.Exposed(h.token.path)
}

// Close closes idle connections. Deliveries in flight go on.
func (h *HTTP) Close() {
	h.pooled.CloseIdleConnections()
	h.fresh.CloseIdleConnections()
}
