package daemon

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/slots"
)

// Codes of a [Client]'s errors, beside those that the daemon answers with.
const (
	// ErrDaemonUnreachable: nobody answered, or the answer was cut.
	ErrDaemonUnreachable fencerow.Code = "daemon_unreachable"
	// ErrDaemonAnswer: what answered is no daemon, or one of another version.
	ErrDaemonAnswer = slots.ErrAnswerUnreadable
	// ErrDaemonToken: the daemon requires another token, or one at all.
	ErrDaemonToken fencerow.Code = codeTokenRefused
	// ErrDaemonOtherInstance: the daemon is one of another instance. It did nothing.
	ErrDaemonOtherInstance fencerow.Code = codeOtherInstance
)

// Bounds of a [Client]'s requests.
const (
	maxRead = slots.MaxAnswer + 1 // bytes; no answer is larger than one about slots
	// askTimeout is how long the daemon may take, from connecting on, for what it answers at once or after a
	// look at its database.
	askTimeout = 10 * time.Second
	// processTimeout is how long it may take to process an entry, which its lease bounds. The lease is the
	// daemon's own setting, so that the longest one counts.
	processTimeout = fencerow.MaxLease + time.Minute
)

// Client asks a running daemon on its ops listener.
type Client struct {
	base  *url.URL
	token fencerow.Secret
	http  *http.Client
}

// NewClient returns a client for the daemon at an address such as http://127.0.0.1:8311, with a token unless
// that is zero. A malformed address is an [*fencerow.InputError].
func NewClient(opsURL string, token fencerow.Secret) (*Client, error) {
	u, err := url.Parse(opsURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil ||
		u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "" || !goodPort(u) {
		return nil, &fencerow.InputError{Field: "ops_url",
			Problem: "is not an address such as http://127.0.0.1:8311"}
	}
	transport := &http.Transport{DisableKeepAlives: true} // no proxy: a token goes to the daemon alone
	return &Client{base: u, token: token, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// goodPort reports whether an address has no port, or one that something can listen on.
func goodPort(u *url.URL) bool {
	if u.Port() == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	number, err := net.LookupPort("tcp", u.Port())
	return err == nil && number != 0
}

// Process has the daemon of the instance claim, deliver and record one entry. A refusal is a result, not an
// error. A daemon that does not answer at all is given up after 10 s, one that processes an entry not before
// the longest lease has passed.
func (c *Client) Process(
	ctx context.Context, instance fencerow.InstanceKey, id fencerow.CorrelationID, forceDue bool,
) (ProcessResult, error) {
	var result ProcessResult
	if err := id.Validate(); err != nil {
		return result, err
	}
	query := url.Values{paramInstance: {string(instance)}, paramForceDue: {strconv.FormatBool(forceDue)}}
	const op = "process by the daemon"
	// Whether anybody answers is asked first: a delivery may take too long to tell.
	if _, err := c.exchange(ctx, op, askTimeout, http.MethodGet, "/healthz", nil); err != nil {
		return result, err
	}
	path := "/v1/process/" + escapeSegment(string(id))
	err := c.ask(ctx, op, processTimeout, http.MethodPost, path, query, &result)
	if err == nil && (result.CorrelationID != id || !result.told()) {
		err = fencerow.NewError(op, ErrDaemonAnswer, nil)
	}
	return result, err
}

// Ready returns the daemon's readiness; that it is not ready is no error.
func (c *Client) Ready(ctx context.Context) (Readiness, error) {
	var doc Readiness
	return doc, c.ask(ctx, "ask for readiness", askTimeout, http.MethodGet, "/readyz", nil, &doc)
}

// Slots returns the slots that the daemon of the instance knows, and what it tells an operator if the request
// asks for that.
func (c *Client) Slots(ctx context.Context, request slots.Request) (*slots.Document, error) {
	query := url.Values{
		paramInstance: {string(request.Instance)}, paramSpy: {strconv.FormatBool(request.Spy)},
	}
	const op = "ask for slots"
	body, err := c.exchange(ctx, op, askTimeout, http.MethodGet, "/v1/slots", query)
	if err != nil {
		return nil, err
	}
	return slots.ReadAnswer(op, request, body)
}

// escapeSegment escapes s as one segment of a path. Dots are escaped too: a client or a proxy would take "."
// and ".." for steps.
func escapeSegment(s string) string { return strings.ReplaceAll(url.PathEscape(s), ".", "%2E") }

// ask makes a request and reads the answer into a document.
func (c *Client) ask(
	ctx context.Context, op string, within time.Duration, method, path string, query url.Values, into any,
) error {
	body, err := c.exchange(ctx, op, within, method, path, query)
	if err != nil {
		return err
	}
	var refusal errorDocument
	switch {
	case json.Unmarshal(body, &refusal) != nil:
		return fencerow.NewError(op, ErrDaemonAnswer, nil)
	case refusal.Error != "":
		return refusal.asError(op)
	case json.Unmarshal(body, into) != nil:
		return fencerow.NewError(op, ErrDaemonAnswer, nil)
	}
	return nil
}

// exchange makes a request and returns the answer's body, whatever its status.
func (c *Client) exchange(
	ctx context.Context, op string, within time.Duration, method, path string, query url.Values,
) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	target := strings.TrimSuffix(c.base.String(), "/") + path + "?" + query.Encode()
	request, err := http.NewRequestWithContext(ctx, method, target, nil)
	if err != nil {
		return nil, fencerow.NewError(op, ErrDaemonUnreachable, err)
	}
	if !c.token.IsZero() {
		request.Header.Set("Authorization", "Bearer "+c.token.Reveal())
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, fencerow.NewError(op, ErrDaemonUnreachable, err)
	}
	defer response.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(io.LimitReader(response.Body, maxRead))
	if err != nil {
		return nil, fencerow.NewError(op, ErrDaemonUnreachable, err)
	}
	return body, nil
}

// asError returns what the daemon refused as. What is none of its codes is not shown.
func (e errorDocument) asError(op string) error {
	switch {
	case !slots.KnownRefusal(fencerow.Code(e.Error)):
		return fencerow.NewError(op, ErrDaemonAnswer, nil)
	case fencerow.Code(e.Error) == fencerow.ErrInvalidInput:
		return &fencerow.InputError{Field: "correlation_id", Problem: "was refused by the daemon"}
	}
	return fencerow.NewError(op, fencerow.Code(e.Error), nil)
}
