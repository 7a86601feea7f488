package ledger

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// wireAnswers are seeds: whole answers, as bytes.
func wireAnswers(digest string) []string {
	good := `{"correlation_id":"a","content_digest":"` + digest + `"}`
	whole := func(head, body string) string {
		return fmt.Sprintf("HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", head, len(body), body)
	}
	typed := "200 OK\r\nContent-Type: application/json"
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	io.WriteString(w, strings.Repeat(" ", 1<<20)+good) //nolint:errcheck // to memory
	w.Close()
	return []string{
		whole(typed, good), whole("201 Created", good), whole("204 No Content", ""), whole("200 OK", ""),
		whole("200 OK\r\nContent-Type: text/html", good), whole("202 Accepted", good), whole("299 Fine", good),
		whole(typed+"\r\nIdempotent-Replayed: true", good), whole(typed+"\r\nContent-Encoding: identity", good),
		whole(typed+"\r\nContent-Encoding: gzip", zipped.String()),
		whole("101 Switching Protocols", good),
		whole("307 Temporary Redirect\r\nLocation: http://127.0.0.1:2/", ""),
		whole("429 Slow\r\nRetry-After: -5", ""),
		whole("503 Busy\r\nRetry-After: 99999999999999999999", "busy"),
		whole("409 Conflict", `{"code":"in_flight"}`),
		whole("422 No", `{"type":"x#idempotency_mismatch"}`), whole("999 What", good), whole("000 What", good),
		"HTTP/1.1 " + typed + "\r\nContent-Length: 400\r\n\r\n" + good, // less than it says
		"HTTP/1.1 " + typed + "\r\n\r\n" + good,                        // ends with the connection
		"HTTP/1.1 " + typed + "\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n" + good,
		"HTTP/1.1 " + typed + "\r\nContent-Length: 99999999999\r\n\r\n" + good,
		"HTTP/1.1 " + typed + "\r\nTransfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n",
			len(good), good),
		"HTTP/1.1 " + typed + "\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n" + good,
		"HTTP/1.1 103 Early Hints\r\n\r\n" + whole(typed, good), whole(typed, good) + whole(typed, good),
		"HTTP/1.0 " + typed + "\r\n\r\n" + good, "HTTP/2.0 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\n",
		"SSH-2.0-x\r\n", "", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<10) + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX\x00: \xff\r\n\r\n",
	}
}

// Whatever bytes come back, a delivery ends, is never said not to have been sent, and is booked exactly if
// net/http makes of the bytes a whole answer that proves it.
func FuzzAnswerOnTheWire(f *testing.F) {
	h, err := New(Config{URL: "http://127.0.0.1:1", RequireEcho: true})
	if err != nil {
		f.Fatal(err)
	}
	var raw []byte
	var serving sync.WaitGroup
	h.deliveries.keep = 0
	h.deliveries.dial = func(context.Context) (net.Conn, error) {
		client, server := net.Pipe()
		serving.Go(func() { answerWith(server, raw) })
		return client, nil
	}
	e := answeredEntry()
	digest := digestFor(e)
	for _, s := range wireAnswers(digest) {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		raw = answer
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		a := h.Deliver(ctx, fencerow.Delivery{Entry: e})
		serving.Wait()
		if ctx.Err() != nil || a.Certainty == fencerow.NotSent || booked(a) != (a.Reason == "") ||
			a.Reason != "" && !a.Reason.Valid() {
			t.Fatalf("%+v after %q", a, answer)
		}
		if len(answer) > maxAnswer {
			return // no longer than headers may be: net/http alone would read longer ones
		}
		if want := plainlyBooked(e, digest, answer); booked(a) != want {
			t.Fatalf("booked is %v, want %v: %+v", booked(a), want, a)
		}
	})
}

// answerWith reads a request and sends an answer, as far as it is taken.
func answerWith(conn net.Conn, answer []byte) {
	defer conn.Close()
	if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
		io.Copy(io.Discard, r.Body) //nolint:errcheck // a test's request
		conn.Write(answer)          //nolint:errcheck // the other end may have had enough
	}
}

// plainlyBooked reads bytes as net/http does, and what they say with encoding/json.
func plainlyBooked(e *fencerow.Entry, digest string, answer []byte) bool {
	b := bufio.NewReader(bytes.NewReader(answer))
	for {
		r, err := http.ReadResponse(b, &http.Request{Method: http.MethodPost}) //nolint:bodyclose // in memory
		if err != nil {
			return false
		}
		if r.StatusCode < 200 && r.StatusCode >= 100 && r.StatusCode != http.StatusSwitchingProtocols {
			continue
		}
		body, err := io.ReadAll(r.Body)
		encoding := r.Header.Get("Content-Encoding")
		if err != nil || encoding != "" && !strings.EqualFold(encoding, "identity") {
			return false
		}
		read := readPlainly(body, r.Header.Get("Content-Type"))
		return r.StatusCode >= 200 && booked(read.success(e, digest, r.StatusCode, len(body) == 0, true))
	}
}
