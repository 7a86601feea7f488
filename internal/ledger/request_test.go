package ledger_test

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/ledger"
)

type seen struct {
	header http.Header
	body   []byte
	method string
	uri    string
}

// recorder answers 200 and keeps what it was sent.
func recorder(t *testing.T, requests chan<- seen) string {
	return newServer(t, func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		requests <- seen{r.Header.Clone(), body, r.Method, r.RequestURI}
	}).URL
}

func TestRequestCarriesTheEntryAndItsFence(t *testing.T) {
	requests := make(chan seen, 1)
	h := newHTTP(t, recorder(t, requests)+"/v1/entries", nil)
	h.Deliver(withPatience(t), delivery())
	got := <-requests
	want := map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, application/problem+json",
		"Accept-Encoding": "identity", "User-Agent": "fencerow/1.2.3", "Idempotency-Key": "desk-1:fill-0001",
		"Fencerow-Fencing-Token": "1732900000000001", "Fencerow-Attempt": "3", "Content-Digest": ownDigest(),
		"Content-Length": strconv.Itoa(len(got.body)),
	}
	parent := got.header.Get("Traceparent")
	got.header.Del("Traceparent")
	for name, value := range want {
		if got.header.Get(name) != value {
			t.Errorf("%s is %q, want %q", name, got.header.Get(name), value)
		}
	}
	if len(got.header) != len(want) {
		t.Errorf("headers are %v, want only %v", got.header, want)
	}
	own := newEntry().TraceParent
	if len(parent) != len(own) || parent[:36] != own[:36] || parent[52:] != own[52:] || parent == own {
		t.Errorf("traceparent is %q: want the trace of %q and another span", parent, own)
	}
	if got.method != http.MethodPost || got.uri != "/v1/entries" {
		t.Errorf("request is %s %s", got.method, got.uri)
	}
	if !bytes.Equal(got.body, newEntry().AppendDocument(nil)) {
		t.Errorf("body is %s", got.body)
	}
}

func TestEveryAttemptSendsTheSameBytes(t *testing.T) {
	requests := make(chan seen, 2)
	h := newHTTP(t, recorder(t, requests), nil)
	d := delivery()
	h.Deliver(withPatience(t), d)
	d.Attempt, d.Epoch = 9, d.Epoch+1
	h.Deliver(withPatience(t), d)
	first, second := <-requests, <-requests
	if !bytes.Equal(first.body, second.body) {
		t.Error("the bodies differ")
	}
	for _, name := range []string{"Idempotency-Key", "Content-Digest"} {
		if first.header.Get(name) != second.header.Get(name) {
			t.Errorf("%s differs", name)
		}
	}
	if a, b := first.header.Get("Traceparent"), second.header.Get("Traceparent"); a == b {
		t.Errorf("both attempts are the span %q", a)
	}
}

func TestLargePayloadArrivesByteForByte(t *testing.T) {
	requests := make(chan seen, 1)
	h := newHTTP(t, recorder(t, requests), nil)
	d := delivery()
	d.Entry.Payload = []byte(`{"p":"` + strings.Repeat("é", fencerow.MaxPayload/2-8) + `"}`)
	h.Deliver(withPatience(t), d)
	if got := <-requests; !bytes.Equal(got.body, d.Entry.AppendDocument(nil)) {
		t.Error("the body is not the entry's document")
	}
}

func TestNoTraceContextMeansNoTraceparent(t *testing.T) {
	requests := make(chan seen, 2)
	h := newHTTP(t, recorder(t, requests), nil)
	d := delivery()
	for _, parent := range []string{"", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\nX: 1"} {
		d.Entry.TraceParent = parent
		h.Deliver(withPatience(t), d)
		if got := (<-requests).header; got.Get("Traceparent") != "" {
			t.Errorf("traceparent of %q is %q", parent, got.Get("Traceparent"))
		}
	}
}

func TestKeyCanBeQuoted(t *testing.T) {
	requests := make(chan seen, 1)
	h := newHTTP(t, recorder(t, requests), func(c *ledger.Config) { c.QuoteKey = true })
	h.Deliver(withPatience(t), delivery())
	if got := (<-requests).header.Get("Idempotency-Key"); got != `"desk-1:fill-0001"` {
		t.Errorf("key is %s", got)
	}
}

func TestProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	requests := make(chan seen, 1)
	h := newHTTP(t, recorder(t, requests), nil)
	if got := h.Deliver(withPatience(t), delivery()); got.Class != delivered {
		t.Errorf("got %+v", got)
	}
}

func TestIdempotencyKeyForms(t *testing.T) {
	long := strings.Repeat("i", fencerow.MaxInstanceKey)
	for _, c := range []struct {
		instance, id string
		plain        bool
	}{
		{"desk", "a", true},
		{"desk", "a:b", true},
		{"de:sk", "a", false},
		{"sha256", "a", false},
		{"sha256x", "a", true},
		{"desk", `a"b`, false},
		{"de\\sk", "a", false},
		{long, strings.Repeat("c", 126), true},
		{long, strings.Repeat("c", 127), false},
		{long, strings.Repeat("c", fencerow.MaxCorrelationID), false},
	} {
		key := ledger.IdempotencyKey(fencerow.InstanceKey(c.instance), fencerow.CorrelationID(c.id))
		if plain := key == c.instance+":"+c.id; plain != c.plain {
			t.Errorf("key of %q and %q is %q", c.instance, c.id, key)
		}
	}
	// Ledgers keep keys for ever: the form may never change.
	if key := ledger.IdempotencyKey("a:b", "c"); key !=
		"sha256:f1bb0ca6c7ffab359b80aba12b97054db77fc18693cdc3cd2b0b58afc2a6ebb3" {
		t.Errorf("the hashed form is now %q", key)
	}
}

// Short strings over a small alphabet meet every way in which two pairs could share a key.
func TestIdempotencyKeysAreNeverShared(t *testing.T) {
	type pair struct{ instance, id string }
	var graphic []rune
	for r := '!'; r <= '~'; r++ {
		graphic = append(graphic, r)
	}
	word := func(t *rapid.T, label string, limit int) string {
		if rapid.Bool().Draw(t, label+" is short") {
			return rapid.StringOfN(rapid.SampledFrom([]rune(`a:"\`)), 1, 3, -1).Draw(t, label)
		}
		return rapid.StringOfN(rapid.SampledFrom(graphic), 1, limit, -1).Draw(t, label)
	}
	owners := map[string]pair{}
	rapid.Check(t, func(t *rapid.T) {
		p := pair{word(t, "instance", fencerow.MaxInstanceKey), word(t, "id", fencerow.MaxCorrelationID)}
		key := ledger.IdempotencyKey(fencerow.InstanceKey(p.instance), fencerow.CorrelationID(p.id))
		if len(key) > 255 || slices.ContainsFunc([]byte(key), func(b byte) bool {
			return b < '!' || b > '~' || b == '"' || b == '\\'
		}) {
			t.Fatalf("key %q cannot be sent", key)
		}
		if owner, taken := owners[key]; taken && owner != p {
			t.Fatalf("%q and %q share the key %q", owner, p, key)
		}
		owners[key] = p
	})
}
