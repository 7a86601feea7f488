package daemon

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/loopback"
	"github.com/fourblocks2020/fencerow/internal/observe"
	"github.com/fourblocks2020/fencerow/internal/secretfile"
)

// bearer checks the token that requests must carry. The file is read for each of them, so that a new token
// counts at once; while it cannot be read nobody is let in, which is noticed once.
type bearer struct {
	path    string
	obs     *observe.Observer
	noticed atomic.Bool
}

// opsTokenFile is the setting that names the file of the token.
const opsTokenFile = "ops_token_file"

func newBearer(path string, obs *observe.Observer) (*bearer, error) {
	b := &bearer{path: path, obs: obs}
	if _, ok := secretfile.ReadToken(b.path); !ok {
		return nil, &fencerow.InputError{Field: opsTokenFile,
			Problem: "names a file that cannot be read, is empty, or is not one line of printable ASCII"}
	}
	return b, nil
}

// admits compares hashes, so that neither the time nor the length tells anything of the token.
func (b *bearer) admits(r *http.Request) bool {
	token, ok := secretfile.ReadToken(b.path)
	if unreadable := !ok; b.noticed.Swap(unreadable) != unreadable && unreadable {
		b.obs.FileNotice(observe.NoticeTokenFileUnreadable, opsTokenFile)
	}
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	want, got := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(strings.TrimSpace(given)))
	return ok && strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

// admit lets in who may ask. Without a token that is any process of this machine, but no web page: a page
// that a browser here shows can send requests to loopback, from another origin or under a name of its own
// that resolves to it.
func (o *ops) admit(next http.Handler) http.Handler {
	sameOrigin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case sameOrigin.Check(asChange(r)) != nil:
			writeError(w, http.StatusForbidden, codeOriginRefused)
		case o.tokens == nil && !loopback.Names(hostOf(r)):
			writeError(w, http.StatusForbidden, codeHostRefused)
		case o.tokens != nil && !o.tokens.admits(r):
			w.Header().Set("WWW-Authenticate", "Bearer")
			writeError(w, http.StatusUnauthorized, codeTokenRefused)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// asChange returns what is checked for its origin in place of a request. The check lets every GET pass; one
// that tells of balances must not, although the browser keeps its answer from the page.
func asChange(r *http.Request) *http.Request {
	if r.URL.Path == "/readyz" {
		return r
	}
	change := *r
	change.Method = http.MethodPost
	return &change
}

func hostOf(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.Host); err == nil {
		return host
	}
	return strings.Trim(r.Host, "[]")
}
