package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"github.com/fourblocks2020/fencerow/internal/observe"
)

const (
	// attemptTimeout bounds one attempt, from resolving the name to the answer's headers.
	attemptTimeout = 10 * time.Second
	// connectTimeout bounds connecting, and separately the TLS handshake.
	connectTimeout = 5 * time.Second
	// maxAnswer bounds the headers of an answer, in bytes. Its body is not read.
	maxAnswer = 16 << 10
)

var (
	errAddressBlocked = errors.New("address blocked")
	errTLS            = errors.New("tls failed")
)

// newTransport makes a new connection for each request: alerts are rare, and what a receiver sends after its
// answer must not be taken for another. No proxy of the environment is used.
func newTransport(loopbackOnly bool) *http.Transport {
	dialer := &net.Dialer{Timeout: connectTimeout}
	if loopbackOnly {
		// It sees the address after the name was resolved, so that a name that resolves anew cannot get past it.
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			ap, err := netip.ParseAddrPort(address)
			if err != nil || !ap.Addr().Unmap().IsLoopback() {
				return errAddressBlocked
			}
			return nil
		}
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	config := tlsConfig()
	return &http.Transport{
		DialContext: dialer.DialContext,
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return handshake(ctx, conn, address, config)
		},
		Protocols:              &protocols,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxAnswer,
	}
}

func tlsConfig() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
}

// handshake is done here, so that its failure can be told from others.
func handshake(ctx context.Context, conn net.Conn, address string, config *tls.Config) (net.Conn, error) {
	config = config.Clone()
	config.ServerName, _, _ = net.SplitHostPort(address) // a name that is none fits no certificate
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // nothing was sent
		return nil, errTLS
	}
	return secured, nil
}

// attempt sends a message once. An empty failure is success.
func (s *Sender) attempt(m message) (why observe.WebhookFailure) {
	defer func() {
		if recover() != nil { // what the panic says is text of others
			why = observe.WebhookUnreachable
		}
	}()
	if s.gone {
		return observe.WebhookGone
	}
	key, ok := readKey(s.secretFile)
	if !ok {
		return observe.WebhookSecretUnreadable
	}
	ctx, cancel := context.WithTimeout(s.life, attemptTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url.Reveal(), bytes.NewReader(m.body))
	if err != nil {
		return observe.WebhookUnreachable
	}
	// A request without this could be sent again by the transport, behind the back of what counts attempts.
	request.GetBody = nil
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", s.agent)
	sign(request.Header, key, m.id, time.Now(), m.body)
	response, err := s.transport.RoundTrip(request)
	if err != nil {
		return failure(err)
	}
	_ = response.Body.Close() // it is not read
	why = judge(response.StatusCode)
	s.gone = why == observe.WebhookGone
	return why
}

// failure says why there was no answer.
func failure(err error) observe.WebhookFailure {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, errAddressBlocked):
		return observe.WebhookAddressBlocked
	case errors.Is(err, errTLS):
		return observe.WebhookTLSFailed
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return observe.WebhookTimeout
	}
	return observe.WebhookUnreachable
}

// judge says what a status means. A redirect is not followed: it would take a signed message elsewhere. A
// refused signature may be that of a secret which is being replaced.
func judge(status int) observe.WebhookFailure {
	switch {
	case status >= 200 && status <= 299:
		return ""
	case status >= 300 && status <= 399:
		return observe.WebhookRedirected
	case status >= 500, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout,
		status == http.StatusTooEarly:
		return observe.WebhookUnavailable
	case status < 200, status == http.StatusUnauthorized, status == http.StatusForbidden:
		return observe.WebhookRefused
	case status == http.StatusGone:
		return observe.WebhookGone
	}
	return observe.WebhookRejected
}

// isFinal reports whether the same request again would be in vain.
func isFinal(why observe.WebhookFailure) bool {
	return why == observe.WebhookRejected || why == observe.WebhookGone
}
