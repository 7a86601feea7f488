package ledger_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"go.uber.org/goleak"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/ledger"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what is expected to happen at once.
const patience = 10 * time.Second

func newEntry() *fencerow.Entry {
	return &fencerow.Entry{
		OutboxID: 7, Instance: "desk-1", CorrelationID: "fill-0001", EntryKind: "fill", SlotID: "slot-a",
		CashDelta: decimal.RequireFromString("-12.5"), Currency: "USD",
		Payload:     []byte(`{"z":1, "a":"é\u0000","z":2,"n":12345678901234567890.10}`),
		TraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
	}
}

func delivery() fencerow.Delivery {
	return fencerow.Delivery{Entry: newEntry(), Epoch: 1732900000000001, Attempt: 3}
}

func digestOf(body []byte) string {
	sum := sha256.Sum256(body)
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}

func ownDigest() string { return digestOf(newEntry().AppendDocument(nil)) }

// newHTTP returns an adapter for a ledger at url, closed with the test.
func newHTTP(t *testing.T, url string, set func(*ledger.Config)) *ledger.HTTP {
	t.Helper()
	c := ledger.Config{URL: url, Version: "1.2.3"}
	if set != nil {
		set(&c)
	}
	h, err := ledger.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// newServer serves f on a socket of its own.
func newServer(t *testing.T, f http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s
}

func withPatience(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// rawServer accepts connections and hands each to serve, with its number from 0, after the first request on
// it was read; with readFirst false, at once. The connection is closed when serve returns.
func rawServer(t *testing.T, readFirst bool, serve func(n int, conn net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if readFirst {
				readRequest(t, bufio.NewReader(conn))
			}
			serve(n, conn)
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return "http://" + l.Addr().String()
}

func readRequest(t *testing.T, b *bufio.Reader) {
	r, err := http.ReadRequest(b)
	if err == nil {
		_, err = io.Copy(io.Discard, r.Body)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		t.Errorf("the request cannot be read: %v", err)
	}
}

func write(t *testing.T, conn net.Conn, text string) {
	if _, err := io.WriteString(conn, text); err != nil {
		t.Errorf("the answer cannot be written: %v", err)
	}
}
