package ledger

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fourblocks2020/fencerow"
)

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

var plainGet = []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")

// script serves each connection of a listener with serve, and numbers them from 0. The connection is closed
// when serve returns.
func script(t *testing.T, l net.Listener, serve func(n int, c net.Conn, in *bufio.Reader)) {
	t.Helper()
	var serving sync.WaitGroup
	serving.Go(func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				serve(n, c, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		serving.Wait()
	})
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// take reads a request and reports whether there was one.
func take(in *bufio.Reader) bool {
	r, err := http.ReadRequest(in)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, r.Body)
	return err == nil
}

// soon bounds what is expected to happen at once.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func say(c net.Conn, text string) { io.WriteString(c, text) } //nolint:errcheck // the other end may be gone

func clientFor(t *testing.T, set func(*Config)) *HTTP {
	t.Helper()
	c := Config{}
	set(&c)
	h, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// readable waits until something has come in on the only idle connection.
func readable(t *testing.T, c *client) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.idle) != 1 {
		t.Fatalf("%d idle connections", len(c.idle))
	}
	if err := c.idle[0].socket.Read(func(fd uintptr) bool { return !peek(fd) }); err != nil {
		t.Fatal(err)
	}
}

// corked are connections that hold back what is written to them until it is let out, all at once.
type corked struct {
	net.Conn
	corked bool
	held   bytes.Buffer
}

func (c *corked) Write(b []byte) (int, error) {
	if c.corked {
		return c.held.Write(b)
	}
	return c.Conn.Write(b)
}

// letOut writes what was held, but for the last bytes.
func (c *corked) letOut(but int) error {
	c.corked = but > 0
	_, err := c.Conn.Write(c.held.Next(c.held.Len() - but))
	return err
}

type corkedListener struct{ net.Listener }

func (l corkedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &corked{Conn: c}, err
}

// secureServer returns what a server over TLS on this machine needs, and the file that a client trusts it by.
func secureServer(t *testing.T) (config *tls.Config, caFile string) {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	defer server.Close()
	caFile = filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(caFile, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: server.TLS.Certificates}, caFile
}

// A ledger that sends more than it was asked for, or ends an idle connection, has no say in the next
// delivery.
func TestWhatComesInOnAnIdleConnectionIsNoAnswer(t *testing.T) {
	const refusal = "HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n"
	config, caFile := secureServer(t)
	for _, c := range []struct {
		name   string
		secure bool
		after  string // with the answer
		behind int    // of its last bytes, those that come with the next request only
		later  string // once the delivery is over
		ends   bool
	}{
		{name: "MoreInOneWrite", after: refusal},
		{name: "MoreLater", later: refusal},
		{name: "OneByteLater", later: "H"},
		{name: "Closed", ends: true},
		{name: "AnotherRecordAtOnceOverTLS", secure: true, after: refusal},
		{name: "HalfARecordAtOnceOverTLS", secure: true, after: refusal, behind: 10},
		{name: "HeadOfARecordAtOnceOverTLS", secure: true, after: refusal, behind: len(refusal) + 20},
		{name: "MoreLaterOverTLS", secure: true, later: refusal},
		{name: "ClosedOverTLS", secure: true, ends: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := listen(t)
			address := "http://" + l.Addr().String()
			if c.secure {
				l, address = tls.NewListener(corkedListener{l}, config), "https://"+l.Addr().String()
			}
			delivered, done := make(chan struct{}), make(chan struct{})
			var connections atomic.Int64
			script(t, l, func(n int, conn net.Conn, in *bufio.Reader) {
				connections.Add(1)
				if n > 0 {
					for take(in) {
						say(conn, okAnswer)
					}
					return
				}
				take(in)
				if secured, ok := conn.(*tls.Conn); ok && c.after != "" {
					cork := secured.NetConn().(*corked) //nolint:errcheck // its listener makes no other kind
					cork.corked = true
					say(conn, okAnswer)
					say(conn, c.after)
					if err := cork.letOut(c.behind); err != nil {
						t.Error(err)
					}
					if c.behind > 0 && take(in) {
						cork.letOut(0) //nolint:errcheck // the client may have had enough
					}
				} else {
					say(conn, okAnswer+c.after)
				}
				<-delivered
				say(conn, c.later)
				if !c.ends {
					<-done
				}
			})
			h := clientFor(t, func(config *Config) {
				config.URL = address
				if c.secure {
					config.CAFile = caFile
				}
			})
			defer close(done)
			d := fencerow.Delivery{Entry: testEntry()}
			if got := h.Deliver(soon(t), d); got.Class != fencerow.AnswerDelivered {
				t.Fatalf("the first delivery is %+v", got)
			}
			close(delivered)
			if c.after == "" {
				readable(t, h.deliveries)
			}
			for range 2 {
				if got := h.Deliver(soon(t), d); got.Class != fencerow.AnswerDelivered {
					t.Errorf("the next delivery is %+v", got)
				}
			}
			if got := connections.Load(); got != 2 {
				t.Errorf("%d connections, want 2", got)
			}
		})
	}
}

