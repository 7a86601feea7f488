package ledger_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/ledger"
	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
)

const inFlight = 16

func benchEntry(i int64) *fencerow.Entry {
	e := newEntry()
	e.CorrelationID = fencerow.CorrelationID("bench-" + strconv.FormatInt(i, 10))
	e.Payload = append(append([]byte(`{"p":"`), bytes.Repeat([]byte("x"), 290)...), `"}`...)
	return e
}

func benchStub(b *testing.B) string {
	server := httptest.NewServer(ledgerstub.New(ledgerstub.Options{}))
	b.Cleanup(server.Close)
	return server.URL + ledgerstub.EntriesPath
}

// BenchmarkDeliver sends entries of about 300 bytes to the stub ledger, 16 at a time.
func BenchmarkDeliver(b *testing.B) {
	h, err := ledger.New(ledger.Config{URL: benchStub(b), Concurrency: inFlight})
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close()
	var n atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(inFlight / 2)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			got := h.Deliver(b.Context(), fencerow.Delivery{Entry: benchEntry(n.Add(1)), Epoch: 1, Attempt: 1})
			if got.Class != delivered {
				b.Errorf("got %+v", got)
				return
			}
		}
	})
}

// BenchmarkBareHTTP makes the same requests with nothing but net/http, and looks at no more than the status
// of the answer: what Deliver is measured against.
func BenchmarkBareHTTP(b *testing.B) {
	url := benchStub(b)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: inFlight}}
	defer client.CloseIdleConnections()
	var n atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(inFlight / 2)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			e := benchEntry(n.Add(1))
			document := e.AppendDocument(nil)
			request, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, bytes.NewReader(document))
			if err != nil {
				b.Error(err)
				return
			}
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Accept", "application/json, application/problem+json")
			request.Header.Set("Accept-Encoding", "identity")
			request.Header.Set("Idempotency-Key", "desk-1:"+string(e.CorrelationID))
			request.Header.Set("Fencerow-Fencing-Token", "1")
			request.Header.Set("Fencerow-Attempt", "1")
			request.Header.Set("Content-Digest", digestOf(document))
			request.Header.Set("Traceparent", e.TraceParent)
			response, err := client.Do(request)
			if err != nil {
				b.Error(err)
				return
			}
			_, err = io.Copy(io.Discard, response.Body)
			response.Body.Close()
			if err != nil || response.StatusCode != http.StatusCreated {
				b.Errorf("status %d, %v", response.StatusCode, err)
				return
			}
		}
	})
}
