package main

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"
)

var watermillKind = kind{
	name:  "watermill",
	tries: []string{"batch=100", "batch=500", "batch=1000", "batch=5000", "delete=false"},
	build: func(p params) (queue, string, error) {
		q := &watermillQueue{batch: p.int("batch", 2000), remove: p.bool("delete", true)}
		how := "marked"
		if q.remove {
			how = "deleted"
		}
		setting := fmt.Sprintf("watermill-sql v4.1.2, queue schema, one subscriber, SubscribeBatchSize %d, no "+
			"AckDeadline, rows %s when acked; no lease: an open transaction holds the rows", q.batch, how)
		return q, setting, p.err
	},
}

// watermillQueue is watermill-sql with its queue schema.
type watermillQueue struct {
	batch  int
	remove bool
}

const watermillTopic = "bench"

func (q *watermillQueue) queries() (string, []any) { return "watermill", nil }

func (q *watermillQueue) schema() wsql.PostgreSQLQueueSchema {
	return wsql.PostgreSQLQueueSchema{SubscribeBatchSize: q.batch}
}

func (q *watermillQueue) prepare(ctx context.Context, db *database) error {
	return q.publish(ctx, db, func(*wsql.Publisher) error { return nil })
}

// publish calls fn with a publisher whose table exists.
func (q *watermillQueue) publish(ctx context.Context, db *database, fn func(*wsql.Publisher) error) error {
	pool, err := pgxpool.New(ctx, db.dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	beginner := wsql.BeginnerFromPgx(pool)
	subscriber, err := q.subscriber(beginner)
	if err != nil {
		return err
	}
	if err := subscriber.SubscribeInitialize(watermillTopic); err != nil {
		return err
	}
	publisher, err := wsql.NewPublisher(beginner, wsql.PublisherConfig{SchemaAdapter: q.schema()}, nil)
	if err != nil {
		return err
	}
	return fn(publisher)
}

func (q *watermillQueue) subscriber(beginner wsql.Beginner) (*wsql.Subscriber, error) {
	var never time.Duration
	return wsql.NewSubscriber(beginner, wsql.SubscriberConfig{
		AckDeadline: &never, PollInterval: 10 * time.Millisecond, SchemaAdapter: q.schema(),
		OffsetsAdapter: wsql.PostgreSQLQueueOffsetsAdapter{DeleteOnAck: q.remove},
	}, nil)
}

func (q *watermillQueue) fill(ctx context.Context, db *database, first, n int) error {
	const publishBatch = 5000
	return q.publish(ctx, db, func(p *wsql.Publisher) error {
		return inBatches(first, n, publishBatch, func(first, n int) error {
			messages := make([]*message.Message, n)
			for i := range messages {
				messages[i] = message.NewMessage("entry-"+strconv.Itoa(first+i), payload(first+i))
			}
			return p.Publish(watermillTopic, messages...)
		})
	})
}

func (q *watermillQueue) open(ctx context.Context, db *database, _ int) (consumer, error) {
	pool, err := pgxpool.New(ctx, db.dsn)
	if err != nil {
		return nil, err
	}
	subscriber, err := q.subscriber(wsql.BeginnerFromPgx(pool))
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &watermillConsumer{pool: pool, subscriber: subscriber, ended: make(chan struct{})}, nil
}

type watermillConsumer struct {
	inProcess
	pool       *pgxpool.Pool
	subscriber *wsql.Subscriber
	begun      bool
	ended      chan struct{}
}

func (c *watermillConsumer) begin(ctx context.Context) error {
	messages, err := c.subscriber.Subscribe(ctx, watermillTopic)
	if err != nil {
		return err
	}
	c.begun = true
	go func() {
		defer close(c.ended)
		for m := range messages {
			c.count.Add(1)
			m.Ack()
		}
	}()
	return nil
}

func (c *watermillConsumer) stop(context.Context) error {
	err := c.subscriber.Close()
	if c.begun {
		<-c.ended
	}
	c.pool.Close()
	return err
}

// inProcess is what consumers in this process have in common.
type inProcess struct{ count atomic.Int64 }

func (c *inProcess) delivered() int64            { return c.count.Load() }
func (c *inProcess) cpu() (time.Duration, error) { return ownCPU() }
