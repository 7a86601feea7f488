package ledger_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/ledger"
	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
)

func TestEndingsWithoutAWholeAnswer(t *testing.T) {
	cut := answer(retryable, unknown, entry, fencerow.ReasonConnectionCut)
	unreadable := answer(retryable, unknown, entry, fencerow.ReasonAnswerUnreadable)
	for _, c := range []struct {
		name string
		text string
		want fencerow.Answer
	}{
		{"CutBeforeAnyByte", "", cut},
		{"CutInTheStatusLine", "HTTP/1.1 20", cut},
		{"CutInTheHeaders", "HTTP/1.1 200 OK\r\nContent-Le", cut},
		{"NotHTTP", "SSH-2.0-OpenSSH_9.2\r\n\r\n", unreadable},
		{"HeadersOverTheLimit", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 70<<10) + "\r\n\r\n", unreadable},
		{"BodyTruncated", "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{}", resolving(unreadable)},
		{"ChunksTruncated", "HTTP/1.1 201 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
			resolving(unreadable)},
		{"EmptyUntilTheConnectionEnds", "HTTP/1.1 200 OK\r\n\r\n", resolving(unreadable)},
		{"DocumentUntilTheConnectionEnds", "HTTP/1.1 200 OK\r\n\r\n{}", answer(delivered, answered, entry, "")},
		{"EmptyChunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
			answer(delivered, answered, entry, "")},
		{"SwitchingProtocols", "HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", unreadable},
		{"RefusalTruncated", "HTTP/1.1 400 Bad\r\nContent-Length: 50\r\n\r\n{",
			answer(permanent, answered, entry, fencerow.ReasonBadRequest)},
		{"EarlyHintsThenAnswer", "HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 201 OK\r\nContent-Length: 0\r\n\r\n",
			answer(delivered, answered, entry, "")},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := rawServer(t, true, func(n int, conn net.Conn) {
				if n > 0 {
					t.Error("sent a second time")
				}
				io.WriteString(conn, c.text) //nolint:errcheck // the client may have had enough
			})
			got := newHTTP(t, url, nil).Deliver(withPatience(t), delivery())
			if got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestResetAfterTheRequestIsUnknown(t *testing.T) {
	url := rawServer(t, true, func(_ int, conn net.Conn) {
		conn.(*net.TCPConn).SetLinger(0) //nolint:errcheck // a test's connection
	})
	got := newHTTP(t, url, nil).Deliver(withPatience(t), delivery())
	if want := answer(retryable, unknown, entry, fencerow.ReasonConnectionCut); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestNobodyListeningIsNotSent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	got := newHTTP(t, "http://"+l.Addr().String(), nil).Deliver(withPatience(t), delivery())
	if want := answer(retryable, notSent, target, fencerow.ReasonConnectRefused); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// The ways in which a context can end, and what is known of the request then.
func TestEndOfTheContext(t *testing.T) {
	type end struct {
		name   string
		reason fencerow.ReasonCode
		begin  func(context.Context) (context.Context, context.CancelFunc)
	}
	soon := func() time.Time { return time.Now().Add(50 * time.Millisecond) }
	ends := []end{
		{"DeliveryTimeout", fencerow.ReasonDeliveryTimeout,
			func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithDeadline(ctx, soon())
			}},
		{"TrustWindow", fencerow.ReasonTrustWindowEnded,
			func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithDeadlineCause(ctx, soon(), fencerow.ErrTrustWindowEnded)
			}},
		{"Shutdown", fencerow.ReasonDeliveryStopped,
			func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(ctx)
				time.AfterFunc(50*time.Millisecond, cancel)
				return ctx, cancel
			}},
	}
	for _, e := range ends {
		t.Run(e.name, func(t *testing.T) {
			t.Run("AfterTheRequestIsUnknown", func(t *testing.T) {
				got := deliverToHanging(t, e.begin, "")
				if want := answer(retryable, unknown, entry, e.reason); got != want {
					t.Errorf("got %+v, want %+v", got, want)
				}
			})
			t.Run("InTheBodyOfASuccessIsWorthResolving", func(t *testing.T) {
				got := deliverToHanging(t, e.begin, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{")
				want := answer(retryable, unknown, entry, e.reason)
				want.Resolve = e.reason != fencerow.ReasonDeliveryStopped
				if got != want {
					t.Errorf("got %+v, want %+v", got, want)
				}
			})
			t.Run("BeforeAConnectionIsNotSent", func(t *testing.T) {
				ctx, cancel := e.begin(t.Context())
				defer cancel()
				<-ctx.Done()
				h := newHTTP(t, newServer(t, func(http.ResponseWriter, *http.Request) { t.Error("sent") }).URL, nil)
				want := answer(retryable, notSent, target, e.reason)
				if e.reason == fencerow.ReasonDeliveryTimeout {
					want.Reason = fencerow.ReasonDialTimeout
				}
				if e.reason == fencerow.ReasonDeliveryStopped {
					want.Scope = entry
				}
				if got := h.Deliver(ctx, delivery()); got != want {
					t.Errorf("got %+v, want %+v", got, want)
				}
			})
		})
	}
}

// woken is a context after a suspension: it is over by the wall clock, which Err looks at, and its timers
// have not fired.
type woken struct {
	context.Context
	end context.CancelCauseFunc
}

func (w woken) Err() error {
	w.end(fencerow.ErrTrustWindowEnded)
	return w.Context.Err()
}

func TestNothingIsSentOnceTheWindowHasEndedWhileConnecting(t *testing.T) {
	for _, reused := range []bool{false, true} {
		t.Run(map[bool]string{false: "FreshConnection", true: "ReusedConnection"}[reused], func(t *testing.T) {
			var requests atomic.Int64
			h := newHTTP(t, newServer(t, func(http.ResponseWriter, *http.Request) { requests.Add(1) }).URL, nil)
			sent := int64(0)
			if reused {
				h.Deliver(withPatience(t), delivery())
				sent++
			}
			ctx, end := context.WithCancelCause(withPatience(t))
			got := h.Deliver(woken{ctx, end}, delivery())
			if want := answer(retryable, notSent, entry, fencerow.ReasonTrustWindowEnded); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if got := h.Deliver(withPatience(t), delivery()); got.Class != delivered {
				t.Errorf("the next attempt is %+v", got)
			}
			if n := requests.Load(); n != sent+1 {
				t.Errorf("%d requests on the wire, want %d", n, sent+1)
			}
		})
	}
}

// deliverToHanging delivers to a ledger that reads the request, writes text and then says nothing more.
func deliverToHanging(
	t *testing.T, begin func(context.Context) (context.Context, context.CancelFunc), text string,
) fencerow.Answer {
	t.Helper()
	url := rawServer(t, true, func(_ int, conn net.Conn) {
		io.WriteString(conn, text) //nolint:errcheck // the client may have had enough
		io.Copy(io.Discard, conn)  //nolint:errcheck // until the client gives up
	})
	ctx, cancel := begin(t.Context())
	defer cancel()
	return newHTTP(t, url, nil).Deliver(ctx, delivery())
}

func TestReusedConnectionThatIsCutAfterTheRequestIsNotSentAgain(t *testing.T) {
	var requests atomic.Int64
	url := rawServer(t, false, func(_ int, conn net.Conn) {
		b := bufio.NewReader(conn)
		readRequest(t, b)
		requests.Add(1)
		write(t, conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		readRequest(t, b)
		requests.Add(1)
	})
	h := newHTTP(t, url, nil)
	if got := h.Deliver(withPatience(t), delivery()); got.Class != delivered {
		t.Fatalf("got %+v", got)
	}
	got := h.Deliver(withPatience(t), delivery())
	if want := answer(retryable, unknown, entry, fencerow.ReasonConnectionCut); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if n := requests.Load(); n != 2 {
		t.Errorf("%d requests on the wire, want 2", n)
	}
}

func TestLinkLocalAndMetadataAddressesAreRefused(t *testing.T) {
	for _, host := range []string{"169.254.169.254", "[fe80::1]", "0.0.0.0", "224.0.0.1", "[fd00:ec2::254]"} {
		h := newHTTP(t, "http://"+host+"/", func(c *ledger.Config) { c.AllowInsecure = true })
		got := h.Deliver(withPatience(t), delivery())
		if want := answer(retryable, notSent, target, fencerow.ReasonAddressBlocked); got != want {
			t.Errorf("%s: got %+v, want %+v", host, got, want)
		}
	}
}

// Many deliveries at once over few connections: each has the answer to its own request.
func TestConcurrentDeliveriesKeepTheirAnswersApart(t *testing.T) {
	stub := ledgerstub.New(ledgerstub.Options{})
	h := newHTTP(t, newServer(t, stub.ServeHTTP).URL+ledgerstub.EntriesPath, func(c *ledger.Config) {
		c.Concurrency, c.RequireEcho = 4, true
	})
	const workers, each = 8, 50
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				d := delivery()
				d.Entry.CorrelationID = fencerow.CorrelationID("e-" + string(rune('a'+w)) + "-" + strings.Repeat("x", i))
				want := delivered
				for range 2 {
					if got := h.Deliver(t.Context(), d); got.Class != want || got.Snapshot == nil {
						t.Errorf("got %+v, want %s", got, want)
					}
					want = duplicate
				}
			}
		})
	}
	wg.Wait()
	if c := stub.Counters(); c.Booked != workers*each || c.Duplicates != workers*each ||
		c.Requests != 2*workers*each {
		t.Errorf("counters are %+v", c)
	}
}
