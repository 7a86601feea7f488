package e2e

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
	"testing"

	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
)

// gate is the address of a ledger that can go away and come back at the same place.
type gate struct {
	t       *testing.T
	stub    *ledgerstub.Stub
	address string
	url     string // where entries are posted
	shut    context.CancelFunc
	ended   chan error
}

// newGate returns a gate that is open. Its port is below those that systems give out by themselves: one that
// is free for a while could otherwise go to any connection, one to itself included.
func newGate(t *testing.T, stub *ledgerstub.Stub) *gate {
	t.Helper()
	g := &gate{t: t, stub: stub}
	for tries := 0; ; tries++ {
		g.address = net.JoinHostPort("127.0.0.1", strconv.Itoa(20_000+rand.IntN(10_000)))
		listener, err := net.Listen("tcp", g.address)
		if err == nil {
			g.serve(listener)
			break
		}
		if !errors.Is(err, syscall.EADDRINUSE) || tries == 100 {
			t.Fatal(err)
		}
	}
	g.url = "http://" + g.address + ledgerstub.EntriesPath
	t.Cleanup(func() {
		if g.shut != nil {
			g.close()
		}
	})
	return g
}

func (g *gate) serve(listener net.Listener) {
	ctx, cancel := context.WithCancel(context.Background())
	g.shut, g.ended = cancel, make(chan error, 1)
	go func() { g.ended <- g.stub.Serve(ctx, listener) }()
}

// close ends all connections; new ones are refused.
func (g *gate) close() {
	g.t.Helper()
	g.shut()
	g.shut = nil
	check(g.t, <-g.ended)
}

// open takes connections again.
func (g *gate) open() {
	g.t.Helper()
	listener, err := net.Listen("tcp", g.address)
	check(g.t, err)
	g.serve(listener)
}
