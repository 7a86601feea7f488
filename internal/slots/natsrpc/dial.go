package natsrpc

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"os"
	"time"
)

// dialer makes the connections of one attempt to connect, from one goroutine. It lets a context end what the
// client library waits for while it connects: one server after the other, each of which may accept and say
// nothing. And it does TLS itself, so that a [guard] can stand between that and the library.
type dialer struct {
	ctx    context.Context
	tls    *tls.Config
	raw    net.Conn    // the last one
	disarm func() bool // has ctx no longer close the last one
}

// SkipTLSHandshake tells the client library that TLS is done here.
func (*dialer) SkipTLSHandshake() bool { return true }

// Dial connects to one server, for the client library, up to where TLS is done if there is to be any.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	d.disarm()
	within, cancel := context.WithTimeout(d.ctx, connectWithin)
	defer cancel()
	var plain net.Dialer
	raw, err := plain.DialContext(within, network, address)
	if err != nil {
		return nil, err
	}
	d.raw = raw
	d.disarm = context.AfterFunc(d.ctx, func() { _ = raw.Close() }) // it carried nothing yet
	late, _ := within.Deadline()
	_ = raw.SetDeadline(late) // fails only if it is closed, which reading tells
	guarded, err := d.greet(within, address)
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	_ = raw.SetDeadline(time.Time{})
	return guarded, nil
}

// greet reads the server's first line, does TLS if we or the server require it, and returns a connection on
// which that line comes first.
func (d *dialer) greet(ctx context.Context, address string) (*guard, error) {
	in := bufio.NewReaderSize(d.raw, maxLine)
	line, err := readLine(in)
	if err != nil {
		return nil, err
	}
	document, isInfo := bytes.CutPrefix(line, []byte("INFO "))
	var info struct {
		Required  bool `json:"tls_required"`
		Available bool `json:"tls_available"`
	}
	if !isInfo || json.Unmarshal(document, &info) != nil {
		return nil, ErrProtocol
	}
	g := &guard{Conn: d.raw, raw: d.raw, in: in, line: bytes.Clone(line)}
	switch {
	case d.tls == nil && !info.Required:
		return g, nil
	case !info.Required && !info.Available:
		return nil, ErrTLS
	case in.Buffered() > 0: // Nothing that came in the clear may be read as if it had come by TLS.
		return nil, ErrProtocol
	}
	secure, err := d.handshake(ctx, address)
	if err != nil {
		return nil, err
	}
	g.Conn, g.in = secure, bufio.NewReaderSize(secure, maxLine)
	return g, nil
}

func (d *dialer) handshake(ctx context.Context, address string) (*tls.Conn, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if d.tls != nil {
		config = d.tls.Clone()
	}
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		config.ServerName = host
	}
	secure := tls.Client(d.raw, config)
	err := secure.HandshakeContext(ctx)
	switch {
	case err == nil:
		return secure, nil
	case ctx.Err() != nil, errors.Is(err, os.ErrDeadlineExceeded):
		return nil, err
	}
	return nil, ErrTLS
}
