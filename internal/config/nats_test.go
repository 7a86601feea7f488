package config

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
)

// credsForm is what a file of credentials looks like; its key is no key.
const credsForm = "-----BEGIN NATS USER JWT-----\n" + sentinel + "\n------END NATS USER JWT------\n\n" +
	"-----BEGIN USER NKEY SEED-----\n" + sentinel + "\n------END USER NKEY SEED------\n"

func TestNATSSettingsAreChecked(t *testing.T) {
	const local = "nats://127.0.0.1:4222"
	token := file(t, "token-"+sentinel)
	tests := []struct {
		name string
		nats NATS
		want string // in the error; empty if there is none
	}{
		{"NotGiven", NATS{}, ""},
		{"TokenForNoServer", NATS{TokenFile: "/" + sentinel}, "(FENCEROW_NATS_TOKEN_FILE) is given, and no server"},
		{"CredsForNoServer", NATS{CredsFile: token}, "(FENCEROW_NATS_CREDS_FILE) is given, and no server"},
		{"CAForNoServer", NATS{CAFile: token}, "(FENCEROW_NATS_CA_FILE) is given, and no server"},
		{"CertificateForNoServer", NATS{CertFile: token}, "(FENCEROW_NATS_CERT_FILE) is given, and no server"},
		{"KeyForNoServer", NATS{KeyFile: token}, "(FENCEROW_NATS_KEY_FILE) is given, and no server"},
		{"Plain", NATS{URL: local}, ""},
		{"NoPort", NATS{URL: "nats://nats.example"}, ""},
		{"TLS", NATS{URL: "tls://nats.example:4222"}, ""},
		{"OtherProtocol", NATS{URL: "nats://[::1]:4222"}, ""},
		{"Several", NATS{URL: "nats://a.example:4222,nats://b.example:4222"}, ""},
		{"TokenHere", NATS{URL: local, TokenFile: token}, ""},
		{"TokenElsewhereWithTLS", NATS{URL: "tls://nats.example", TokenFile: token}, ""},
		{"UserAndPassword", NATS{URL: "nats://u:" + sentinel + "@127.0.0.1:4222"}, "must not hold a user"},
		{"Token", NATS{URL: "nats://" + sentinel + "@127.0.0.1:4222"}, "must not hold a user"},
		{"TokenInTheSecond", NATS{URL: local + ",nats://" + sentinel + "@127.0.0.1:4222"}, "must not hold a user"},
		{"MalformedPassword", NATS{URL: "nats://u:%zz" + sentinel + "@127.0.0.1"}, "is not an address"},
		{"NoScheme", NATS{URL: "127.0.0.1:4222"}, "is not an address"},
		{"OtherScheme", NATS{URL: "http://" + sentinel}, "is not an address"},
		{"NoHost", NATS{URL: "nats://:4222"}, "is not an address"},
		{"EmptyPort", NATS{URL: "nats://127.0.0.1:"}, "is not an address"},
		{"PortOutOfRange", NATS{URL: "nats://127.0.0.1:65536"}, "is not an address"},
		{"Path", NATS{URL: local + "/" + sentinel}, "is not an address"},
		{"Query", NATS{URL: local + "?" + sentinel}, "is not an address"},
		{"Fragment", NATS{URL: local + "#" + sentinel}, "is not an address"},
		{"EmptyMember", NATS{URL: local + ","}, "is not an address"},
		{"Space", NATS{URL: local + ", " + local}, "is not an address"},
		{"TooLong", NATS{URL: "nats://" + strings.Repeat("a", maxNATSURL)}, "is not an address"},
		{"Mixed", NATS{URL: local + ",tls://127.0.0.1:4223"}, "must not mix"},
		{"TokenInTheClear", NATS{URL: "nats://nats.example:4222", TokenFile: token}, "needs tls://"},
		{"TokenInTheClearToOneOfThem", NATS{URL: local + ",nats://nats.example", TokenFile: token}, "needs tls://"},
		{"TokenFileMissing", NATS{URL: local, TokenFile: "/" + sentinel}, "--nats-token-file"},
		{"TokenOfTwoLines", NATS{URL: local, TokenFile: file(t, "a\n"+sentinel)}, "--nats-token-file"},
		{"CredsMissing", NATS{URL: local, CredsFile: "/" + sentinel}, "--nats-creds-file"},
		{"CredsThatAreNone", NATS{URL: local, CredsFile: token}, "--nats-creds-file"},
		{"CredsWithoutAKey", NATS{URL: local, CredsFile: file(t, credsForm)}, "--nats-creds-file"},
		{"CredsAndToken", NATS{URL: local, CredsFile: token, TokenFile: token}, "must not be given together"},
		{"CAMissing", NATS{URL: local, CAFile: "/" + sentinel}, "--nats-ca-file"},
		{"CAThatIsNone", NATS{URL: local, CAFile: token}, "--nats-ca-file"},
		{"CertificateWithoutKey", NATS{URL: local, CertFile: token}, "(FENCEROW_NATS_CERT_FILE) needs"},
		{"KeyWithoutCertificate", NATS{URL: local, KeyFile: token}, "(FENCEROW_NATS_KEY_FILE) needs"},
		{"KeyMissing", NATS{URL: local, CertFile: token, KeyFile: "/" + sentinel}, "--nats-key-file"},
		{"CertificateThatIsNone", NATS{URL: local, CertFile: token, KeyFile: token}, "--nats-cert-file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.nats.Validate()
			if tt.want == "" {
				check(t, err)
				return
			}
			text, ok := UsageText(err)
			if !ok || !strings.Contains(text, tt.want) || !strings.Contains(text, "--nats-") ||
				strings.Contains(text, sentinel) {
				t.Errorf("got %q, %v", text, err)
			}
		})
	}
}

func TestNATSSettingsArrive(t *testing.T) {
	web := httptest.NewTLSServer(http.NotFoundHandler())
	defer web.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})
	path := file(t, "first")
	n := NATS{URL: "tls://127.0.0.1:4222", TokenFile: path, CAFile: file(t, string(ca))}
	cfg, err := n.Config()
	check(t, err)
	if cfg.URL != n.URL || cfg.TLS == nil || cfg.TLS.RootCAs == nil || cfg.Creds != nil {
		t.Errorf("got %+v", cfg)
	}
	check(t, os.WriteFile(path, []byte("second\n"), 0o600))
	if token, err := cfg.Token(); err != nil || token.Reveal() != "second" {
		t.Errorf("the token is not read again: %v", err)
	}
	if len(n.Exposed()) > 0 {
		t.Error("a file of mode 600 is called exposed")
	}
	check(t, os.Chmod(path, 0o644))
	if got := n.Exposed(); !slices.Equal(got, []string{"nats_token_file"}) {
		t.Errorf("of the files that others can read it names %v", got)
	}
	plain, err := (&NATS{URL: "nats://127.0.0.1:4222"}).Config()
	check(t, err)
	if plain.TLS != nil || plain.Token != nil {
		t.Errorf("got %+v", plain)
	}
}
