package ledgerstub_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
)

// discard is a response that keeps only its status.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(status int)      { d.status = status }

// drive hands the stub n requests without a socket between.
func drive(tb testing.TB, s *ledgerstub.Stub, worker, n int) {
	request, err := http.NewRequest(http.MethodPost, ledgerstub.EntriesPath, nil)
	if err != nil {
		tb.Error(err)
		return
	}
	w := &discard{header: http.Header{}}
	for i := range n {
		entry := body(fmt.Sprintf("%d-%d", worker, i), fmt.Sprint("slot-", i%100), "1.25")
		request.Body = io.NopCloser(bytes.NewReader([]byte(entry)))
		request.Header.Set("Idempotency-Key", fmt.Sprintf("desk:%d-%d", worker, i))
		s.ServeHTTP(w, request)
		if w.status != http.StatusCreated {
			tb.Errorf("status %d", w.status)
			return
		}
	}
}

func BenchmarkStubAlone(b *testing.B) {
	b.ReportAllocs()
	drive(b, ledgerstub.New(ledgerstub.Options{}), 0, b.N)
}
