package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/observe"
	"github.com/fourblocks2020/fencerow/internal/slots"
	"github.com/fourblocks2020/fencerow/internal/writer"
)

// served is a daemon whose ops listener serves on a socket, but whose loops do not run.
type served struct {
	*bench
	base string
}

func serveOps(t *testing.T, w Writer, change func(*Config)) *served {
	t.Helper()
	b := newBench(t, w, func(cfg *Config) {
		withOps(cfg)
		if change != nil {
			change(cfg)
		}
	})
	listener, err := b.d.ops.listen(t.Context())
	check(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.d.ops.serve(listener)
	}()
	t.Cleanup(func() {
		b.d.ops.shutdown()
		<-ended
	})
	return &served{bench: b, base: "http://" + listener.Addr().String()}
}

// request sends one request on a connection of its own and returns the answer's status and body.
func (s *served) request(method, path string, change func(*http.Request)) (status int, body string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.base+path, http.NoBody)
	check(s.t, err)
	r.Close = true
	if change != nil {
		change(r)
	}
	response, err := http.DefaultClient.Do(r)
	check(s.t, err)
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	check(s.t, err)
	return response.StatusCode, string(b)
}

func (s *served) client(token string) *Client {
	s.t.Helper()
	c, err := NewClient(s.base, fencerow.NewSecret(token))
	check(s.t, err)
	return c
}

func tokenFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	check(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func with(header, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(header, value) }
}

// answers is a writer whose targeted runs complete the entry.
func answers() *scripted {
	w := newScripted(idle)
	w.targeted = func(_ context.Context, id fencerow.CorrelationID, _ bool) (writer.TargetedResult, error) {
		return writer.TargetedResult{
			CorrelationID: id, ClaimResult: observe.ResultClaimed, Outcome: fencerow.OutcomeCompleted,
		}, nil
	}
	return w
}

func TestATokenIsRequiredWhereOneIsGiven(t *testing.T) {
	path := tokenFile(t, "first\n")
	s := serveOps(t, answers(), func(cfg *Config) { cfg.OpsTokenFile = path })
	const target = "/v1/process/a"
	tests := []struct {
		name, header string
		status       int
	}{
		{"None", "", http.StatusUnauthorized},
		{"Wrong", "Bearer second", http.StatusUnauthorized},
		{"APart", "Bearer firs", http.StatusUnauthorized},
		{"More", "Bearer firstt", http.StatusUnauthorized},
		{"Empty", "Bearer ", http.StatusUnauthorized},
		{"OtherScheme", "Basic first", http.StatusUnauthorized},
		{"NoScheme", "first", http.StatusUnauthorized},
		{"Right", "Bearer first", http.StatusOK},
		{"SchemeInSmallLetters", "bearer first", http.StatusOK},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, body := s.request(http.MethodPost, target, with("Authorization", tt.header))
			equal(t, "status", status, tt.status)
			if strings.Contains(body, "first") {
				t.Errorf("the answer shows the token: %s", body)
			}
		})
	}
	t.Run("ForReadinessToo", func(t *testing.T) {
		status, _ := s.request(http.MethodGet, "/readyz", nil)
		equal(t, "status", status, http.StatusUnauthorized)
	})
	t.Run("ButNotForLiveness", func(t *testing.T) {
		status, body := s.request(http.MethodGet, "/healthz", nil)
		equal(t, "status", status, http.StatusOK)
		equal(t, "body", body, `{"status":"ok"}`+"\n")
	})
	t.Run("ANewTokenCountsAtOnce", func(t *testing.T) {
		check(t, os.WriteFile(path, []byte("second"), 0o600))
		status, _ := s.request(http.MethodPost, target, with("Authorization", "Bearer first"))
		equal(t, "status of the old one", status, http.StatusUnauthorized)
		status, _ = s.request(http.MethodPost, target, with("Authorization", "Bearer second"))
		equal(t, "status of the new one", status, http.StatusOK)
	})
	t.Run("WithoutTheFileNobodyIsLetIn", func(t *testing.T) {
		check(t, os.Remove(path))
		for _, token := range []string{"Bearer second", "Bearer "} {
			status, _ := s.request(http.MethodPost, target, with("Authorization", token))
			equal(t, "status", status, http.StatusUnauthorized)
		}
	})
}

