package natsrpc

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/slots"
	"github.com/fourblocks2020/fencerow/internal/slots/natstest"
)

const (
	askedOf   = 40
	malformed = `{"error":"invalid_input","message":"the request is not a small JSON object"}`
)

// Three daemons, two of them of one instance, hear the same requests.
func TestEachRequestIsAnsweredOnceByItsOwnInstance(t *testing.T) {
	nats := natstest.Start(t)
	cfg := Config{URL: nats.URL()}
	var answered atomic.Int64
	counting := func(ctx context.Context) ([]fencerow.Slot, error) {
		answered.Add(1)
		return oneSlot(ctx)
	}
	daemons := []*responder{
		up(t, cfg, self, counting), up(t, cfg, self, counting), up(t, cfg, "instance-b", func(context.Context) (
			[]fencerow.Slot, error) {
			t.Error("the other instance looked at its slots")
			return nil, nil
		}),
	}
	a := newAsker(t, nats.URL())
	own := string(slots.Request{Instance: self}.Document())
	check(t, a.conn.Publish(slots.Subject, []byte(own))) // no reply is wanted
	for range askedOf {
		a.send(`{"instance_key":"instance-c","spy":true}`)
		a.send(`{"instance_key":` + sentinel)
	}
	for range askedOf {
		// One after the other: as many at once as are answered at once would be refused.
		if _, err := Ask(t.Context(), cfg, slots.Request{Instance: self, Spy: true}); err != nil {
			t.Fatal(err)
		}
		a.send(own)
	}
	check(t, a.conn.Flush())
	for _, d := range daemons {
		d.stop()
	}
	counts := map[string]int{}
	for _, answer := range a.received() {
		if strings.Contains(answer, "slot-1") || strings.Contains(answer, string(slots.ErrTooMany)) {
			answer = "own"
		}
		counts[answer]++
	}
	if len(counts) != 2 || counts[malformed] != askedOf || counts["own"] != askedOf {
		t.Errorf("answers %v, want %d of both kinds", counts, askedOf)
	}
	if n := answered.Load(); n < askedOf || n > 2*askedOf {
		t.Errorf("slots were looked at %d times", n)
	}
	for _, d := range daemons {
		if got := d.log.events(t); !slices.Equal(got, []string{"nats connected"}) {
			t.Errorf("a daemon logged %q", got)
		}
	}
}

func TestAnyValidKeyHasAGroupOfItsOwn(t *testing.T) {
	nats := natstest.Start(t)
	cfg := Config{URL: nats.URL()}
	keys := []fencerow.InstanceKey{"a", "A", "a.b", "a.*", ">", "*", "$SYS.REQ", `"\'`, "malformed",
		fencerow.InstanceKey(strings.Repeat("~", fencerow.MaxInstanceKey))}
	groups := map[string]bool{malformedGroup: true}
	for _, key := range keys {
		if groups[groupOf(key)] {
			t.Errorf("the group of %s is another's too", key)
		}
		groups[groupOf(key)] = true
		up(t, cfg, key, oneSlot)
	}
	for _, key := range keys {
		if doc, err := Ask(t.Context(), cfg, slots.Request{Instance: key}); err != nil || doc.Instance != key {
			t.Errorf("%s: got %+v, %v", key, doc, err)
		}
	}
}

