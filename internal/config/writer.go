package config

import (
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/observe"
	"github.com/fourblocks2020/fencerow/internal/writer"
)

// maxWriters bounds the writers of a process. The claims of an instance are made one after the other, so that
// a few keep a database busy.
const maxWriters = 16

// Writer says how entries are claimed and delivered.
//
//nolint:lll // a struct tag cannot be wrapped
type Writer struct {
	Worker           string        `name:"worker" env:"FENCEROW_WORKER" placeholder:"ID" group:"Delivery" help:"Name of this worker for people, in the list of claims. The default is made of the host's name and the process id."`
	BatchLimit       int           `name:"batch-limit" env:"FENCEROW_BATCH_LIMIT" default:"100" group:"Delivery" help:"Rows of one claim at most, 1 to 1000."`
	Budget           int           `name:"budget" env:"FENCEROW_BUDGET" default:"0" group:"Delivery" help:"Rows in flight at most, from the batch limit to 16 times that. 0 is twice the batch limit."`
	Lease            time.Duration `name:"lease" env:"FENCEROW_LEASE" default:"30s" group:"Delivery" help:"How long a claim holds its rows, 1s to 1h. Another worker takes over what a crashed one held after that."`
	DeliveryTimeout  time.Duration `name:"delivery-timeout" env:"FENCEROW_DELIVERY_TIMEOUT" default:"10s" group:"Delivery" help:"Bound of one delivery. With a margin of a tenth of the lease (200ms to 3s) it must be shorter than the lease."`
	Concurrency      int           `name:"concurrency" env:"FENCEROW_CONCURRENCY" default:"32" group:"Delivery" help:"Deliveries at once of one writer, 1 to 1024."`
	Writers          int           `name:"writers" env:"FENCEROW_WRITERS" default:"1" group:"Delivery" help:"Writers side by side in this process, 1 to 16, each with claims of its own: batch limit, budget and concurrency are each one's. Each uses up to four connections to the database."`
	MaxAttempts      int           `name:"max-attempts" env:"FENCEROW_MAX_ATTEMPTS" default:"20" group:"Delivery" help:"Attempts after which an entry is dead-lettered, 1 to 1000. Failures of the ledger as a whole do not count."`
	InFlightAttempts int           `name:"in-flight-attempts" env:"FENCEROW_IN_FLIGHT_ATTEMPTS" default:"8" group:"Delivery" help:"Attempt from which an entry that the ledger keeps calling in flight (409) is parked as a conflict."`
	BackoffBase      time.Duration `name:"backoff-base" env:"FENCEROW_BACKOFF_BASE" default:"1s" group:"Delivery" help:"Delay before the second attempt; it doubles with each."`
	BackoffCap       time.Duration `name:"backoff-cap" env:"FENCEROW_BACKOFF_CAP" default:"10m" group:"Delivery" help:"Longest delay before an attempt, unless the ledger asks for more."`
	Grace            time.Duration `name:"grace" env:"FENCEROW_GRACE" default:"15s" group:"Delivery" help:"How long stopping may take: deliveries in flight have most of it to end."`
}

// Validate refuses what no writer can work with.
func (w *Writer) Validate() error {
	if w.Writers < 1 || w.Writers > maxWriters {
		return inputError("writers", "must be from 1 to 16")
	}
	const anyInstance = "any"
	c := w.Config(anyInstance, writer.DefaultTargetDelay)
	// In a writer's own configuration zero means the default; a zero that was typed here is out of bounds.
	outOfBounds(&c.BatchLimit, &c.Concurrency, &c.MaxAttempts, &c.InFlightAttempts)
	outOfBounds(&c.Lease, &c.DeliveryTimeout, &c.BackoffBase, &c.BackoffCap, &c.Grace)
	return asFlag(c.Validate())
}

func outOfBounds[T int | time.Duration](values ...*T) {
	for _, value := range values {
		if *value == 0 {
			*value = -1
		}
	}
}

// New makes the writers, which share what they are given. Each has a worker's name of its own. The target
// delay is as in [Writer.Config].
func (w *Writer) New(
	store fencerow.Claimer, ledger fencerow.Ledger, observer *observe.Observer, targetDelay time.Duration,
) ([]*writer.Writer, error) {
	cfg := w.Config(observer.Instance(), targetDelay)
	writers := make([]*writer.Writer, w.Writers)
	for i := range writers {
		if len(writers) > 1 {
			cfg.Worker = numbered(w.WorkerID(), i+1)
		}
		var err error
		if writers[i], err = writer.New(store, ledger, observer, cfg); err != nil {
			return nil, err
		}
	}
	return writers, nil
}

// numbered is the name of one of several writers: the worker's own, cut if it must be, and a number.
func numbered(worker fencerow.WorkerID, n int) fencerow.WorkerID {
	number := fencerow.WorkerID("/" + strconv.Itoa(n))
	return worker[:min(len(worker), fencerow.MaxWorkerID-len(number))] + number
}

// Deliveries is how many deliveries run at once, over all writers.
func (w *Writer) Deliveries() int { return w.Writers * w.Concurrency }

// Config returns the configuration of the only writer. The target delay is about how long a row waits that
// failed for the ledger's sake; a daemon gives its poll interval.
func (w *Writer) Config(instance fencerow.InstanceKey, targetDelay time.Duration) writer.Config {
	return writer.Config{
		Instance: instance, Worker: w.WorkerID(),
		BatchLimit: w.BatchLimit, Budget: w.Budget, Lease: w.Lease, DeliveryTimeout: w.DeliveryTimeout,
		Concurrency: w.Concurrency, MaxAttempts: w.MaxAttempts, InFlightAttempts: w.InFlightAttempts,
		BackoffBase: w.BackoffBase, BackoffCap: w.BackoffCap, TargetDelay: targetDelay, Grace: w.Grace,
	}
}

// WorkerID returns the worker's name: the one given, or host:pid.
func (w *Writer) WorkerID() fencerow.WorkerID {
	if w.Worker != "" {
		return fencerow.WorkerID(w.Worker)
	}
	pid := ":" + strconv.Itoa(os.Getpid())
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	host = strings.Map(func(r rune) rune {
		if r < '!' || r > '~' {
			return '_'
		}
		return r
	}, host)
	return fencerow.WorkerID(host[:min(len(host), fencerow.MaxWorkerID-len(pid))] + pid)
}