func TestAWebPageCannotReachALoopbackListener(t *testing.T) {
	s := serveOps(t, answers(), nil)
	tests := []struct {
		name, method, path string
		change             func(*http.Request)
		status             int
	}{
		{"ByAnotherOrigin", http.MethodPost, "/v1/process/a", with("Origin", "https://evil.example"),
			http.StatusForbidden},
		{"ByACrossSiteFetch", http.MethodPost, "/v1/process/a", with("Sec-Fetch-Site", "cross-site"),
			http.StatusForbidden},
		{"NorReadWhatItAsksFor", http.MethodGet, "/v1/slots", with("Origin", "https://evil.example"),
			http.StatusForbidden},
		{"NorFromAnotherPort", http.MethodGet, "/v1/slots", with("Sec-Fetch-Site", "same-site"),
			http.StatusForbidden},
		{"ReadinessAsksForNoOrigin", http.MethodGet, "/readyz", with("Origin", "https://evil.example"),
			http.StatusServiceUnavailable},
		{"ThePersonAtTheBrowserCan", http.MethodGet, "/v1/slots", with("Sec-Fetch-Site", "none"), http.StatusOK},
		{"ByANameThatResolvesHere", http.MethodGet, "/readyz",
			func(r *http.Request) { r.Host = "evil.example" }, http.StatusForbidden},
		{"NorWithAPort", http.MethodPost, "/v1/process/a",
			func(r *http.Request) { r.Host = "evil.example:8311" }, http.StatusForbidden},
		{"ButToolsCan", http.MethodPost, "/v1/process/a", nil, http.StatusOK},
		{"AlsoByLocalhost", http.MethodPost, "/v1/process/a",
			func(r *http.Request) { r.Host = "LocalHost:8311" }, http.StatusOK},
		{"AlsoByTheOtherProtocol", http.MethodPost, "/v1/process/a",
			func(r *http.Request) { r.Host = "[::1]:8311" }, http.StatusOK},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, body := s.request(tt.method, tt.path, tt.change)
			if status != tt.status {
				t.Errorf("got %d %s, want %d", status, body, tt.status)
			}
		})
	}
}

func TestAnAddressBeyondThisMachineNeedsAToken(t *testing.T) {
	path := tokenFile(t, "token")
	tests := []struct {
		name, listen, token string
		field               string // of the error; empty if there is none
	}{
		{"Loopback", "127.0.0.1:0", "", ""},
		{"LoopbackOfTheOtherProtocol", "[::1]:0", "", ""},
		{"Localhost", "localhost:0", "", ""},
		{"EveryInterface", "0.0.0.0:0", "", "ops_listen"},
		{"NoHost", ":0", "", "ops_listen"},
		{"AName", "fencerow.example:0", "", "ops_listen"},
		{"NoPort", "127.0.0.1", "", "ops_listen"},
		{"EveryInterfaceWithAToken", "0.0.0.0:0", path, ""},
		{"ATokenFileThatIsNotThere", "127.0.0.1:0", path + ".gone", "ops_token_file"},
		{"AnEmptyTokenFile", "127.0.0.1:0", tokenFile(t, " \n"), "ops_token_file"},
		{"ATokenOfTwoLines", "127.0.0.1:0", tokenFile(t, "a\nb"), "ops_token_file"},
		{"ADirectory", "127.0.0.1:0", t.TempDir(), "ops_token_file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			store := newBreakable()
			_, err := New(Config{
				Store: store, Writers: []Writer{newScripted(idle)}, Observer: (&logs{}).observer(t), Worker: worker,
				Slots: slots.NewBuilder(store, self, worker, nil), Interval: interval, Grace: interval,
				OpsListen: tt.listen, OpsTokenFile: tt.token,
			})
			input, ok := errors.AsType[*fencerow.InputError](err)
			switch {
			case tt.field == "" && err != nil:
				t.Errorf("got %v", err)
			case tt.field != "" && (!ok || input.Field != tt.field):
				t.Errorf("got %v, want a problem of %s", err, tt.field)
			}
		})
	}
}

