package ledgerstub

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// over is more than a client that bounds answers at 64 KiB accepts.
const over = 80 << 10

// misbehave applies a fault to a delivery.
func (s *Stub) misbehave(w http.ResponseWriter, r *http.Request, q *request, digest [32]byte, f *Fault) {
	s.wait(f.Delay)
	commit := f.Commit || f.Mode == ModeSlow
	if commit {
		s.process(r, q, digest)
	} else {
		q.pretend(digest)
	}
	s.wait(f.Stall)
	if f.Mode == ModeHang {
		s.hang(r)
	}
	s.finish(q, digest, q.faultStatus(f), f)
	q.fail(w, f)
}

// pretend prepares the answer of a booking that is not made.
func (q *request) pretend(digest [32]byte) {
	q.status = http.StatusCreated
	k := keyState{digest: digest}
	if parseEntry(q.body, &q.doc) {
		q.answer = k.appendAnswer(nil, "CREATED", q.doc.correlationID)
		return
	}
	q.answer = []byte("{}")
}

// faultStatus is the status that a client sees, 0 for none.
func (q *request) faultStatus(f *Fault) int {
	switch f.Mode {
	case ModeHang, ModeCut, ModeReset, ModeGarbage, ModeOversizedHeaders:
		return 0
	case ModeStatus:
		return f.Status
	case ModeEmpty, ModeHTML, ModeOversized:
		return http.StatusOK
	case ModeRedirect:
		return http.StatusTemporaryRedirect
	case ModeSlow, ModeTruncated, ModeWrongID, ModeWrongDigest:
	}
	return q.status
}

// fail answers as the fault says. The request has its healthy answer ready.
func (q *request) fail(w http.ResponseWriter, f *Fault) {
	for name, value := range f.Header {
		w.Header().Set(name, value)
	}
	switch f.Mode {
	case ModeSlow:
		q.write(w)
	case ModeStatus:
		answerWith(w, f.Status, f.ContentType, f.Body)
	case ModeHang, ModeCut:
		raw(w, "", false)
	case ModeReset:
		raw(w, "", true)
	case ModeGarbage:
		raw(w, "\x16\x03\x01 this is not HTTP\r\n\r\n", false)
	case ModeTruncated:
		raw(w, fmt.Sprintf("HTTP/1.1 %d OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			q.status, len(q.answer)+1, q.answer[:len(q.answer)/2]), false)
	case ModeOversizedHeaders:
		raw(w, "HTTP/1.1 200 OK\r\nX-Padding: "+strings.Repeat("x", over)+"\r\nContent-Length: 0\r\n\r\n", false)
	case ModeEmpty:
		w.WriteHeader(http.StatusOK)
	case ModeHTML:
		answerWith(w, http.StatusOK, "text/html; charset=utf-8", "<!doctype html><title>Sign in</title>")
	case ModeOversized:
		answerWith(w, http.StatusOK, "", `{"result":"CREATED","padding":"`+strings.Repeat("x", over)+`"}`)
	case ModeRedirect:
		w.Header().Set("Location", "/v1/elsewhere")
		answerWith(w, http.StatusTemporaryRedirect, "", "{}")
	case ModeWrongID:
		q.answer = bytes.Replace(q.answer, []byte(`"correlation_id":"`), []byte(`"correlation_id":"not-`), 1)
		q.write(w)
	case ModeWrongDigest:
		q.answer = bytes.Replace(q.answer, []byte("sha-256=:"), []byte("sha-256=:AAAA"), 1)
		q.write(w)
	}
}

func answerWith(w http.ResponseWriter, status int, contentType, body string) {
	if contentType == "" {
		contentType = jsonType[0]
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	w.Write([]byte(body)) //nolint:errcheck // a client that has gone away is its own business
}

// raw takes the connection over, writes what is to be written and ends it.
func raw(w http.ResponseWriter, text string, reset bool) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // Cuts the connection too.
	}
	if text != "" {
		conn.Write([]byte(text)) //nolint:errcheck // a client that has gone away is its own business
	}
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		tcp.SetLinger(0) //nolint:errcheck // then it is closed without a reset
	}
	conn.Close() //nolint:errcheck // there is nobody to tell
}

// wait passes time, or less if the requests that hang are released. That the client goes away does not hurry
// it: a slow ledger books late, for a client that has long given up.
func (s *Stub) wait(d Millis) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(time.Duration(d))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.released():
	}
}

func (s *Stub) hang(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-s.released():
	}
}
