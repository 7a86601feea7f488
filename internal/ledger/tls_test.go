package ledger_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/ledger"
)

// authority is a certificate authority of the test's own, and where its files are.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, dir: t.TempDir()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert, a.key = template, nil
	cert, key := a.sign(template)
	a.cert, a.key = cert, key
	a.file = a.write("ca.pem", "CERTIFICATE", cert.Raw)
	return a
}

func (a *authority) sign(template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	signer := a.key
	if signer == nil {
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

func (a *authority) write(name, kind string, der []byte) string {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// issue returns a certificate for 127.0.0.1, also as files.
func (a *authority) issue(name string, notAfter time.Time) (pair tls.Certificate, certFile, keyFile string) {
	a.t.Helper()
	cert, key := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: notAfter, IPAddresses: []net.IP{net.IPv4(127, 0, 0,
			1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key},
		a.write(name+".pem", "CERTIFICATE", cert.Raw), a.write(name+"-key.pem", "PRIVATE KEY", der)
}

func tlsServer(t *testing.T, config *tls.Config) string {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) //nolint:errcheck // a test's request
		if r.ProtoMajor != 1 {
			t.Errorf("HTTP/%d", r.ProtoMajor)
		}
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2 = true
	s.TLS = config
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

func TestTLS(t *testing.T) {
	a := newAuthority(t)
	good, certFile, keyFile := a.issue("good", time.Now().Add(time.Hour))
	expired, _, _ := a.issue("expired", time.Now().Add(-time.Hour))
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	serving := func(cert tls.Certificate) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{cert}}
	}
	old := serving(good)
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	asking := serving(good)
	asking.ClientAuth, asking.ClientCAs = tls.RequireAndVerifyClientCert, pool
	asking12 := asking.Clone()
	asking12.MaxVersion = tls.VersionTLS12

	trusting := func(c *ledger.Config) { c.CAFile = a.file }
	identified := func(c *ledger.Config) { c.CAFile, c.CertFile, c.KeyFile = a.file, certFile, keyFile }
	ok := answer(delivered, answered, entry, "")
	failed := answer(retryable, notSent, target, fencerow.ReasonTLSFailed)
	for _, c := range []struct {
		name   string
		server *tls.Config
		set    func(*ledger.Config)
		want   fencerow.Answer
	}{
		{"TrustedByCAFile", serving(good), trusting, ok},
		{"UnknownAuthority", serving(good), nil, failed},
		{"Expired", serving(expired), trusting, failed},
		{"OldVersion", old, trusting, failed},
		{"ClientCertificate", asking, identified, ok},
		{"ClientCertificateMissing", asking12, trusting, failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHTTP(t, tlsServer(t, c.server), c.set)
			for range 2 {
				if got := h.Deliver(withPatience(t), delivery()); got != c.want {
					t.Errorf("got %+v, want %+v", got, c.want)
				}
			}
		})
	}
}

// A TLS 1.3 handshake is over for the client before the server has seen that the certificate is missing.
// Whether the request was on its way by then is a matter of luck; that the target is to blame is not.
func TestClientCertificateMissingInTLS13IsTheTargetsRefusal(t *testing.T) {
	a := newAuthority(t)
	good, _, _ := a.issue("good", time.Now().Add(time.Hour))
	server := tlsServer(t, &tls.Config{
		Certificates: []tls.Certificate{good}, ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13,
	})
	h := newHTTP(t, server, func(c *ledger.Config) { c.CAFile = a.file })
	for range 8 {
		got := h.Deliver(withPatience(t), delivery())
		want := answer(retryable, got.Certainty, target, fencerow.ReasonTLSFailed)
		if got != want || got.Certainty == answered {
			t.Errorf("got %+v", got)
		}
	}
}

func TestTLSNeverFallsBackToPlain(t *testing.T) {
	url := newServer(t, func(http.ResponseWriter, *http.Request) { t.Error("sent in plain text") }).URL
	got := newHTTP(t, strings.Replace(url, "http:", "https:", 1), nil).Deliver(withPatience(t), delivery())
	if want := answer(retryable, notSent, target, fencerow.ReasonTLSFailed); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestHandshakeThatHangsEndsWithTheDialTimeout(t *testing.T) {
	url := rawServer(t, false, func(_ int, conn net.Conn) {
		io.Copy(io.Discard, conn) //nolint:errcheck // until the client gives up
	})
	h := newHTTP(t, strings.Replace(url, "http:", "https:", 1), func(c *ledger.Config) {
		c.DialTimeout = 50 * time.Millisecond
	})
	got := h.Deliver(withPatience(t), delivery())
	if want := answer(retryable, notSent, target, fencerow.ReasonTLSFailed); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