func TestWhoAsksIsToldWhyThereIsNoAnswer(t *testing.T) {
	nats := natstest.Start(t)
	cfg := Config{URL: nats.URL()}
	ask := func(want error) {
		t.Helper()
		if _, err := Ask(t.Context(), cfg, slots.Request{Instance: self}); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	ask(ErrNobodyListens)
	d := up(t, cfg, self, func(context.Context) ([]fencerow.Slot, error) {
		return nil, fencerow.NewError("list slots", fencerow.ErrStoreUnavailable, errors.New(sentinel))
	})
	ask(fencerow.ErrStoreUnavailable)
	d.stop()
	ask(ErrNobodyListens)
	up(t, cfg, "instance-b", oneSlot)
	ask(ErrNoAnswer)
	nats.Stop()
	ask(ErrUnreachable)
	_, err := Ask(t.Context(), cfg, slots.Request{Instance: "a b"})
	if !errors.Is(err, fencerow.ErrInvalidInput) {
		t.Errorf("got %v", err)
	}
}

func TestAnAnswerLargerThanTheServerTakesIsARefusal(t *testing.T) {
	nats := natstest.Start(t, func(o *server.Options) { o.MaxPayload = 4 << 10 })
	cfg := Config{URL: nats.URL()}
	n := 1
	up(t, cfg, self, func(context.Context) ([]fencerow.Slot, error) {
		list := make([]fencerow.Slot, n)
		for i := range list {
			list[i].SlotID = "slot"
		}
		return list, nil
	})
	for _, tt := range []struct {
		slots int
		want  error
	}{{1, nil}, {20, nil}, {40, slots.ErrAnswerTooLarge}, {1, nil}} {
		n = tt.slots
		if _, err := Ask(t.Context(), cfg, slots.Request{Instance: self}); !errors.Is(err, tt.want) {
			t.Errorf("%d slots: got %v, want %v", tt.slots, err, tt.want)
		}
	}
}

func TestAServerThatGoesAwayIsFoundAgain(t *testing.T) {
	nats := natstest.Start(t)
	cfg := Config{URL: nats.URL()}
	d := up(t, cfg, self, oneSlot)
	want := []string{"nats connected"}
	for range 2 {
		nats.Stop()
		want = append(want, "nats disconnected nats_unreachable")
		d.log.await(t, len(want))
		nats.Start()
		want = append(want, "nats connected")
		if got := d.log.await(t, len(want)); !slices.Equal(got, want) {
			t.Fatalf("it logs %q, want %q", got, want)
		}
		if _, err := Ask(t.Context(), cfg, slots.Request{Instance: self}); err != nil {
			t.Error(err)
		}
	}
}

func TestAServerThatIsDownAtStartIsOneRecord(t *testing.T) {
	nats := natstest.New(t)
	calls := make(chan struct{})
	closeTrap := trap(t, nats.Address(), calls)
	d := run(t, Config{URL: nats.URL()}, self, oneSlot, time.Minute)
	for range 4 {
		<-calls
	}
	closeTrap()
	nats.Start()
	want := []string{"nats disconnected nats_unreachable", "nats connected"}
	if got := d.log.await(t, 2); !slices.Equal(got, want) {
		t.Errorf("it logs %q, want %q", got, want)
	}
}

func TestStoppingLetsAnswersInFlightEnd(t *testing.T) {
	bus := natstest.Start(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	d := up(t, Config{URL: bus.URL()}, self, func(ctx context.Context) ([]fencerow.Slot, error) {
		entered <- struct{}{}
		<-leave
		return oneSlot(ctx)
	})
	a := newAsker(t, bus.URL())
	a.send(string(slots.Request{Instance: self}.Document()))
	<-entered
	ended := make(chan struct{})
	go func() {
		d.stop()
		close(ended)
	}()
	awaitDeaf(t, a.conn)
	select {
	case <-ended:
		t.Error("it did not wait for the answer")
	case <-time.After(100 * time.Millisecond): // too short, it would only fail to find a stop that does not wait
	}
	close(leave)
	<-ended
	if got := a.received(); len(got) != 1 || !strings.Contains(got[0], "slot-1") {
		t.Errorf("got %q", got)
	}
}

// awaitDeaf returns once no daemon listens any more. A malformed request is answered by any that does.
func awaitDeaf(t *testing.T, conn *nats.Conn) {
	t.Helper()
	for began := time.Now(); time.Since(began) < patience; {
		if _, err := conn.Request(slots.Subject, []byte("{"), time.Second); errors.Is(err, nats.ErrNoResponders) {
			return
		}
	}
	t.Fatal("requests are still heard")
}

func TestStoppingDoesNotWaitForAStoreThatHangs(t *testing.T) {
	nats := natstest.Start(t)
	entered := make(chan struct{})
	d := run(t, Config{URL: nats.URL()}, self, func(ctx context.Context) ([]fencerow.Slot, error) {
		close(entered)
		<-ctx.Done()
		return nil, fencerow.NewError("list slots", fencerow.ErrStoreTimeout, ctx.Err())
	}, 400*time.Millisecond)
	d.log.await(t, 1)
	a := newAsker(t, nats.URL())
	a.send(string(slots.Request{Instance: self}.Document()))
	<-entered
	began := time.Now()
	d.stop()
	if took := time.Since(began); took > slots.Within/2 {
		t.Errorf("stopping took %s", took)
	}
	if got := a.received(); !slices.Equal(got, []string{`{"error":"store_timeout"}`}) {
		t.Errorf("got %q", got)
	}
}

func TestStoppingDoesNotWaitForAServerThatIsDown(t *testing.T) {
	d := run(t, Config{URL: natstest.New(t).URL()}, self, oneSlot, time.Minute)
	d.log.await(t, 1)
	d.stop()
}
