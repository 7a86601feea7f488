package ledger_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/ledger"
	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
)

func writeToken(t *testing.T, path, token string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTokenIsSentUnderItsHeaderAndScheme(t *testing.T) {
	for _, c := range []struct{ name, header, scheme, at, want string }{
		{"Default", "", "", "Authorization", "Bearer s3cret"},
		{"OtherScheme", "", "Token", "Authorization", "Token s3cret"},
		{"NoScheme", "", ledger.NoScheme, "Authorization", "s3cret"},
		{"OtherHeaderHasNoScheme", "x-api-key", "", "X-Api-Key", "s3cret"},
		{"OtherHeaderWithScheme", "X-Auth", "Key", "X-Auth", "Key s3cret"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "token")
			writeToken(t, path, "\n s3cret \n")
			requests := make(chan seen, 1)
			h := newHTTP(t, recorder(t, requests), func(l *ledger.Config) {
				l.TokenFile, l.TokenHeader, l.TokenScheme = path, c.header, c.scheme
			})
			h.Deliver(withPatience(t), delivery())
			got := (<-requests).header
			if got.Get(c.at) != c.want {
				t.Errorf("%s is %q, want %q", c.at, got.Get(c.at), c.want)
			}
			if c.at != "Authorization" && got.Get("Authorization") != "" {
				t.Error("Authorization is sent too")
			}
		})
	}
}

func TestRefusedTokenIsReadAgainAtTheNextAttempt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	writeToken(t, path, "first")
	stub := ledgerstub.New(ledgerstub.Options{Token: "first"})
	h := newHTTP(t, newServer(t, stub.ServeHTTP).URL+ledgerstub.EntriesPath,
		func(c *ledger.Config) { c.TokenFile = path })
	if got := h.Deliver(withPatience(t), delivery()); got.Class != delivered {
		t.Fatalf("got %+v", got)
	}
	stub.SetToken("second")
	refused := answer(retryable, answered, target, fencerow.ReasonCredentialsRefused)
	for range 2 { // Nothing new in the file: still refused, still the target's fault.
		if got := h.Deliver(withPatience(t), delivery()); got != refused {
			t.Fatalf("got %+v, want %+v", got, refused)
		}
	}
	writeToken(t, path, "second")
	if got := h.Deliver(withPatience(t), delivery()); got.Class != duplicate {
		t.Errorf("got %+v after the rotation", got)
	}
}

func TestTokenFileThatCannotBeReadSendsNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	writeToken(t, path, "first")
	requests := 0
	h := newHTTP(t, newServer(t, func(w http.ResponseWriter, _ *http.Request) {
		requests++
		w.WriteHeader(http.StatusUnauthorized)
	}).URL, func(c *ledger.Config) { c.TokenFile = path })
	h.Deliver(withPatience(t), delivery())
	for _, content := range []string{"", " \n", "a\x00b", "a\nb"} {
		writeToken(t, path, content)
		h.Deliver(withPatience(t), delivery())
		got := h.Deliver(withPatience(t), delivery())
		if want := answer(retryable, notSent, target, fencerow.ReasonCredentialsUnreadable); got != want {
			t.Errorf("%q: got %+v, want %+v", content, got, want)
		}
	}
	if requests != 1 {
		t.Errorf("%d requests were sent, want 1", requests)
	}
}

func TestExposedTokenFileIsReported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	writeToken(t, path, "first")
	h := newHTTP(t, "https://ledger.example", func(c *ledger.Config) { c.TokenFile = path })
	for mode, want := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o644: true, 0o602: true} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if got := h.TokenFileExposed(); got != want {
			t.Errorf("%o: exposed is %v", mode, got)
		}
	}
	if newHTTP(t, "https://ledger.example", nil).TokenFileExposed() {
		t.Error("no token file is exposed")
	}
}
