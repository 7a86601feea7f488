package daemon

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/observe"
	"github.com/fourblocks2020/fencerow/internal/secretfile"
	"github.com/fourblocks2020/fencerow/internal/slots"
	"github.com/fourblocks2020/fencerow/internal/version"
	"github.com/fourblocks2020/fencerow/internal/writer"
)

// Bounds of a [Config].
const (
	MinInterval = time.Millisecond
	MaxInterval = time.Hour
	MinGrace    = time.Millisecond
	MaxGrace    = time.Hour
)

// Store is what a daemon needs of a [fencerow.Store] beside its writers.
type Store interface {
	Register(ctx context.Context, instance fencerow.InstanceKey) error
	Ready(ctx context.Context) (fencerow.SchemaVersion, error)
	ListPending(ctx context.Context, p fencerow.ListPendingParams) ([]fencerow.PendingEntry, error)
}

// Writer is what a daemon needs of a [writer.Writer].
type Writer interface {
	Poll(ctx context.Context) (writer.PollResult, error)
	Wake() <-chan struct{}
	RunTargeted(ctx context.Context, id fencerow.CorrelationID, forceDue bool) (writer.TargetedResult, error)
	Shutdown(ctx context.Context) error
}

// Responder answers questions that do not come to the ops listener.
type Responder interface {
	// Run answers until ctx ends, then lets answers in flight end for a small part of the grace period.
	Run(ctx context.Context)
	// Connected reports whether questions can arrive now.
	Connected() bool
}

// Config says what a daemon runs. Store, Writers, Observer, Slots, Worker, Interval and Grace are required.
type Config struct {
	Store Store
	// Writers are of the daemon's instance and share its store and observer. One is enough, unless the database
	// has time left while it delivers.
	Writers  []Writer
	Observer *observe.Observer // whose instance is the daemon's
	Slots    *slots.Builder    // of the same instance
	// Responder is run beside the polls; nil if there is none.
	Responder Responder
	Worker    fencerow.WorkerID
	// Interval is the time from one tick of a writer to its next.
	Interval time.Duration
	// Grace is how long stopping may take. Deliveries have at least half of it; up to [lastWrites] are kept for
	// what must be written after them.
	Grace time.Duration
	// OpsListen is the HOST:PORT of the ops listener; empty means none. Beyond loopback it needs OpsTokenFile.
	OpsListen string
	// OpsTokenFile holds the bearer token that the ops listener requires; empty means none. It is read for each
	// request.
	OpsTokenFile string
}

// Daemon runs writers. Its methods are safe for concurrent use, but Run is called once.
type Daemon struct {
	// startFailure is what was logged last of why the database cannot be prepared; only work has it.
	startFailure string

	cfg     Config
	obs     *observe.Observer
	ops     *ops // nil without a listener
	notify  notifier
	state   state
	pollers []*poller
	// changes keeps the records of changes in the order in which things changed. It is a leaf but for the
	// observer and the states.
	changes sync.Mutex
}

// New checks the configuration; nothing is opened. The error is an [*fencerow.InputError].
func New(cfg Config) (*Daemon, error) {
	missing := ""
	switch {
	case cfg.Store == nil:
		missing = "store"
	case len(cfg.Writers) == 0 || slices.Contains(cfg.Writers, nil):
		missing = "writer"
	case cfg.Observer == nil:
		missing = "observer"
	case cfg.Slots == nil || cfg.Slots.Instance() != cfg.Observer.Instance():
		missing = "slots"
	}
	if missing != "" {
		return nil, &fencerow.InputError{Field: missing, Problem: "is missing"}
	}
	if err := cfg.Worker.Validate(); err != nil {
		return nil, err
	}
	if cfg.Interval < MinInterval || cfg.Interval > MaxInterval {
		return nil, outOfBounds("ledger_interval_sec", MinInterval, MaxInterval)
	}
	if cfg.Grace < MinGrace || cfg.Grace > MaxGrace {
		return nil, outOfBounds("grace", MinGrace, MaxGrace)
	}
	d := &Daemon{cfg: cfg, obs: cfg.Observer, notify: newNotifier()}
	for _, w := range cfg.Writers {
		d.pollers = append(d.pollers, &poller{
			d: d, writer: w, state: pollState{interval: cfg.Interval}, resumed: make(chan struct{}, 1),
		})
	}
	if cfg.OpsListen == "" {
		return d, nil
	}
	var err error
	d.ops, err = newOps(d)
	return d, err
}

func outOfBounds(field string, lo, hi time.Duration) error {
	return &fencerow.InputError{Field: field, Problem: "must be from " + lo.String() + " to " + hi.String()}
}

// Run polls until ctx ends, then stops as the package comment says and returns nil. It returns early, with an
// error, if the ops listener cannot be had or the schema is not one that this build works with. That it has
// stopped is for the caller to log, once nothing else is to be.
func (d *Daemon) Run(ctx context.Context) error {
	address := ""
	var listener net.Listener
	if d.ops != nil {
		var err error
		if listener, err = d.ops.listen(ctx); err != nil {
			return err
		}
		address = listener.Addr().String()
	}
	d.obs.Started(d.cfg.Worker, version.String(), address)
	if secretfile.Exposed(d.cfg.OpsTokenFile) {
		d.obs.FileNotice(observe.NoticeTokenFileReadable, opsTokenFile)
	}

	loops, end := context.WithCancelCause(ctx)
	defer end(nil)
	var running sync.WaitGroup
	running.Go(func() {
		if err := d.work(loops); err != nil {
			end(err)
		}
	})
	running.Go(func() { d.notify.watch(loops, d.alive) })
	if d.cfg.Responder != nil {
		running.Go(func() { d.cfg.Responder.Run(loops) })
	}
	var serving sync.WaitGroup
	if listener != nil {
		serving.Go(func() { d.ops.serve(listener) })
	}

	<-loops.Done()
	d.stop(&running, &serving) //nolint:contextcheck // the context is over, and stopping has a time of its own
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(loops)
}

const (
	// lastWrites is how much of the grace period is kept for recording and releasing after the deliveries ended.
	lastWrites = 4 * time.Second
	// opsGrace is how long requests in flight at the ops listener have to end after everything else did.
	opsGrace = time.Second
)

func (d *Daemon) stop(running, serving *sync.WaitGroup) {
	d.state.stop()
	d.obs.Stopping(d.cfg.Worker)
	d.notify.send("STOPPING=1")
	grace, cancel := context.WithTimeout(context.Background(), d.cfg.Grace-min(lastWrites, d.cfg.Grace/2))
	defer cancel()
	var stopping sync.WaitGroup
	for _, w := range d.cfg.Writers {
		// Its error says that deliveries had to be cancelled. Their rows were released, which is logged by nobody:
		// nothing is wrong.
		stopping.Go(func() { _ = w.Shutdown(grace) })
	}
	stopping.Wait()
	running.Wait()
	if d.ops != nil {
		d.ops.shutdown()
	}
	serving.Wait()
}