func TestAnAddressThatIsTakenEndsTheDaemonWithACode(t *testing.T) {
	s := serveOps(t, newScripted(idle), nil)
	b := newBench(t, newScripted(idle), func(cfg *Config) {
		cfg.OpsListen = strings.TrimPrefix(s.base,
			"http://")
	})
	err := b.d.Run(t.Context())
	if !errors.Is(err, ErrOpsListen) || err.Error() != "open the ops listener: ops_listen_failed" {
		t.Errorf("got %v", err)
	}
}

func TestRequestsThatAreNone(t *testing.T) {
	s := serveOps(t, answers(), nil)
	tests := []struct {
		name, method, path string
		status             int
		code               string
	}{
		{"UnknownPath", http.MethodGet, "/", http.StatusNotFound, "not_found"},
		{"Profiles", http.MethodGet, "/debug/pprof/", http.StatusNotFound, "not_found"},
		{"ProcessByGet", http.MethodGet, "/v1/process/a", http.StatusMethodNotAllowed, "method_not_allowed"},
		{"ReadinessByPost", http.MethodPost, "/readyz", http.StatusMethodNotAllowed, "method_not_allowed"},
		{"LivenessByPost", http.MethodPost, "/healthz", http.StatusMethodNotAllowed, "method_not_allowed"},
		{"NoID", http.MethodPost, "/v1/process/", http.StatusNotFound, "not_found"},
		{"IDWithSpace", http.MethodPost, "/v1/process/a%20b", http.StatusBadRequest, "invalid_input"},
		{"IDTooLong", http.MethodPost, "/v1/process/" + strings.Repeat("a", 201), http.StatusBadRequest,
			"invalid_input"},
		{"ForceDueUnclear", http.MethodPost, "/v1/process/a?force_due=perhaps", http.StatusBadRequest,
			"invalid_input"},
		{"OtherInstance", http.MethodPost, "/v1/process/a?instance_key=instance-b", http.StatusMisdirectedRequest,
			"other_instance"},
		{"EmptyInstance", http.MethodPost, "/v1/process/a?instance_key=", http.StatusBadRequest, "invalid_input"},
		{"EmptyForceDue", http.MethodPost, "/v1/process/a?force_due=", http.StatusBadRequest, "invalid_input"},
		{"MalformedQuery", http.MethodPost, "/v1/process/a?instance_key=instance-b%zz", http.StatusBadRequest,
			"invalid_input"},
		{"Semicolon", http.MethodPost, "/v1/process/a?force_due=true;x", http.StatusBadRequest, "invalid_input"},
		{"TwoInstances", http.MethodPost, "/v1/process/a?instance_key=instance-a&instance_key=instance-b",
			http.StatusBadRequest, "invalid_input"},
		{"UnknownParameter", http.MethodPost, "/v1/process/a?instance=instance-b", http.StatusBadRequest,
			"invalid_input"},
		{"OwnInstance", http.MethodPost, "/v1/process/a?instance_key=instance-a&force_due=true", http.StatusOK, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, body := s.request(tt.method, tt.path, nil)
			equal(t, "status", status, tt.status)
			var doc errorDocument
			if tt.code != "" {
				check(t, json.Unmarshal([]byte(body), &doc))
			}
			equal(t, "code", doc.Error, tt.code)
		})
	}
}
