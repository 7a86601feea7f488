package ledger

import (
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/secretfile"
)

// maxAnswer bounds the body of an answer, and separately its headers, in bytes.
const maxAnswer = 64 << 10

// HTTP delivers entries with one POST for each attempt. It is a [fencerow.Ledger] and a [fencerow.Resolver],
// safe for concurrent use.
type HTTP struct {
	config   Config
	url      *url.URL
	readback *url.URL // nil without read-back
	token    *tokenFile
	// head is what the head of every delivery begins with.
	head                  []byte
	deliveries, readbacks *client // one, if they go to the same host
	now                   func() time.Time
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
	h := &HTTP{config: c, now: time.Now}
	h.config.RetryableStatus = slices.Clone(c.RetryableStatus)
	h.config.TokenHeader = textproto.CanonicalMIMEHeaderKey(c.TokenHeader)
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
	host, err := hostOf(h.url)
	if err == nil {
		h.head, err = newHead(h.url, c.Version)
	}
	if err != nil {
		return nil, inputError("ledger_url", "has a host or path that cannot be sent")
	}
	h.deliveries = &client{dial: d.to(h.url.Scheme == "https", host), keep: c.Concurrency}
	if h.readback == nil {
		return h, nil
	}
	other, err := hostOf(h.readback)
	if err != nil {
		return nil, inputError("ledger_readback_url", "has a host or path that cannot be sent")
	}
	h.readbacks = h.deliveries
	if other != host || h.readback.Scheme != h.url.Scheme {
		h.readbacks = &client{dial: d.to(h.readback.Scheme == "https", other), keep: c.Concurrency}
	}
	return h, nil
}

// TokenFileExposed reports whether users other than the token file's owner and group can read or change it,
// which an operator should be warned of.
func (h *HTTP) TokenFileExposed() bool {
	return h.token != nil && secretfile.Exposed(h.token.path)
}

// Close closes idle connections. Deliveries in flight go on.
func (h *HTTP) Close() {
	h.deliveries.close()
	if h.readbacks != nil {
		h.readbacks.close()
	}
}