// A peer that reads nothing keeps nobody past the end of the context: not by a long request, nor by the last
// words of TLS.
func TestEndOfTheContextEndsALongRequestThatNobodyReads(t *testing.T) {
	config, caFile := secureServer(t)
	for _, secure := range []bool{false, true} {
		t.Run(map[bool]string{false: "Plain", true: "OverTLS"}[secure], func(t *testing.T) {
			l := listen(t)
			address, done := "http://"+l.Addr().String(), make(chan struct{})
			if secure {
				l, address = tls.NewListener(l, config), "https://"+l.Addr().String()
			}
			script(t, l, func(_ int, conn net.Conn, _ *bufio.Reader) {
				if c, ok := conn.(*tls.Conn); ok {
					c.HandshakeContext(t.Context()) //nolint:errcheck // the client says so if it fails
					conn = c.NetConn()
				}
				conn.(*net.TCPConn).SetReadBuffer(4 << 10) //nolint:errcheck // what is full sooner shows it sooner
				<-done
			})
			defer close(done)
			h := clientFor(t, func(c *Config) {
				c.URL = address
				if secure {
					c.CAFile = caFile
				}
			})
			h.deliveries.dial = unread(h.deliveries.dial)
			e := testEntry()
			e.Payload = []byte(`{"p":"` + strings.Repeat("x", fencerow.MaxPayload-8) + `"}`)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			start := time.Now()
			got := h.Deliver(ctx, fencerow.Delivery{Entry: e})
			want := entry(fencerow.AnswerRetryable, fencerow.Unknown, fencerow.ReasonDeliveryTimeout)
			if got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if took := time.Since(start); took >= lastLook {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestEarlyAnswerToALongRequestIsHeard(t *testing.T) {
	const refusal = "HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n"
	for _, c := range []struct {
		name  string
		close bool
	}{{"AndTheConnectionStays", false}, {"AndTheConnectionEnds", true}} {
		t.Run(c.name, func(t *testing.T) {
			heard := make(chan struct{})
			l := listen(t)
			script(t, l, func(_ int, conn net.Conn, in *bufio.Reader) {
				if _, err := http.ReadRequest(in); err != nil { // the head alone
					t.Error(err)
				}
				say(conn, refusal)
				if c.close {
					conn.(*net.TCPConn).CloseWrite() //nolint:errcheck // a test's connection
				}
				<-heard
			})
			h := clientFor(t, func(c *Config) { c.URL = "http://" + l.Addr().String() })
			h.deliveries.dial = unread(h.deliveries.dial)
			e := testEntry()
			e.Payload = []byte(`{"p":"` + strings.Repeat("x", fencerow.MaxPayload-8) + `"}`)
			got := h.Deliver(soon(t), fencerow.Delivery{Entry: e})
			close(heard)
			want := entry(fencerow.AnswerPermanent, fencerow.Answered, fencerow.ReasonTooLarge)
			if got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if len(h.deliveries.idle) != 0 {
				t.Error("the connection is kept, with half a request on it")
			}
		})
	}
}

// unread makes connections that do not take a long request whole unless somebody reads it.
func unread(dial func(context.Context) (net.Conn, error)) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		c, err := dial(ctx)
		if err == nil {
			err = newConn(c).below.(*net.TCPConn).SetWriteBuffer(1) //nolint:errcheck // it dials nothing else
		}
		return c, err
	}
}

// stalled takes some bytes of a request and then fails; a negative number of them counts from the end.
type stalled struct {
	net.Conn
	takes int
}

func (s *stalled) Write(b []byte) (int, error) {
	takes := min(len(b), s.takes)
	if takes < 0 {
		takes += len(b)
	}
	n, err := s.Conn.Write(b[:takes])
	if err == nil && n < len(b) {
		err = syscall.EPIPE
	}
	return n, err
}

func TestRestOfALongRequestThatCannotBeWrittenEndsTheWait(t *testing.T) {
	l := listen(t)
	script(t, l, func(_ int, _ net.Conn, in *bufio.Reader) {
		io.Copy(io.Discard, in) //nolint:errcheck // until the client gives up
	})
	h := clientFor(t, func(c *Config) { c.URL = "http://" + l.Addr().String() })
	dial := h.deliveries.dial
	h.deliveries.dial = func(ctx context.Context) (net.Conn, error) {
		c, err := dial(ctx)
		return &stalled{c, atOnce}, err
	}
	e := testEntry()
	e.Payload = []byte(`{"p":"` + strings.Repeat("x", 2*atOnce) + `"}`)
	got := h.Deliver(soon(t), fencerow.Delivery{Entry: e})
	want := entry(fencerow.AnswerRetryable, fencerow.Unknown, fencerow.ReasonConnectionCut)
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// A success proves nothing of a request that the ledger cannot know: one that was not written, or not to its
// end. A refusal of half of one stands: it may well be too large.
func TestSuccessForARequestThatWasNotWrittenWholeProvesNothing(t *testing.T) {
	e := testEntry()
	e.Payload = []byte(`{"p":"` + strings.Repeat("x", 2*atOnce) + `"}`)
	body := `{"result":"CREATED","correlation_id":"a","content_digest":"` + digestFor(e) + `"}`
	head := "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: "
	success := fmt.Sprintf("%s%d\r\n\r\n%s", head, len(body), body)
	doubted := doubtful(fencerow.ReasonUnexpectedSuccess)
	for _, c := range []struct {
		name, answer string
		takes        int
		want         fencerow.Answer
	}{
		{"NothingWritten", success, 0, target(fencerow.NotSent, fencerow.ReasonConnectionCut)},
		{"OneByteWritten", success, 1, doubted},
		{"HalfWritten", success, atOnce, doubted},
		{"AllButOneByteWritten", success, -1, doubted},
		{"Refused", "HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n", atOnce,
			entry(fencerow.AnswerPermanent, fencerow.Answered, fencerow.ReasonTooLarge)},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := listen(t)
			script(t, l, func(_ int, conn net.Conn, in *bufio.Reader) {
				say(conn, c.answer)
				io.Copy(io.Discard, in) //nolint:errcheck // until the client gives up
			})
			h := clientFor(t, func(c *Config) { c.URL, c.RequireEcho = "http://"+l.Addr().String(), true })
			dial := h.deliveries.dial
			h.deliveries.dial = func(ctx context.Context) (net.Conn, error) {
				conn, err := dial(ctx)
				return &stalled{conn, c.takes}, err
			}
			if got := h.Deliver(soon(t), fencerow.Delivery{Entry: e}); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if len(h.deliveries.idle) != 0 {
				t.Error("the connection is kept")
			}
		})
	}
}

// A ledger that answers a long request at once, and reads all of it, keeps its connection.
func TestConnectionOfALongRequestIsKept(t *testing.T) {
	var connections atomic.Int64
	l := listen(t)
	script(t, l, func(_ int, conn net.Conn, in *bufio.Reader) {
		connections.Add(1)
		for take(in) {
			say(conn, okAnswer)
		}
	})
	h := clientFor(t, func(c *Config) { c.URL = "http://" + l.Addr().String() })
	e := testEntry()
	e.Payload = []byte(`{"p":"` + strings.Repeat("x", 2*atOnce) + `"}`)
	for range 200 {
		if got := h.Deliver(soon(t), fencerow.Delivery{Entry: e}); got.Class != fencerow.AnswerDelivered {
			t.Fatalf("got %+v", got)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// pipes is a host whose connections are in memory, so that time can be a test's own.
type pipes struct {
	serving sync.WaitGroup
	dialled atomic.Int64
	ended   atomic.Int64
}

func (p *pipes) dial(context.Context) (net.Conn, error) {
	p.dialled.Add(1)
	near, far := net.Pipe()
	p.serving.Go(func() {
		defer p.ended.Add(1)
		in := bufio.NewReader(far)
		for take(in) {
			say(far, okAnswer)
		}
	})
	return near, nil
}

func TestIdleConnectionsAreKeptForAWhile(t *testing.T) {
	run := func(t *testing.T, name string, f func(*testing.T, *pipes, *client)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &pipes{}
				c := &client{dial: p.dial, keep: 2}
				f(t, p, c)
				c.close()
				p.serving.Wait()
			})
		})
	}
	exchange := func(t *testing.T, c *client) {
		t.Helper()
		if r := c.exchange(soon(t), plainGet, nil); r.err != nil {
			t.Error(r.err)
		}
	}
	counts := func(t *testing.T, p *pipes, dialled, ended int64) {
		t.Helper()
		synctest.Wait()
		if p.dialled.Load() != dialled || p.ended.Load() != ended {
			t.Errorf("%d dialled and %d ended, want %d and %d", p.dialled.Load(), p.ended.Load(), dialled, ended)
		}
	}
	together := func(t *testing.T, c *client, n int) {
		var wg sync.WaitGroup
		var used []*conn
		for range n {
			fresh, err := c.dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			used = append(used, newConn(fresh))
		}
		for _, u := range used {
			wg.Go(func() {
				if r := c.over(soon(t), u, plainGet, nil); r.err != nil {
					t.Error(r.err)
				}
			})
		}
		wg.Wait()
	}

	run(t, "OneAfterTheOther", func(t *testing.T, p *pipes, c *client) {
		for range 3 {
			exchange(t, c)
			<-time.After(idleTimeout - time.Millisecond)
		}
		counts(t, p, 1, 0)
	})
	run(t, "ClosedWhenTheTimeIsOver", func(t *testing.T, p *pipes, c *client) {
		exchange(t, c)
		<-time.After(idleTimeout)
		counts(t, p, 1, 1)
		exchange(t, c)
		counts(t, p, 2, 1)
		<-time.After(idleTimeout)
		counts(t, p, 2, 2)
	})
	run(t, "EachWhenItsOwnIs", func(t *testing.T, p *pipes, c *client) {
		together(t, c, 2)
		<-time.After(idleTimeout / 2)
		exchange(t, c)
		<-time.After(idleTimeout / 2)
		counts(t, p, 2, 1)
		<-time.After(idleTimeout / 2)
		counts(t, p, 2, 2)
	})
	run(t, "NoMoreThanMayBeKept", func(t *testing.T, p *pipes, c *client) {
		together(t, c, 5)
		counts(t, p, 5, 3)
	})
	run(t, "NoneOnceClosed", func(t *testing.T, p *pipes, c *client) {
		exchange(t, c)
		c.close()
		counts(t, p, 1, 1)
		exchange(t, c)
		counts(t, p, 2, 2)
	})
}

// late ends its context once an answer was read, and waits until the connection was told of it.
type late struct {
	net.Conn
	end  context.CancelFunc
	told chan struct{}
}

func (l *late) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if l.end != nil {
		l.end()
		l.end = nil
		<-l.told
	}
	return n, err
}

