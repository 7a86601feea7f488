package natsrpc

import (
	"context"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/observe"
	"github.com/fourblocks2020/fencerow/internal/slots"
)

// ErrSubjectRefused says that the server does not let the daemon listen for requests.
const ErrSubjectRefused fencerow.Code = "nats_subject_refused"

// Bounds of a [Server].
const (
	firstPause = 250 * time.Millisecond // before a lost connection is made again; it doubles
	maxPause   = 5 * time.Second
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
	refused sync.Once // the notice that the server refuses an answer
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
	var why outage
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		var since time.Time
		err := s.session(ctx, func() {
			since = time.Now()
			s.up.Store(true)
			s.obs.NATSConnected()
			why = outage{}
		})
		s.up.Store(false)
		if ctx.Err() != nil {
			return
		}
		if code := codeOf(err); why.isNews(code, time.Now()) {
			s.obs.NATSDisconnected(code)
		}
		if !since.IsZero() && time.Since(since) > maxPause {
			pause = firstPause
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause/2 + rand.N(pause)): //nolint:gosec // spreads reconnects, hides nothing
		}
	}
}

// session is the life of both connections, one for each group. Over one connection each request would come
// twice, and a server that permits one answer to a request would have it used up by that. It returns why it
// ended, or nil once ctx did and everything in flight is answered. up is called when requests arrive over
// both.
func (s *Server) session(ctx context.Context, up func()) (why error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	groups := map[string]handler{
		groupOf(s.builder.Instance()): answerOwn,
		malformedGroup:                refuseMalformed,
	}
	ready, ended := make(chan struct{}, len(groups)), make(chan error, len(groups))
	for group, handle := range groups {
		go func() { ended <- s.attend(ctx, group, handle, ready) }()
	}
	for deaf, running := len(groups), len(groups); running > 0; {
		select {
		case <-ready:
			if deaf--; deaf == 0 && ctx.Err() == nil {
				up()
			}
		case err := <-ended:
			if running--; why == nil {
				why = err
			}
			end()
		}
	}
	return why
}

// attend is the life of one connection, on which requests are heard as one of a group: it returns why that
// ended, or nil once ctx did and everything in flight is answered. It tells ready when requests arrive.
func (s *Server) attend(ctx context.Context, group string, handle handler, ready chan<- struct{}) error {
	lost, deaf := make(chan error, 1), make(chan error, 1)
	closed := func(nc *nats.Conn) { lost <- nc.LastError() }
	failed := func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if s.refuses(err) {
			select {
			case deaf <- ErrSubjectRefused:
			default: // It has been told.
			}
		}
	}
	nc, cut, err := connect(ctx, s.cfg, closed, failed)
	if err != nil {
		return err
	}
	answering, abandon := context.WithCancel(context.WithoutCancel(ctx))
	a := &answerer{builder: s.builder, conn: nc, room: make(chan struct{}, maxInFlight)}
	defer func() {
		nc.Close()
		abandon()
		a.wait()
	}()
	// Who is not answered by half of the time gets a refusal; a server that does not take it holds nothing up.
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(s.drain/2, abandon)
		time.AfterFunc(s.drain, cut)
	})()
	subscription, err := a.listen(answering, group, handle)
	if err != nil {
		return err
	}
	if err := noted(ctx, nc); err != nil {
		return err
	}
	if ofSubscription(nc.LastError()) { // The handler may not have been called yet.
		return ErrSubjectRefused
	}
	ready <- struct{}{}
	select {
	case err := <-lost:
		return err
	case err := <-deaf:
		return err
	case <-ctx.Done():
	}
	_ = subscription.Drain() // fails only if the connection is gone, and the requests with it
	a.wait()
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.drain)
	defer cancel()
	_ = nc.FlushWithContext(late) // who asked may have gone away
	return nil
}

// noted returns once the server has noted what was asked of it.
func noted(ctx context.Context, nc *nats.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, connectWithin)
	defer cancel()
	if err := nc.FlushWithContext(ctx); err != nil {
		return errors.Join(err, nc.LastError())
	}
	return nil
}

// refuses takes what the client library would print to standard error, and reports whether nothing is heard
// any more. An answer that may not be sent ends nothing: the reply subject is the asker's choice.
func (s *Server) refuses(err error) bool {
	if ofSubscription(err) {
		return true
	}
	if errors.Is(err, nats.ErrPermissionViolation) {
		s.refused.Do(func() { s.obs.Notify(observe.NoticeNATSAnswerRefused) })
	}
	return false
}

// ofSubscription reports whether a server's error is that it does not let us listen. Only its text tells that
// from an answer that may not be sent.
func ofSubscription(err error) bool {
	return errors.Is(err, nats.ErrMaxSubscriptionsExceeded) || errors.Is(err, nats.ErrPermissionViolation) &&
		strings.Contains(err.Error(), "for Subscription to ")
}
