package natsrpc

import (
	"context"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/observe"
	"github.com/fourblocks2020/fencerow/internal/slots"
)

// Bounds of a [Server].
const (
	firstPause = 250 * time.Millisecond // before a lost connection is made again; it doubles
	maxPause   = 5 * time.Second
	// maxWaiting bounds the requests of a connection that have arrived and were not looked at yet, for each
	// group. What comes beyond is dropped.
	maxWaiting = 256
	// maxDrain bounds how long stopping may take.
	maxDrain = 2 * time.Second
)

// malformedGroup is the queue group of all daemons. No instance's group has its name: those are hexadecimal.
const malformedGroup = "fencerow-slots-malformed"

// groupOf returns the queue group of an instance's daemons. Keys may hold what has a meaning in NATS, so that
// their bytes are written in hexadecimal.
func groupOf(instance fencerow.InstanceKey) string {
	return "fencerow-slots-" + hex.EncodeToString([]byte(instance))
}

// Server answers the requests for one instance.
type Server struct {
	cfg     Config
	builder *slots.Builder
	obs     *observe.Observer
	drain   time.Duration
	refused sync.Once // the notice that the server refuses the subject
	up      atomic.Bool
}

// Connected reports whether requests arrive now. Safe for concurrent use.
func (s *Server) Connected() bool { return s.up.Load() }

// NewServer returns a server. Nothing is connected to. Stopping takes a quarter of grace and no more than
// two seconds.
func NewServer(cfg Config, builder *slots.Builder, obs *observe.Observer, grace time.Duration) *Server {
	return &Server{cfg: cfg, builder: builder, obs: obs, drain: min(maxDrain, grace/4)}
}

// Run answers until ctx ends, then lets answers in flight end. It is called once.
func (s *Server) Run(ctx context.Context) {
	down, pause := false, firstPause
	for {
		err := s.session(ctx, func() {
			s.up.Store(true)
			s.obs.NATSConnected()
			down, pause = false, firstPause
		})
		s.up.Store(false)
		if ctx.Err() != nil {
			return
		}
		if !down {
			s.obs.NATSDisconnected(codeOf(err))
			down = true
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause/2 + rand.N(pause)): //nolint:gosec // spreads reconnects, hides nothing
		}
		pause = min(2*pause, maxPause)
	}
}

// session is the life of one connection: it returns why that ended, or nil once ctx did and everything in
// flight is answered. up is called when requests arrive.
func (s *Server) session(ctx context.Context, up func()) error {
	lost := make(chan error, 1)
	nc, err := connect(ctx, s.cfg, func(nc *nats.Conn) { lost <- nc.LastError() }, s.failed)
	if err != nil {
		return err
	}
	answering, abandon := context.WithCancel(context.WithoutCancel(ctx))
	a := &answerer{builder: s.builder, conn: nc}
	defer func() {
		nc.Close()
		abandon()
		a.wait()
	}()
	listening, err := a.listen(answering)
	if err != nil {
		return err
	}
	if err := noted(ctx, nc); err != nil {
		return err
	}
	up()
	select {
	case err := <-lost:
		return err
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.drain)
	defer cancel()
	defer context.AfterFunc(late, abandon)()
	for _, subscription := range listening {
		_ = subscription.Drain() // fails only if the connection is gone, and the requests with it
	}
	a.wait()
	_ = nc.FlushWithContext(late) // who asked may have gone away
	return nil
}

// failed takes what the client library would print to standard error.
func (s *Server) failed(_ *nats.Conn, _ *nats.Subscription, err error) {
	if errors.Is(err, nats.ErrPermissionViolation) {
		s.refused.Do(func() { s.obs.Notify(observe.NoticeNATSRefused) })
	}
}

// answerer answers what comes over one connection.
type answerer struct {
	builder  *slots.Builder
	conn     *nats.Conn
	hearing  sync.WaitGroup
	inFlight sync.WaitGroup
}

// noted returns once the server has noted what was asked of it.
func noted(ctx context.Context, nc *nats.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, connectWithin)
	defer cancel()
	return nc.FlushWithContext(ctx)
}

// listen subscribes. Requests are heard until the connection or ctx ends, or the subscriptions are drained.
func (a *answerer) listen(ctx context.Context) ([]*nats.Subscription, error) {
	var all []*nats.Subscription
	for group, handle := range map[string]handler{
		groupOf(a.builder.Instance()): a.answerOwn,
		malformedGroup:                a.refuseMalformed,
	} {
		subscription, err := a.conn.QueueSubscribeSync(slots.Subject, group)
		if err != nil {
			return nil, err
		}
		if err := subscription.SetPendingLimits(maxWaiting, maxWaiting*slots.MaxRequest); err != nil {
			return nil, err
		}
		a.hearing.Go(func() { hear(ctx, subscription, handle) })
		all = append(all, subscription)
	}
	return all, nil
}

// wait returns when nothing is heard any more and everything is answered.
func (a *answerer) wait() {
	a.hearing.Wait()
	a.inFlight.Wait()
}

// handler takes a request that wants an answer, or why it cannot be read.
type handler func(ctx context.Context, m *nats.Msg, request slots.Request, malformed error)

func hear(ctx context.Context, subscription *nats.Subscription, handle handler) {
	for {
		m, err := subscription.NextMsgWithContext(ctx)
		switch {
		case errors.Is(err, nats.ErrSlowConsumer): // Some were dropped.
		case err != nil:
			return
		case m.Reply != "":
			take(ctx, m, handle)
		}
	}
}

// take contains a panic: what anybody can send must not end the daemon.
func take(ctx context.Context, m *nats.Msg, handle handler) {
	defer func() { _ = recover() }()
	request, err := slots.ParseRequest(m.Data)
	handle(ctx, m, request, err)
}

// answerOwn answers a request for the own instance, beside others: the builder bounds how many.
func (a *answerer) answerOwn(ctx context.Context, m *nats.Msg, request slots.Request, malformed error) {
	if malformed != nil || request.Instance != a.builder.Instance() {
		return
	}
	a.inFlight.Go(func() {
		line, _ := a.builder.Answer(ctx, request.Spy)
		a.respond(m, line)
	})
}

func (a *answerer) refuseMalformed(_ context.Context, m *nats.Msg, _ slots.Request, malformed error) {
	if malformed != nil {
		a.respond(m, slots.Refusal(fencerow.ErrInvalidInput))
	}
}

// respond sends an answer if the server takes one of its size, else a refusal. Who asks again after a lost
// connection gets another answer.
func (a *answerer) respond(m *nats.Msg, line []byte) {
	if int64(len(line)) > a.conn.MaxPayload() {
		line = slots.Refusal(slots.ErrAnswerTooLarge)
	}
	_ = m.Respond(line)
}