func (l *late) SetDeadline(at time.Time) error {
	defer close(l.told)
	return l.Conn.SetDeadline(at)
}

func TestConnectionWhoseContextEndsWithTheAnswerIsNotKept(t *testing.T) {
	p := &pipes{}
	c := &client{keep: 1}
	defer p.serving.Wait()
	defer c.close()
	ctx, end := context.WithCancel(soon(t))
	c.dial = func(ctx context.Context) (net.Conn, error) {
		n, err := p.dial(ctx)
		return &late{Conn: n, end: end, told: make(chan struct{})}, err
	}
	if r := c.exchange(ctx, plainGet, nil); r.err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("the answer is %+v", r)
	}
	if len(c.idle) != 0 {
		t.Error("it is kept, although it may not be used any more")
	}
}

// What net/http makes of an address is what is sent and dialled.
func TestHeadOfADelivery(t *testing.T) {
	for address, want := range map[string][2]string{
		"https://ledger.example/v1/entries":   {"/v1/entries", "ledger.example"},
		"https://ledger.example":              {"/", "ledger.example"},
		"https://ledger.example:8443/a b/ü":   {"/a%20b/%C3%BC", "ledger.example:8443"},
		"https://bücher.example:8443/":        {"/", "xn--bcher-kva.example:8443"},
		"https://[fd12::1]:8443/x":            {"/x", "[fd12::1]:8443"},
		"https://ledger.example/a%2Fb%20c%3F": {"/a%2Fb%20c%3F", "ledger.example"},
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		head, err := newHead(u, "1.2.3")
		if err != nil {
			t.Fatal(err)
		}
		host, err := hostOf(u)
		whole := "POST " + want[0] + " HTTP/1.1\r\nHost: " + want[1] + "\r\nUser-Agent: fencerow/1.2.3\r\n" +
			"Accept: application/json, application/problem+json\r\nAccept-Encoding: identity\r\n" +
			"Content-Type: application/json\r\n"
		if err != nil || string(head) != whole || host != want[1] {
			t.Errorf("%s is %q, %q, %v", address, head, host, err)
		}
	}
}
