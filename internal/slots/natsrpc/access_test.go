package natsrpc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/slots"
	"github.com/fourblocks2020/fencerow/internal/slots/natstest"
)

// trap accepts connections at an address, closes them, and tells of each. The function returned ends it.
func trap(t *testing.T, address string, calls chan<- struct{}) func() {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	check(t, err)
	ended := make(chan struct{})
	end, over := sync.OnceFunc(func() { _ = listener.Close() }), make(chan struct{})
	var once sync.Once
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.Close() // whoever connects has lost already
			select {
			case calls <- struct{}{}:
			case <-over:
			}
		}
	}()
	closeTrap := func() {
		once.Do(func() { close(over) })
		end()
		<-ended
	}
	t.Cleanup(closeTrap)
	return closeTrap
}

// deaf accepts connections at several addresses, and neither says anything nor ends them. calls gets one
// element for each.
func deaf(t *testing.T, n int) (urls string, calls chan net.Conn) {
	t.Helper()
	var all []string
	calls = make(chan net.Conn, 10*n)
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		check(t, err)
		t.Cleanup(func() { _ = listener.Close() })
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				calls <- conn
			}
		}()
		all = append(all, "nats://"+listener.Addr().String())
	}
	return strings.Join(all, ","), calls
}

// The client library waits for each of them in turn.
func TestNeitherStoppingNorAskingWaitsForServersThatSayNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		connections int
		begin       func(t *testing.T, cfg Config) (end func())
	}{
		"Stopping": {2, func(t *testing.T, cfg Config) func() {
			return run(t, cfg, self, oneSlot, time.Minute).stop
		}},
		"Asking": {1, func(t *testing.T, cfg Config) func() {
			ctx, cancel := context.WithCancel(t.Context())
			answer := make(chan error, 1)
			go func() {
				_, err := Ask(ctx, cfg, slots.Request{Instance: self})
				answer <- err
			}()
			return func() {
				cancel()
				if err := <-answer; !errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			urls, calls := deaf(t, 4)
			end := tt.begin(t, Config{URL: urls})
			for range tt.connections {
				conn := <-calls
				defer conn.Close()
			}
			began := time.Now()
			end()
			if took := time.Since(began); took > connectWithin/2 {
				t.Errorf("it took %s", took)
			}
			if len(calls) != 0 {
				t.Error("another server was tried")
			}
		})
	}
}

func TestANewTokenIsTakenUp(t *testing.T) {
	nats := natstest.Start(t, func(o *server.Options) { o.Authorization = "token-2" })
	var token atomic.Pointer[string]
	set := func(s string) { token.Store(&s) }
	cfg := Config{URL: nats.URL(), Token: func() (fencerow.Secret, error) {
		if s := *token.Load(); s != "" {
			return fencerow.NewSecret(s), nil
		}
		return fencerow.Secret{}, errors.New(sentinel)
	}}
	set("token-1")
	d := run(t, cfg, self, oneSlot, time.Minute)
	d.log.await(t, 1)
	_, err := Ask(t.Context(), cfg, slots.Request{Instance: self})
	if !errors.Is(err, ErrCredentials) {
		t.Errorf("got %v", err)
	}
	set("token-2")
	want := []string{"nats disconnected nats_credentials_refused", "nats connected"}
	if got := d.log.await(t, 2); !slices.Equal(got, want) {
		t.Errorf("it logs %q, want %q", got, want)
	}
	if _, err := Ask(t.Context(), cfg, slots.Request{Instance: self}); err != nil {
		t.Error(err)
	}
	set("")
	_, err = Ask(t.Context(), cfg, slots.Request{Instance: self})
	if !errors.Is(err, ErrCredentialsUnreadable) || strings.Contains(err.Error(), sentinel) {
		t.Errorf("got %v", err)
	}
}

func TestTLSIsDemandedAndChecked(t *testing.T) {
	web := httptest.NewTLSServer(http.NotFoundHandler())
	defer web.Close()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	secure := natstest.Start(t, func(o *server.Options) {
		o.TLS, o.TLSConfig = true, &tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS12}
	})
	plain := natstest.Start(t)
	trusting := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	up(t, Config{URL: secure.URL(), TLS: trusting}, self, oneSlot)
	for _, tt := range []struct {
		name string
		cfg  Config
		want error
	}{
		{"Trusted", Config{URL: secure.URL(), TLS: trusting}, nil},
		{"Unknown", Config{URL: secure.URL(), TLS: &tls.Config{MinVersion: tls.VersionTLS12}}, ErrTLS},
		{"NotOffered", Config{URL: plain.URL(), TLS: trusting}, ErrTLS},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Ask(t.Context(), tt.cfg, slots.Request{Instance: self}); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}
