package faults

import (
	"context"
	"crypto/rand"
	"hash/fnv"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
)

// tokenSentinel is in every token of the ledger, and must be in no output.
const tokenSentinel = "t0ken-s3ntinel"

// weather is how a ledger fails for everyone for a while.
type weather struct {
	share float64 // of the requests
	fault []*ledgerstub.Fault
}

// ledger is the stub ledger on a socket, with what it thinks of each class of entries.
type ledger struct {
	stub      *ledgerstub.Stub
	address   string
	tokenFile string
	weather   atomic.Pointer[weather]
	repaired  sync.Map // idempotency keys that an operator has seen to
	stop      context.CancelFunc
	served    chan error
}

func newLedger(tokenFile string) (*ledger, error) {
	token := newToken()
	if err := os.WriteFile(tokenFile, []byte(token), 0o600); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	l := &ledger{
		stub: ledgerstub.New(ledgerstub.Options{Token: token}), address: listener.Addr().String(),
		tokenFile: tokenFile, stop: stop, served: make(chan error, 1),
	}
	l.stub.Fail(l.fail)
	go func() { l.served <- l.stub.Serve(ctx, listener) }()
	return l, nil
}

func newToken() string { return tokenSentinel + "-" + rand.Text() }

func (l *ledger) close() error {
	l.stop()
	return <-l.served
}

// rotate makes the ledger want another token, which it returns.
func (l *ledger) rotate() string {
	token := newToken()
	l.stub.SetToken(token)
	return token
}

var (
	answerRefused  = &ledgerstub.Fault{Mode: ledgerstub.ModeStatus, Status: 422, Body: "{}"}
	answerLocked   = &ledgerstub.Fault{Mode: ledgerstub.ModeStatus, Status: 423, Body: "{}"}
	answerConflict = &ledgerstub.Fault{
		Mode: ledgerstub.ModeStatus, Status: 409, Body: `{"type":"content-conflict"}`,
		ContentType: "application/problem+json",
	}
)

// unhurried is how a healthy ledger answers every other request: so late that workers hold rows most of the
// time.
var unhurried = []*ledgerstub.Fault{
	{Mode: ledgerstub.ModeSlow, Stall: ledgerstub.Millis(10 * time.Millisecond)},
	{Mode: ledgerstub.ModeSlow, Stall: ledgerstub.Millis(30 * time.Millisecond)},
	{Mode: ledgerstub.ModeSlow, Delay: ledgerstub.Millis(50 * time.Millisecond)},
}

// fail is the fate of a request: the weather's, then that of the entry's class.
func (l *ledger) fail(r ledgerstub.Request) *ledgerstub.Fault {
	h := fnv.New64a()
	_, _ = h.Write([]byte(r.Key)) // never fails
	draw := (h.Sum64() ^ uint64(r.Epoch)*0x9e3779b97f4a7c15) % 10_000
	if w := l.weather.Load(); w != nil {
		if float64(draw) < w.share*10_000 {
			fault := w.fault[int(draw)%len(w.fault)]
			if _, c, _ := numberOf(r.Key[strings.Index(r.Key, ":")+1:]); !fault.Commit || l.books(r.Key, c) {
				return fault
			}
		}
	}
	_, c, _ := numberOf(r.Key[strings.Index(r.Key, ":")+1:])
	switch {
	case l.books(r.Key, c) && draw%2 == 0:
		return unhurried[draw/2%3]
	case l.books(r.Key, c):
		return nil
	case c == conflict:
		return answerConflict
	case c == locked:
		return answerLocked
	}
	return answerRefused
}

// books reports whether the ledger books an entry of a class.
func (l *ledger) books(key string, c class) bool {
	if c == plain {
		return true
	}
	_, seen := l.repaired.Load(key)
	return seen
}

// weatherOf is how the ledger fails by a kind of fault; timeout is the daemons'.
func weatherOf(kind Kind, strength float64, timeout time.Duration) *weather {
	w := &weather{share: 0.1 + 0.9*strength}
	status := func(code int, header map[string]string) *ledgerstub.Fault {
		return &ledgerstub.Fault{Mode: ledgerstub.ModeStatus, Status: code, Body: "{}", Header: header}
	}
	switch kind {
	case LedgerCutsBefore:
		w.fault = []*ledgerstub.Fault{{Mode: ledgerstub.ModeCut}, {Mode: ledgerstub.ModeReset}}
	case LedgerCutsAfter:
		w.fault = []*ledgerstub.Fault{
			{Mode: ledgerstub.ModeCut, Commit: true}, {Mode: ledgerstub.ModeReset, Commit: true},
			{Mode: ledgerstub.ModeTruncated, Commit: true}, {Mode: ledgerstub.ModeGarbage, Commit: true},
		}
	case LedgerFails:
		w.fault = []*ledgerstub.Fault{
			status(500, nil), status(503, nil), status(429, map[string]string{"Retry-After": "1"}),
		}
	case LedgerHangs:
		slow := ledgerstub.Millis(timeout + timeout/5)
		half := ledgerstub.Millis(timeout / 2)
		w.fault = []*ledgerstub.Fault{
			{Mode: ledgerstub.ModeSlow, Commit: true, Stall: slow},
			{Mode: ledgerstub.ModeSlow, Commit: true, Delay: slow},
			{Mode: ledgerstub.ModeSlow, Commit: true, Stall: half},
		}
	default:
		panic("faults: " + string(kind) + " is not the ledger's")
	}
	return w
}
