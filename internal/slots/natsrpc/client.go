package natsrpc

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/slots"
)

// Codes of a question that nobody answered.
const (
	// ErrNobodyListens: no daemon at all listens on this NATS.
	ErrNobodyListens fencerow.Code = "nats_nobody_listens"
	// ErrNoAnswer: no daemon of the instance answered in time.
	ErrNoAnswer fencerow.Code = "nats_no_answer"
	// ErrQuestionRefused: the server does not let us ask, or listen for the answer.
	ErrQuestionRefused fencerow.Code = "nats_question_refused"
)

// askWithin is how long an answer is waited for. A daemon gives one earlier, if only a refusal.
const askWithin = slots.Within + 2*time.Second

// Ask asks the daemons of an instance. A malformed key is an [*fencerow.InputError]; other errors are codes.
func Ask(ctx context.Context, cfg Config, request slots.Request) (*slots.Document, error) {
	const op = "ask for slots over nats"
	if err := request.Instance.Validate(); err != nil {
		return nil, err
	}
	within, refuse := context.WithCancelCause(ctx)
	defer refuse(nil)
	nc, _, err := connect(ctx, cfg, nil, func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrPermissionViolation) { // No request returns it.
			refuse(ErrQuestionRefused)
		}
	})
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fencerow.NewError(op, codeOf(err), nil)
	}
	defer nc.Close()
	within, cancel := context.WithTimeout(within, askWithin)
	defer cancel()
	answer, err := nc.RequestWithContext(within, slots.Subject, request.Document())
	switch {
	case err != nil && errors.Is(context.Cause(within), ErrQuestionRefused):
		return nil, fencerow.NewError(op, ErrQuestionRefused, nil)
	case errors.Is(err, nats.ErrNoResponders):
		return nil, fencerow.NewError(op, ErrNobodyListens, nil)
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fencerow.NewError(op, ErrNoAnswer, nil)
	case errors.Is(err, context.Canceled):
		return nil, err
	case err != nil: // The connection may know better why there is none.
		return nil, fencerow.NewError(op, codeOf(errors.Join(err, nc.LastError())), nil)
	}
	return slots.ReadAnswer(op, request, answer.Data)
}
