package canary

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// hostileLedger is a ledger that repeats whatever it was sent, secrets of its own beside it, in every part of
// its answers: the reason phrase, headers and body.
type hostileLedger struct {
	mu      sync.Mutex
	answers map[string]ledgerAnswer // by the part of a correlation id before the first dot
	conns   map[net.Conn]struct{}
	sent    []string
}

// requests are what it was sent, headers and all.
func (l *hostileLedger) requests() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.sent)
}

// ledgerAnswer is how it treats requests for an entry.
type ledgerAnswer struct {
	status int
	// kind is the type of the problem in the body; result what its answer document says.
	kind, result string
	// body, if not empty, is the body instead; "-" is none.
	body        string
	contentType string
	// mode is empty, or "hang" or "cut": the answer does not come, or not all of it; or "trail": more comes
	// after it, on a connection that stays.
	mode string
	// echo repeats the correlation id, as a booking does.
	echo bool
	// readback is the status of a read-back, whose echo is the same; 0 is 503.
	readback int
	// until, if not nil, is closed when it may answer.
	until <-chan struct{}
	// reference is its name of the booking, if not the secret one.
	reference string
}

// newHostileLedger serves it until the test ends and returns the address where entries are posted. Its path
// is a secret too.
func newHostileLedger(t testing.TB, answers map[string]ledgerAnswer) (address string) {
	t.Helper()
	l := &hostileLedger{answers: answers, conns: map[net.Conn]struct{}{}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	l.serve(t, listener)
	return "http://" + listener.Addr().String() + "/" + string(account) + "/" + string(credential)
}

func (l *hostileLedger) serve(t testing.TB, listener net.Listener) {
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			l.mu.Lock()
			l.conns[conn] = struct{}{}
			l.mu.Unlock()
			serving.Go(func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(patience))
				l.answer(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		l.mu.Lock()
		for conn := range l.conns {
			_ = conn.Close()
		}
		l.mu.Unlock()
		serving.Wait()
	})
}

func (l *hostileLedger) answer(conn net.Conn) {
	request, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	sent, err := io.ReadAll(request.Body)
	if err != nil {
		return
	}
	var head strings.Builder
	_ = request.Header.Write(&head) // a builder takes everything
	l.mu.Lock()
	l.sent = append(l.sent, strings.ReplaceAll(head.String(), "\r", "")+string(sent))
	l.mu.Unlock()
	key := request.Header.Get("Idempotency-Key")
	if request.Method == http.MethodGet {
		key = request.URL.Path[strings.LastIndex(request.URL.Path, "/")+1:]
	}
	_, id, _ := strings.Cut(key, ":")
	name, _, _ := strings.Cut(id, ".")
	a := l.answers[name]
	if request.Method == http.MethodGet {
		a = ledgerAnswer{status: a.readback, echo: a.echo, result: created}
	}
	if a.status == 0 {
		a.status = http.StatusServiceUnavailable
	}
	if a.mode == "hang" {
		_, _ = conn.Read(make([]byte, 1)) // until the client goes away
		return
	}
	if a.until != nil {
		<-a.until
	}
	text := a.text(request, id, sent)
	if a.mode == "cut" {
		text = text[:len(text)/2]
	}
	if a.mode == "trail" {
		text = "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n" + string(providerText)
	}
	_, _ = io.WriteString(conn, text)
	if a.mode == "trail" {
		_, _ = conn.Read(make([]byte, 1)) // until the client goes away
	}
}

// text is the answer on the wire.
func (a *ledgerAnswer) text(request *http.Request, id string, sent []byte) string {
	body := a.body
	switch body {
	case "-":
		body = ""
	case "":
		echoed := hostile(providerText)
		if a.echo {
			echoed = id
		}
		if a.reference == "" {
			a.reference = string(reference)
		}
		document, err := json.Marshal(map[string]any{
			"result": a.result, "type": "https://" + string(providerText) + "/" + a.kind, "correlation_id": echoed,
			"ledger_ref": a.reference, "title": printable(providerText), "detail": hostile(providerText),
			"account": account, "token": request.Header.Get("Authorization"), "sent": string(sent),
			"snapshot": map[string]any{
				"slot_id": providerText, "currency": "EUR", "cash_balance": "1", "version": 1,
			},
		})
		if err != nil {
			panic(err)
		}
		body = string(document)
	}
	contentType := a.contentType
	if contentType == "" {
		contentType = "application/json"
	}
	return fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n"+
		"Location: https://%s/\r\nRetry-After: %s\r\nWWW-Authenticate: Bearer realm=\"%s\"\r\n"+
		"Set-Cookie: s=%s\r\nX-Account: %s\r\nServer: %s\r\n\r\n%s",
		a.status, printable(providerText), contentType, len(body), providerText, providerText, credential,
		credential, account, providerText, body)
}

// newTLSLedger is a server that nobody trusts, whose certificate is full of secrets.
func newTLSLedger(t testing.TB) (address string) {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", hostileTLS(t))
	check(t, err)
	(&hostileLedger{conns: map[net.Conn]struct{}{}}).serve(t, listener)
	return "https://" + listener.Addr().String() + "/" + string(account)
}

// newDeafServer takes connections and says nothing.
func newDeafServer(t testing.TB) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	var conns sync.WaitGroup
	done := make(chan struct{})
	conns.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				<-done
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() {
		close(done)
		_ = listener.Close()
		conns.Wait()
	})
	return listener.Addr().String()
}
