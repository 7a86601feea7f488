package ledgerstub_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running is a stub that serves on a socket until the test ends.
type running struct {
	*ledgerstub.Stub
	t      *testing.T
	url    string
	client *http.Client
	stop   context.CancelFunc
	ended  chan error
}

func start(t *testing.T, o ledgerstub.Options) *running {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	r := &running{Stub: ledgerstub.New(o), t: t, url: "http://" + l.Addr().String(), stop: stop, ended: ended,
		client: &http.Client{
			Timeout:       10 * time.Second,
			Transport:     &http.Transport{},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}}
	go func() { ended <- r.Serve(ctx, l) }()
	t.Cleanup(func() {
		r.end()
		r.client.CloseIdleConnections()
	})
	return r
}

// await waits for what another goroutine is about to do. Each look costs a request, so it does not spin.
func (r *running) await(happened func() bool) {
	for deadline := time.Now().Add(10 * time.Second); !happened(); {
		if got := r.get("/v1/elsewhere"); got.err != nil || time.Now().After(deadline) {
			r.t.Error("it did not happen")
			return
		}
	}
}

// end stops serving and waits for it; handlers have returned then. It may be called again.
func (r *running) end() {
	r.t.Helper()
	r.stop()
	err := <-r.ended
	if err != nil {
		r.t.Errorf("serving ended with %v", err)
	}
	r.ended <- nil
}

func body(id, slot, delta string) string {
	return fmt.Sprintf(`{"instance_key":"desk","correlation_id":"%s","entry_kind":"fill","slot_id":"%s",`+
		`"currency":"USD","cash_delta":"%s","payload":{"b":1, "a":2}}`, id, slot, delta)
}

func digest(body string) string {
	sum := sha256.Sum256([]byte(body))
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}

type reply struct {
	status int
	body   string
	header http.Header
	err    error
}

// send posts a delivery. headers are pairs of name and value.
func (r *running) send(key string, epoch int, body string, headers ...string) reply {
	request, err := http.NewRequest(http.MethodPost, r.url+ledgerstub.EntriesPath, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	request.GetBody = nil // The stub must see what was sent, not what net/http repeated.
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Content-Digest", digest(body))
	request.Header.Set("Fencerow-Fencing-Token", fmt.Sprint(epoch))
	request.Header.Set("Fencerow-Attempt", "1")
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	return r.do(request)
}

func (r *running) get(path string) reply {
	request, err := http.NewRequest(http.MethodGet, r.url+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.do(request)
}

func (r *running) do(request *http.Request) reply {
	response, err := r.client.Do(request)
	if err != nil {
		return reply{err: err}
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, string(b), response.Header, err}
}

// expect checks an answer's status and a part of its body.
func (r *running) expect(got reply, status int, part string) {
	r.t.Helper()
	if got.err != nil || got.status != status || !strings.Contains(got.body, part) {
		r.t.Errorf("got %d %q (%v), want %d with %q", got.status, got.body, got.err, status, part)
	}
}
