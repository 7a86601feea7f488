package ledger

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"syscall"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/secretfile"
)

// maxPEM bounds a file of certificates or a key, in bytes: several times a bundle of all public authorities.
const maxPEM = 4 << 20

// dialError is all that is kept of an error met before the first byte of a request could be written.
type dialError struct{ reason fencerow.ReasonCode }

func (e *dialError) Error() string { return string(e.reason) }

// dialer makes connections under the address rules. A TLS handshake is over when it returns one, so that the
// bytes counted on a connection are those of requests.
type dialer struct {
	plain, secure net.Dialer
	tls           *tls.Config
	timeout       time.Duration
}

func newDialer(c Config) (*dialer, error) {
	config, err := tlsConfig(c)
	if err != nil {
		return nil, err
	}
	return &dialer{
		plain:   net.Dialer{Timeout: c.DialTimeout, Control: addressRule(!c.AllowInsecure)},
		secure:  net.Dialer{Timeout: c.DialTimeout, Control: addressRule(false)},
		tls:     config,
		timeout: c.DialTimeout,
	}, nil
}

// to returns a function that makes connections to a URL's host, given as the Host header of a request is.
func (d *dialer) to(secure bool, host string) func(context.Context) (net.Conn, error) {
	u := url.URL{Host: host}
	port, dial := "80", d.dial
	if secure {
		port, dial = "443", d.dialTLS
	}
	address := net.JoinHostPort(u.Hostname(), orDefault(u.Port(), port))
	return func(ctx context.Context) (net.Conn, error) { return dial(ctx, address) }
}

func tlsConfig(c Config) (*tls.Config, error) {
	config := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         []string{"http/1.1"},
		ClientSessionCache: tls.NewLRUClientSessionCache(0),
	}
	if c.CAFile != "" {
		pem, ok := secretfile.Read(c.CAFile, maxPEM)
		if !ok {
			return nil, inputError("ledger_ca_file", "cannot be read, or is no file of at most 4 MiB")
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, inputError("ledger_ca_file", "holds no PEM certificate")
		}
	}
	if c.CertFile != "" {
		certPEM, hasCert := secretfile.Read(c.CertFile, maxPEM)
		if !hasCert {
			return nil, inputError("ledger_cert_file", "cannot be read, or is no file of at most 4 MiB")
		}
		keyPEM, hasKey := secretfile.Read(c.KeyFile, maxPEM)
		if !hasKey {
			return nil, inputError("ledger_key_file", "cannot be read, or is no file of at most 4 MiB")
		}
		cert, err := tls.X509KeyPair(certPEM, keyPEM)
		if err != nil {
			return nil, inputError("ledger_cert_file", "is not a PEM certificate to which the key belongs")
		}
		config.Certificates = []tls.Certificate{cert}
	}
	return config, nil
}

func (d *dialer) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := d.plain.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, &dialError{dialReason(err)}
	}
	return conn, nil
}

func (d *dialer) dialTLS(ctx context.Context, address string) (net.Conn, error) {
	conn, err := d.secure.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, &dialError{dialReason(err)}
	}
	config := d.tls.Clone()
	if config.ServerName, _, err = net.SplitHostPort(address); err != nil {
		conn.Close() //nolint:errcheck // nothing was sent
		return nil, &dialError{fencerow.ReasonTLSFailed}
	}
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	secured := tls.Client(&records{Conn: conn}, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close() //nolint:errcheck // nothing was sent
		return nil, &dialError{fencerow.ReasonTLSFailed}
	}
	return secured, nil
}

func dialReason(err error) fencerow.ReasonCode {
	var timeout interface{ Timeout() bool }
	_, isDNS := errors.AsType[*net.DNSError](err)
	switch {
	case errors.Is(err, errAddressBlocked):
		return fencerow.ReasonAddressBlocked
	case isDNS:
		return fencerow.ReasonDNSFailed
	case errors.Is(err, syscall.ECONNREFUSED):
		return fencerow.ReasonConnectRefused
	case errors.As(err, &timeout) && timeout.Timeout():
		return fencerow.ReasonDialTimeout
	}
	return fencerow.ReasonUnreachable
}
