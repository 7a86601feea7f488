package natsrpc

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/badinput"
	"github.com/fourblocks2020/fencerow/internal/slots"
	"github.com/fourblocks2020/fencerow/internal/slots/natstest"
)

func TestARequestCutAtAnyByteIsRefusedOnceAndLooksAtNothing(t *testing.T) {
	nats := natstest.Start(t)
	cfg := Config{URL: nats.URL()}
	var looked atomic.Int64
	list := func(ctx context.Context) ([]fencerow.Slot, error) {
		looked.Add(1)
		return oneSlot(ctx)
	}
	daemons := []*responder{up(t, cfg, self, list), up(t, cfg, "instance-b", list)}
	a := newAsker(t, nats.URL())
	whole := string(slots.Request{Instance: self, Spy: true}.Document())
	for request := range badinput.Cuts(whole) {
		a.send(request)
	}
	check(t, a.conn.Flush())
	for _, d := range daemons {
		d.stop()
	}
	answers := a.received()
	for _, answer := range answers {
		if answer != malformed {
			t.Errorf("answered with %q", answer)
		}
	}
	if len(answers) != len(whole) || looked.Load() != 0 {
		t.Errorf("%d answers to %d cut requests; slots were looked at %d times", len(answers), len(whole),
			looked.Load())
	}
	t.Logf("%d cut requests, each refused once", len(whole))
}

// A server whose first line is cut, or ends early in a document that is not whole, is none.
func TestAServerWhoseFirstLineIsCutAtAnyByteIsRefused(t *testing.T) {
	const whole = `INFO {"server_id":"X","proto":1,"headers":true,"max_payload":1048576,"tls_required":false}`
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	var next atomic.Pointer[string]
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, *next.Load())
			_ = conn.Close() // whoever reads on has been told too little
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	cfg := Config{URL: "nats://" + listener.Addr().String()}
	cuts := 0
	for line := range badinput.Cuts(whole) {
		for _, end := range []string{"", "\r\n"} {
			cuts++
			text := line + end
			next.Store(&text)
			_, err := Ask(t.Context(), cfg, slots.Request{Instance: self})
			if !errors.Is(err, ErrProtocol) && !errors.Is(err, ErrUnreachable) ||
				strings.Contains(err.Error(), "INFO") {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
	t.Logf("%d cut first lines, each refused", cuts)
}
