package writer

import (
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// Defaults and bounds of a [Config].
const (
	DefaultBatchLimit       = 100
	DefaultLease            = 30 * time.Second
	DefaultDeliveryTimeout  = 10 * time.Second
	DefaultConcurrency      = 32
	DefaultMaxAttempts      = 20
	DefaultInFlightAttempts = 8
	DefaultBackoffBase      = time.Second
	DefaultBackoffCap       = 10 * time.Minute
	DefaultTargetDelay      = time.Second
	DefaultGrace            = 15 * time.Second

	MaxConcurrency     = 1024
	MinDeliveryTimeout = time.Millisecond
	// MaxRetryAfter bounds how long a ledger can put off a retry or the next probe.
	MaxRetryAfter = time.Hour

	minMargin, maxMargin = 200 * time.Millisecond, 3 * time.Second
	// minStartWindow is the least time in which the deliveries of a claim may start. With hardly any, claims
	// would be made and given back unstarted, over and over.
	minStartWindow = 200 * time.Millisecond
	// minQuiet is the least time after which a hold that has nothing to probe ends.
	minQuiet         = 15 * time.Second
	budgetBatches    = 2
	maxBudgetBatches = 16
)

// Config says how a writer works. Instance and Worker are required; any other zero value is replaced by its
// default.
type Config struct {
	Instance fencerow.InstanceKey
	Worker   fencerow.WorkerID
	// BatchLimit is how many rows one poll claims at most, 1 to [fencerow.MaxBatch].
	BatchLimit int
	// Budget is how many rows may be in flight at once (claimed and neither recorded nor released): BatchLimit
	// to 16 times that, by default twice that.
	Budget int
	// Lease is how long a claim holds its rows, [fencerow.MinLease] to [fencerow.MaxLease].
	Lease time.Duration
	// DeliveryTimeout bounds one delivery. What it and the margin (see [Margin]) leave of the lease is the time
	// in which deliveries may start: at least a tenth of the lease, and 200 ms.
	DeliveryTimeout time.Duration
	// Concurrency is how many deliveries run at once, over all claims, 1 to [MaxConcurrency].
	Concurrency int
	// MaxAttempts is after how many attempts an entry is dead-lettered, 1 to [fencerow.MaxAttempts].
	MaxAttempts int
	// InFlightAttempts is from which attempt on an entry whose key the ledger keeps calling in flight is parked
	// as a conflict.
	InFlightAttempts int
	// BackoffBase and BackoffCap bound the delay before a retry: it doubles with each attempt from the base up
	// to the cap.
	BackoffBase, BackoffCap time.Duration
	// TargetDelay is about how long a row waits that failed for the target's sake; best the poll interval. The
	// hold governs the rate.
	TargetDelay time.Duration
	// Grace is how long deliveries may go on after the context of RunOnce, RunTargeted or Backfill was
	// cancelled. Shutdown has a context of its own for that.
	Grace time.Duration

	// wallNow tells the wall clock; a test jumps it. Nil is the wall clock reading of time.Now.
	wallNow func() time.Time
	// random returns a number in [0,1).
	random func() float64
}

// withDefaults returns c with its zero values replaced.
func (c Config) withDefaults() Config {
	setDefault(&c.BatchLimit, DefaultBatchLimit)
	setDefault(&c.Budget, budgetBatches*c.BatchLimit)
	setDefault(&c.Lease, DefaultLease)
	setDefault(&c.DeliveryTimeout, DefaultDeliveryTimeout)
	setDefault(&c.Concurrency, DefaultConcurrency)
	setDefault(&c.MaxAttempts, DefaultMaxAttempts)
	setDefault(&c.InFlightAttempts, DefaultInFlightAttempts)
	setDefault(&c.BackoffBase, DefaultBackoffBase)
	setDefault(&c.BackoffCap, max(DefaultBackoffCap, c.BackoffBase))
	setDefault(&c.TargetDelay, DefaultTargetDelay)
	setDefault(&c.Grace, DefaultGrace)
	if c.random == nil {
		c.random = rand.Float64
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate reports an [*fencerow.InputError] unless a writer can work with c. Zero values stand for their
// defaults.
func (c Config) Validate() error {
	c = c.withDefaults()
	if err := c.Instance.Validate(); err != nil {
		return err
	}
	if err := c.Worker.Validate(); err != nil {
		return err
	}
	ranges := []struct {
		field         string
		value, lo, hi int64
	}{
		{"batch_limit", int64(c.BatchLimit), 1, fencerow.MaxBatch},
		{"budget", int64(c.Budget), int64(c.BatchLimit), int64(maxBudgetBatches * c.BatchLimit)},
		{"concurrency", int64(c.Concurrency), 1, MaxConcurrency},
		{"max_attempts", int64(c.MaxAttempts), 1, fencerow.MaxAttempts},
		{"in_flight_attempts", int64(c.InFlightAttempts), 1, fencerow.MaxAttempts},
	}
	for _, r := range ranges {
		if r.value < r.lo || r.value > r.hi {
			return &fencerow.InputError{Field: r.field, Problem: "must be from " +
				strconv.FormatInt(r.lo, 10) + " to " + strconv.FormatInt(r.hi, 10)}
		}
	}
	return c.validateTimes()
}

func (c Config) validateTimes() error {
	ranges := []struct {
		field         string
		value, lo, hi time.Duration
	}{
		{"lease", c.Lease, fencerow.MinLease, fencerow.MaxLease},
		{"delivery_timeout", c.DeliveryTimeout, MinDeliveryTimeout, fencerow.MaxLease},
		{"backoff_base", c.BackoffBase, time.Millisecond, fencerow.MaxDelay},
		{"backoff_cap", c.BackoffCap, c.BackoffBase, fencerow.MaxDelay},
		{"target_delay", c.TargetDelay, time.Millisecond, time.Hour},
		{"grace", c.Grace, time.Millisecond, time.Hour},
	}
	for _, r := range ranges {
		if r.value < r.lo || r.value > r.hi {
			return &fencerow.InputError{Field: r.field, Problem: "must be from " +
				r.lo.String() + " to " + r.hi.String()}
		}
	}
	if longest := c.Lease - Margin(c.Lease) - max(c.Lease/10, minStartWindow); c.DeliveryTimeout > longest {
		return &fencerow.InputError{Field: "delivery_timeout", Problem: "does not fit the lease: with a lease of " +
			c.Lease.String() + " it must be at most " + longest.String() + "; shorten it or lengthen the lease"}
	}
	return nil
}

// quiet is after how long without a failure a hold ends that has nothing to probe. A row that failed is due
// again well before, and so is a delivery of another writer over.
func (c Config) quiet() time.Duration {
	return max(minQuiet, 3*c.TargetDelay, 2*c.DeliveryTimeout)
}

// startWindow is how long after a claim was requested its deliveries may start.
func (c Config) startWindow() time.Duration { return c.Lease - c.DeliveryTimeout - Margin(c.Lease) }

// Margin is how long before the end of its lease a claim is no longer trusted: a tenth of the lease, from 200
// ms to 3 s. It covers what the claim's answer took and how far two clocks drift apart within one lease.
func Margin(lease time.Duration) time.Duration { return min(max(lease/10, minMargin), maxMargin) }
