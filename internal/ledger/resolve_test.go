package ledger_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/ledger"
)

func TestReadBackTable(t *testing.T) {
	const (
		equal     = fencerow.ResolvedEqual
		different = fencerow.ResolvedDifferent
		absent    = fencerow.ResolvedAbsent
		failed    = fencerow.ResolveFailed
	)
	both := `{"correlation_id":"fill-0001","content_digest":"` + ownDigest() + `","ledger_ref":"L-9"}`
	for _, c := range []struct {
		name        string
		status      int
		body        string
		contentType string
		requireEcho bool
		want        fencerow.ResolveResult
	}{
		{"SameDigestAndID", 200, both, "application/json", false, equal},
		{"SameDigest", 200, `{"content_digest":"` + ownDigest() + `"}`, "", false, equal},
		{"SameIDOnly", 200, `{"correlation_id":"fill-0001"}`, "", false, equal},
		{"SameIDIsNotEnoughWhereEchoIsRequired", 200, `{"correlation_id":"fill-0001"}`, "", true, failed},
		{"BothWhereEchoIsRequired", 200, both, "", true, equal},
		{"OtherDigest", 200, `{"correlation_id":"fill-0001","content_digest":"sha-256=:AAAA:"}`, "", false,
			different},
		{"OtherID", 200, `{"correlation_id":"fill-0002"}`, "", false, different},
		{"SaysNothing", 200, `{}`, "", false, failed},
		{"Empty", 200, ``, "", false, failed},
		{"Page", 200, `<html>`, "text/html", false, failed},
		{"Absent", 404, `{}`, "", false, absent},
		{"Gone", 410, `{}`, "", false, failed},
		{"Unauthorized", 401, `{}`, "", false, failed},
		{"Created", 201, both, "", false, failed},
		{"Down", 503, ``, "", false, failed},
		{"Redirected", 302, both, "", false, failed},
		{"OverTheLimit", 200, `{"x":"` + strings.Repeat("x", 65<<10) + `"}`, "", false, failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := newServer(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet || r.URL.EscapedPath() != "/by-key/desk-1:fill-0001" {
					t.Errorf("request is %s %s", r.Method, r.URL)
				}
				w.Header().Set("Content-Type", "application/json")
				if c.contentType != "" {
					w.Header().Set("Content-Type", c.contentType)
				}
				w.WriteHeader(c.status)
				w.Write([]byte(c.body)) //nolint:errcheck // a test's answer
			})
			h := newHTTP(t, server.URL, func(l *ledger.Config) {
				l.ReadbackURL, l.RequireEcho = server.URL+"/by-key/", c.requireEcho
			})
			if !h.CanResolve() {
				t.Fatal("cannot resolve")
			}
			got := h.Resolve(withPatience(t), newEntry())
			if got.Result != c.want {
				t.Errorf("got %+v, want %s", got, c.want)
			}
			if (got.LedgerRef != "") != (c.want == equal && c.body == both) {
				t.Errorf("reference is %q", got.LedgerRef)
			}
		})
	}
}

func TestReadBackEscapesTheKeyAsOneSegment(t *testing.T) {
	var uri string
	server := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		uri = r.RequestURI
		w.WriteHeader(http.StatusNotFound)
	})
	h := newHTTP(t, server.URL, func(c *ledger.Config) { c.ReadbackURL = server.URL + "/a%2Fb/keys" })
	e := newEntry()
	e.CorrelationID = "../x?y#z%2F"
	if got := h.Resolve(withPatience(t), e); got.Result != fencerow.ResolvedAbsent {
		t.Errorf("got %+v", got)
	}
	if want := "/a%2Fb/keys/desk-1:..%2Fx%3Fy%23z%252F"; uri != want {
		t.Errorf("requested %s, want %s", uri, want)
	}
}

func TestReadBackThatCannotConnectHasFailed(t *testing.T) {
	server := newServer(t, func(http.ResponseWriter, *http.Request) {})
	h := newHTTP(t, server.URL, func(c *ledger.Config) { c.ReadbackURL = server.URL })
	server.Close()
	if got := h.Resolve(withPatience(t), newEntry()); got.Result != fencerow.ResolveFailed {
		t.Errorf("got %+v", got)
	}
	if newHTTP(t, server.URL, nil).CanResolve() {
		t.Error("can resolve without a read-back address")
	}
}
