package natsrpc

import (
	"context"
	"errors"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/fourblocks2020/fencerow/internal/slots"
)

const (
	// maxWaiting bounds the requests of a connection that have arrived and were not looked at yet: so many, and
	// so many KiB in all. What comes beyond is dropped, and who asked is not answered.
	maxWaiting = 4096
	// maxInFlight bounds the answers of a connection that are made or sent, refusals included.
	maxInFlight = 64
)

// answerer answers what comes over one connection, as one of a group.
type answerer struct {
	builder  *slots.Builder
	conn     *nats.Conn
	room     chan struct{} // as many as are answered at once
	hearing  sync.WaitGroup
	inFlight sync.WaitGroup
}

// listen subscribes. Requests are heard until the connection or ctx ends, or the subscription is drained.
func (a *answerer) listen(ctx context.Context, group string, handle handler) (*nats.Subscription, error) {
	subscription, err := a.conn.QueueSubscribeSync(slots.Subject, group)
	if err != nil {
		return nil, err
	}
	if err := subscription.SetPendingLimits(maxWaiting, maxWaiting*slots.MaxRequest); err != nil {
		return nil, err
	}
	a.hearing.Go(func() { a.hear(ctx, subscription, handle) })
	return subscription, nil
}

// wait returns when nothing is heard any more and everything is answered.
func (a *answerer) wait() {
	a.hearing.Wait()
	a.inFlight.Wait()
}

// handler takes a request that wants an answer, or why it cannot be read.
type handler func(ctx context.Context, a *answerer, m *nats.Msg, request slots.Request, malformed error)

func (a *answerer) hear(ctx context.Context, subscription *nats.Subscription, handle handler) {
	for {
		m, err := subscription.NextMsgWithContext(ctx)
		switch {
		case errors.Is(err, nats.ErrSlowConsumer): // Some were dropped.
		case err != nil:
			return
		case m.Reply != "":
			a.take(ctx, m, handle)
		}
	}
}

// take contains a panic: what anybody can send must not end the daemon.
func (a *answerer) take(ctx context.Context, m *nats.Msg, handle handler) {
	defer func() { _ = recover() }()
	request, err := slots.ParseRequest(m.Data)
	handle(ctx, a, m, request, err)
}

// answerOwn answers a request for the own instance, beside others: the builder bounds how many have the
// store, and refuses the rest.
func answerOwn(ctx context.Context, a *answerer, m *nats.Msg, request slots.Request, malformed error) {
	if malformed != nil || request.Instance != a.builder.Instance() {
		return
	}
	select {
	case a.room <- struct{}{}:
	case <-ctx.Done():
		return
	}
	a.inFlight.Go(func() {
		defer func() { <-a.room }()
		line, _ := a.builder.Answer(ctx, request.Spy)
		a.respond(m, line)
	})
}

func refuseMalformed(_ context.Context, a *answerer, m *nats.Msg, _ slots.Request, malformed error) {
	if malformed != nil {
		a.respond(m, slots.InputRefusal(malformed))
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
