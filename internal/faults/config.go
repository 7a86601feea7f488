package faults

import (
	"fmt"
	"io"
	"time"
)

// Config says how large a run is. [Defaults] fills what is zero.
type Config struct {
	Seed uint64
	// Duration is how long things go wrong. The run ends once everything is delivered after that.
	Duration time.Duration
	// Entries is how many the producers enqueue in that time.
	Entries int
	// Instances and Daemons are how many instances there are, and how many daemons each has.
	Instances, Daemons int
	Lease, Interval    time.Duration
	// Every is the mean time from the beginning of one fault to the next.
	Every time.Duration
	// Kinds are those that are planned; none means all.
	Kinds []Kind
	// Mutant names the broken build to run, see [Mutants]; empty is the product itself.
	Mutant string
	// Race builds the programs with the race detector.
	Race bool
	// Log is told how the run goes.
	Log io.Writer
}

// Defaults fills what is zero by what a minute on two cores can do.
func (c Config) Defaults() Config {
	set(&c.Duration, time.Minute)
	set(&c.Entries, int(c.Duration.Seconds()*300))
	set(&c.Instances, 3)
	set(&c.Daemons, 3)
	set(&c.Lease, 3*time.Second)
	set(&c.Interval, c.Lease/10)
	set(&c.Every, c.Lease/2)
	if c.Log == nil {
		c.Log = io.Discard
	}
	return c
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c Config) validate() error {
	switch {
	case c.Lease < 2*time.Second || c.Lease > time.Minute:
		return fmt.Errorf("the lease must be from 2s to 1m")
	case c.Duration < 5*c.Lease:
		return fmt.Errorf("the duration must be five leases at least")
	case c.Instances < 1 || c.Instances > 20 || c.Daemons < 1 || c.Daemons > 20:
		return fmt.Errorf("instances and daemons must be from 1 to 20")
	case c.Entries < 1 || c.Entries > 9_999_999:
		return fmt.Errorf("entries must be from 1 to 9999999")
	}
	return nil
}

// deliveryTimeout and the settings below follow from the lease, as an operator would set them.
func (c Config) deliveryTimeout() time.Duration { return c.Lease / 3 }

func (c Config) settings() map[string]string {
	return map[string]string{
		"LEASE": c.Lease.String(), "DELIVERY_TIMEOUT": c.deliveryTimeout().String(),
		"LEDGER_INTERVAL_SEC": fmt.Sprint(c.Interval.Seconds()),
		"CONCURRENCY":         "8", "BATCH_LIMIT": "50", "DB_MAX_CONNS": "4",
		"BACKOFF_BASE": "50ms", "BACKOFF_CAP": (c.Lease / 5).String(), "MAX_ATTEMPTS": "20", "GRACE": "6s",
		"LOG_FORMAT": "json", "LOG_LEVEL": "info",
	}
}

func instanceKey(i int) string { return fmt.Sprintf("desk-%d", i+1) }
