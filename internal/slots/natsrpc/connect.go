package natsrpc

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/fourblocks2020/fencerow"
)

// Codes of a connection to NATS. The text of a server or of the client library is never shown.
const (
	// ErrUnreachable: no server answers at the address, or the connection was lost.
	ErrUnreachable fencerow.Code = "nats_unreachable"
	// ErrCredentials: the server refuses the credentials, or requires some.
	ErrCredentials fencerow.Code = "nats_credentials_refused"
	// ErrCredentialsUnreadable: the file of the credentials cannot be read, or is none.
	ErrCredentialsUnreadable fencerow.Code = "nats_credentials_unreadable"
	// ErrTLS: the server's certificate is not trusted, ours is refused, or TLS is not offered.
	ErrTLS fencerow.Code = "nats_tls_failed"
)

// Config says how NATS is reached.
type Config struct {
	// URL is one address or several with commas between them, without credentials.
	URL string
	// Token returns the token, Creds a user's JWT and its key; at most one of them is not nil. They are called
	// for each connection, so that new ones count without a restart.
	Token func() (fencerow.Secret, error)
	Creds func() (fencerow.Secret, error)
	// TLS is required of the server if it is not nil.
	TLS *tls.Config
}

const (
	connectWithin = 2 * time.Second  // to a server's first words, TLS included; and again to its consent
	pingEvery     = 10 * time.Second // a server that is gone without a word is noticed after three
	maxPings      = 2
	writeWithin   = 2 * time.Second // of a server that does not read
)

// connect makes one connection, which nobody but the caller makes again; once it is made, it outlives ctx.
// closed is called once when it ends, asked for or not. cut ends it without waiting for anything.
func connect(
	ctx context.Context, cfg Config, closed nats.ConnHandler, failed nats.ErrHandler,
) (nc *nats.Conn, cut func(), err error) {
	dialer := &dialer{ctx: ctx, tls: cfg.TLS, disarm: func() bool { return true }}
	options := []nats.Option{
		nats.SetCustomDialer(dialer),
		nats.SkipHostLookup(), // which would heed no context
		nats.IgnoreDiscoveredServers(),
		nats.Name("fencerow"),
		nats.NoReconnect(),
		nats.Timeout(connectWithin),
		nats.PingInterval(pingEvery),
		nats.MaxPingsOutstanding(maxPings),
		nats.FlusherTimeout(writeWithin),
		nats.ErrorHandler(failed),
	}
	if closed != nil {
		options = append(options, nats.ClosedHandler(closed))
	}
	if cfg.TLS != nil {
		options = append(options, nats.Secure(cfg.TLS))
	}
	if cfg.Token != nil {
		token, err := cfg.Token()
		if err != nil {
			return nil, nil, ErrCredentialsUnreadable
		}
		options = append(options, nats.Token(token.Reveal()))
	}
	if cfg.Creds != nil {
		creds, err := cfg.Creds()
		if err != nil {
			return nil, nil, ErrCredentialsUnreadable
		}
		options = append(options, nats.UserCredentialBytes([]byte(creds.Reveal())))
	}
	nc, err = nats.Connect(cfg.URL, options...)
	dialer.disarm()
	if err != nil {
		return nil, nil, codeOf(err)
	}
	return nc, func() { _ = dialer.raw.Close() }, nil
}

// WellFormed reports whether creds hold a user's JWT and its key.
func WellFormed(creds fencerow.Secret) bool {
	var o nats.Options
	if nats.UserCredentialBytes([]byte(creds.Reveal()))(&o) != nil {
		return false
	}
	if _, err := o.UserJWT(); err != nil {
		return false
	}
	_, err := o.SignatureCB([]byte("nonce"))
	return err == nil
}

// codeOf says in a code why a connection cannot be had, or was lost.
func codeOf(err error) fencerow.Code {
	if code, ok := errors.AsType[fencerow.Code](err); ok {
		return code
	}
	for _, refused := range []error{
		nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired,
		nats.ErrNkeysNotSupported,
	} {
		if errors.Is(err, refused) {
			return ErrCredentials
		}
	}
	// The server may refuse our certificate after the handshake.
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" {
		return ErrTLS
	}
	return ErrUnreachable
}
