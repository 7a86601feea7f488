package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/observe"
)

// once sends one alert to an address, in one attempt.
func once(t *testing.T, url string) observe.WebhookFailure {
	t.Helper()
	s := newSender(t, Config{URL: fencerow.NewSecret(url)})
	return s.attempt(newMessage(blocked(1)))
}

func serve(t *testing.T, secure bool, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	if secure {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return server
}

func TestOverASocketTheRequestIsSignedAndNothingElseIsAsked(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	requests := make(chan received, 1)
	server := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		requests <- received{at: time.Now(), header: r.Header.Clone(), body: string(body), late: 5}
		if r.Method != http.MethodPost || r.URL.Path != "/hook" || r.ProtoMajor != 1 {
			t.Errorf("%s %s %s", r.Method, r.URL.Path, r.Proto)
		}
		w.Header().Set("Set-Cookie", "a=b")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, strings.Repeat("x", 1<<20)) // who asked has gone away
	})
	if why := once(t, server.URL+"/hook"); why != "" {
		t.Fatalf("failed: %s", why)
	}
	request := <-requests
	verify(t, secretText, request)
	allowed := []string{"Content-Type", "Content-Length", "User-Agent", "Webhook-Id", "Webhook-Timestamp",
		"Webhook-Signature", "Connection"}
	for name := range request.header {
		if !slices.Contains(allowed, name) {
			t.Errorf("it sends a header %s", name)
		}
	}
}

func TestWhyAnAlertDidNotArriveIsACode(t *testing.T) {
	reached := make(chan struct{}, 10)
	elsewhere := serve(t, false, func(http.ResponseWriter, *http.Request) { reached <- struct{}{} })
	redirecting := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	})
	untrusted := serve(t, true, func(http.ResponseWriter, *http.Request) { reached <- struct{}{} })
	cutting := serve(t, false, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	answering := func(status int) string {
		return serve(t, false, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }).URL
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	check(t, closed.Close())
	for _, tt := range []struct {
		name, url string
		want      observe.WebhookFailure
	}{
		{"Redirect", redirecting.URL, observe.WebhookRedirected},
		{"UntrustedCertificate", untrusted.URL, observe.WebhookTLSFailed},
		{"NoTLS", strings.Replace(elsewhere.URL, "http:", "https:", 1), observe.WebhookTLSFailed},
		{"Cut", cutting.URL, observe.WebhookUnreachable},
		{"Refused", "http://" + closed.Addr().String(), observe.WebhookUnreachable},
		{"400", answering(400), observe.WebhookRejected},
		{"401", answering(401), observe.WebhookRefused},
		{"403", answering(403), observe.WebhookRefused},
		{"404", answering(404), observe.WebhookRejected},
		{"410", answering(410), observe.WebhookGone},
		{"422", answering(422), observe.WebhookRejected},
		{"425", answering(425), observe.WebhookUnavailable},
		{"408", answering(408), observe.WebhookUnavailable},
		{"429", answering(429), observe.WebhookUnavailable},
		{"500", answering(500), observe.WebhookUnavailable},
		{"599", answering(599), observe.WebhookUnavailable},
		{"204", answering(204), ""},
	} {
		if got := once(t, tt.url); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
	if len(reached) != 0 {
		t.Errorf("%d requests reached who should get none", len(reached))
	}
}

// A name that is allowed for plain http by its text can lead anywhere.
func TestPlainHTTPIsForAddressesOfThisMachineOnly(t *testing.T) {
	control := func(loopbackOnly bool) error {
		_, err := newTransport(loopbackOnly).DialContext(t.Context(), "tcp", "192.0.2.1:9")
		return err
	}
	if why := failure(control(true)); why != observe.WebhookAddressBlocked {
		t.Errorf("got %s", why)
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	for version, want := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true} {
		server.TLS.MaxVersion = version
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		check(t, err)
		config := tlsConfig()
		config.RootCAs = roots
		secured, err := handshake(t.Context(), conn, server.Listener.Addr().String(), config)
		if (err == nil) != want {
			t.Errorf("version %x: %v", version, err)
		}
		if err == nil {
			_ = secured.Close() // nothing more comes
		}
	}
}
