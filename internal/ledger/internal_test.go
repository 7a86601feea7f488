package ledger

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
)

func testEntry() *fencerow.Entry {
	return &fencerow.Entry{Instance: "desk", CorrelationID: "a", EntryKind: "fill", Payload: []byte("{}")}
}

// fragileConn fails its writes once it is armed, after letting some bytes through.
type fragileConn struct {
	net.Conn
	armed  *atomic.Bool
	passes int
}

func (c *fragileConn) Write(b []byte) (int, error) {
	if !c.armed.Load() {
		return c.Conn.Write(b)
	}
	n, _ := c.Conn.Write(b[:c.passes])
	return n, syscall.EPIPE
}

// fragileLedger counts requests that arrive whole. The first connection breaks when armed.
func fragileLedger(t *testing.T, passes int) (h *HTTP, armed *atomic.Bool, requests *atomic.Int64) {
	t.Helper()
	armed, requests = &atomic.Bool{}, &atomic.Int64{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	count := func(http.ResponseWriter, *http.Request) { requests.Add(1) }
	server := &http.Server{Handler: http.HandlerFunc(count)}
	var wg sync.WaitGroup
	wg.Go(func() { server.Serve(l) }) //nolint:errcheck // closed with the test
	h, err = New(Config{URL: "http://" + l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.Close()
		server.Close()
		wg.Wait()
	})
	dial, first := h.deliveries.dial, true
	h.deliveries.dial = func(ctx context.Context) (net.Conn, error) {
		conn, err := dial(ctx)
		if err != nil || !first {
			return conn, err
		}
		first = false
		return &fragileConn{Conn: conn, armed: armed, passes: passes}, nil
	}
	return h, armed, requests
}

func TestNothingWrittenOnAReusedConnectionGoesOutOnceMore(t *testing.T) {
	h, armed, requests := fragileLedger(t, 0)
	d := fencerow.Delivery{Entry: testEntry()}
	for i := range 2 {
		if got := h.Deliver(t.Context(), d); got.Class != fencerow.AnswerDelivered {
			t.Fatalf("delivery %d: %+v", i, got)
		}
		armed.Store(true)
	}
	if n := requests.Load(); n != 2 {
		t.Errorf("the ledger saw %d requests, want 2", n)
	}
}

func TestOneByteWrittenIsUnknownAndNotSentAgain(t *testing.T) {
	h, armed, requests := fragileLedger(t, 1)
	d := fencerow.Delivery{Entry: testEntry()}
	h.Deliver(t.Context(), d)
	armed.Store(true)
	got := h.Deliver(t.Context(), d)
	want := entry(fencerow.AnswerRetryable, fencerow.Unknown, fencerow.ReasonConnectionCut)
	if got != want || requests.Load() != 1 {
		t.Errorf("got %+v and %d requests, want %+v and 1", got, requests.Load(), want)
	}
}

func TestNothingWrittenOnAFreshConnectionIsNotSent(t *testing.T) {
	h, armed, requests := fragileLedger(t, 0)
	armed.Store(true)
	got := h.Deliver(t.Context(), fencerow.Delivery{Entry: testEntry()})
	if want := target(fencerow.NotSent, fencerow.ReasonConnectionCut); got != want || requests.Load() != 0 {
		t.Errorf("got %+v and %d requests, want %+v and none", got, requests.Load(), want)
	}
}

func TestNameThatDoesNotResolveIsNotSent(t *testing.T) {
	c, err := Config{URL: "http://ledger.invalid", AllowInsecure: true}.checked()
	if err != nil {
		t.Fatal(err)
	}
	h, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	d, err := newDialer(c)
	if err != nil {
		t.Fatal(err)
	}
	none := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no resolver") }
	d.plain.Resolver = &net.Resolver{PreferGo: true, Dial: none}
	h.deliveries.dial = d.to(false, "ledger.invalid")
	defer h.Close()
	got := h.Deliver(t.Context(), fencerow.Delivery{Entry: testEntry()})
	if want := target(fencerow.NotSent, fencerow.ReasonDNSFailed); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestDialErrorsBecomeReasons(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("x: %w", &net.OpError{Op: "dial", Err: err}) }
	for _, c := range []struct {
		err  error
		want fencerow.ReasonCode
	}{
		{wrap(&net.DNSError{IsTimeout: true}), fencerow.ReasonDNSFailed},
		{wrap(os.NewSyscallError("connect", syscall.ECONNREFUSED)), fencerow.ReasonConnectRefused},
		{wrap(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), fencerow.ReasonUnreachable},
		{wrap(os.NewSyscallError("connect", syscall.ENETUNREACH)), fencerow.ReasonUnreachable},
		{wrap(os.NewSyscallError("connect", syscall.ETIMEDOUT)), fencerow.ReasonDialTimeout},
		{wrap(os.ErrDeadlineExceeded), fencerow.ReasonDialTimeout},
		{wrap(errAddressBlocked), fencerow.ReasonAddressBlocked},
		{errors.New("anything else"), fencerow.ReasonUnreachable},
	} {
		if got := dialReason(c.err); got != c.want {
			t.Errorf("%v is %s, want %s", c.err, got, c.want)
		}
	}
}

func TestAddressRules(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1": false, "::1": false, "10.0.0.1": false, "192.168.1.1": false, "fd12::1": false,
		"8.8.8.8":     false,
		"2001:db8::1": false, "64:ff9b::808:808": false,
		"169.254.1.1": true, "169.254.169.254": true, "::ffff:169.254.169.254": true, "64:ff9b::a9fe:a9fe": true,
		"fe80::1": true, "fe80::1%eth0": true, "224.0.0.1": true, "239.1.2.3": true, "ff02::1": true,
		"ff0e::1": true,
		"0.0.0.0": true, "::": true, "255.255.255.255": true, "fd00:ec2::254": true, "fd20:ce::254": true,
		"100.100.100.200": true, "168.63.129.16": true, "192.0.0.192": true,
	} {
		if got := blocked(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: blocked is %v", address, got)
		}
	}
	rule := addressRule(true)
	if rule("tcp", "127.0.0.1:80", nil) != nil || rule("tcp6", "[::1]:80", nil) != nil {
		t.Error("loopback is refused")
	}
	// The name said loopback, its address does not: plain text would leave the machine.
	if rule("tcp", "10.0.0.1:80", nil) == nil || rule("tcp", "nonsense", nil) == nil {
		t.Error("another machine is accepted in plain text")
	}
}

func TestChangedTokenFileIsReadWithoutARefusal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		if err := os.WriteFile(path, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	file := &tokenFile{path: path, prefix: "Bearer ", reread: time.Hour}
	expect := func(want string) {
		t.Helper()
		if got, ok := file.header(); !ok || got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	expect("Bearer first")
	write("other") // as long as the first
	expect("Bearer first")
	file.readAt = file.readAt.Add(-time.Hour)
	expect("Bearer other")
}
