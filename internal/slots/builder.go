package slots

import (
	"context"
	"errors"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/observe"
)

// Bounds of an answer.
const (
	// Within bounds what one answer asks of the store, in all. Clients wait for longer.
	Within = 3 * time.Second
	// MaxAnswer bounds an answer, in bytes: some twenty thousand slots.
	MaxAnswer = 8 << 20
	// maxAtOnce is how many questions are taken at once, whatever way they came.
	maxAtOnce = 8
	// maxLooks is how many of those have the store at once: questions must not use up the connections, nor the
	// database's time, that the writers need.
	maxLooks = 2
)

// Codes of a refusal, beside those of the store and [fencerow.ErrInvalidInput].
const (
	// ErrTooMany: as many requests as can be are being answered. Ask again later.
	ErrTooMany fencerow.Code = "too_many_requests"
	// ErrAnswerTooLarge: the answer is larger than what can be sent.
	ErrAnswerTooLarge fencerow.Code = "answer_too_large"
	// ErrInternal: a defect.
	ErrInternal fencerow.Code = "internal"
)

// Viewer is what lag is read from.
type Viewer interface {
	ListPending(ctx context.Context, p fencerow.ListPendingParams) ([]fencerow.PendingEntry, error)
}

// Store is what a [Builder] needs of a [fencerow.Store].
type Store interface {
	Viewer
	Slots(ctx context.Context, instance fencerow.InstanceKey) ([]fencerow.Slot, error)
}

// Reader returns a fresh snapshot of an instance's counters.
type Reader func() (observe.Metrics, error)

// CountersOf reads the counters of an observer.
func CountersOf(o *observe.Observer) Reader {
	return func() (observe.Metrics, error) { return o.Metrics(), nil }
}

// Builder makes the answers of one instance. Safe for concurrent use.
type Builder struct {
	store    Store
	instance fencerow.InstanceKey
	worker   fencerow.WorkerID
	counters Reader
	atOnce   chan struct{}
	looks    chan struct{}
}

// NewBuilder returns a builder for a valid instance key, and the worker whose counters they are. Without a
// reader, or with one that fails, answers say that there are no counters; slots are answered all the same.
func NewBuilder(
	store Store, instance fencerow.InstanceKey, worker fencerow.WorkerID, counters Reader,
) *Builder {
	return &Builder{
		store: store, instance: instance, worker: worker, counters: counters,
		atOnce: make(chan struct{}, maxAtOnce), looks: make(chan struct{}, maxLooks),
	}
}

// Instance returns whose slots it answers for.
func (b *Builder) Instance() fencerow.InstanceKey { return b.instance }

// Answer returns one line of JSON: the document, or a refusal and its code. It takes little longer than
// [Within] at most.
func (b *Builder) Answer(ctx context.Context, spy bool) (line []byte, refused fencerow.Code) {
	defer func() {
		if recover() != nil {
			line, refused = Refusal(ErrInternal), ErrInternal
		}
	}()
	select {
	case b.atOnce <- struct{}{}:
		defer func() { <-b.atOnce }()
	default:
		return Refusal(ErrTooMany), ErrTooMany
	}
	ctx, cancel := context.WithTimeout(ctx, Within)
	defer cancel()
	select {
	case b.looks <- struct{}{}:
		defer func() { <-b.looks }()
	case <-ctx.Done():
		return Refusal(ErrTooMany), ErrTooMany
	}
	list, err := b.store.Slots(ctx, b.instance)
	if err != nil {
		code := CodeOf(err)
		return Refusal(code), code
	}
	doc := newDocument(b.instance, list)
	if spy {
		doc.Spy = &Spy{
			Worker: b.worker, OldestDueAgeSec: OldestDueAge(ctx, b.store, b.instance), Metrics: b.read(),
		}
	}
	if line = render(doc); len(line) > MaxAnswer {
		return Refusal(ErrAnswerTooLarge), ErrAnswerTooLarge
	}
	return line, ""
}

// read returns the counters, or that there are none.
func (b *Builder) read() (m observe.Metrics) {
	defer func() {
		if recover() != nil {
			m = observe.MetricsUnavailable(b.instance)
		}
	}()
	if b.counters != nil {
		if m, err := b.counters(); err == nil && m.InstanceKey == b.instance {
			return m
		}
	}
	return observe.MetricsUnavailable(b.instance)
}

// OldestDueAge returns how many seconds the oldest due row of the instance that no active lease holds has
// been due, by the store's clock: 0 if none is, nil if the store did not say. It looks at the first
// pending row only: counting would cost more with each entry there ever was.
func OldestDueAge(ctx context.Context, store Viewer, instance fencerow.InstanceKey) *float64 {
	first, err := store.ListPending(ctx, fencerow.ListPendingParams{Instance: instance, Limit: 1})
	if err != nil {
		return nil
	}
	age := time.Duration(0)
	if len(first) > 0 {
		age = first[0].DueFor
	}
	seconds := age.Round(time.Millisecond).Seconds()
	return &seconds
}

// CodeOf returns the code of a store's error; of any other, [fencerow.ErrStoreFailed].
func CodeOf(err error) fencerow.Code {
	if own, ok := errors.AsType[*fencerow.Error](err); ok {
		return own.Code()
	}
	if code, ok := errors.AsType[fencerow.Code](err); ok {
		return code
	}
	return fencerow.ErrStoreFailed
}
