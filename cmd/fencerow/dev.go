package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/shopspring/decimal"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/config"
	"github.com/fourblocks2020/fencerow/internal/daemon"
	"github.com/fourblocks2020/fencerow/internal/ledger"
	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
	"github.com/fourblocks2020/fencerow/internal/loopback"
	"github.com/fourblocks2020/fencerow/internal/memstore"
	"github.com/fourblocks2020/fencerow/internal/observe"
	"github.com/fourblocks2020/fencerow/internal/slots"
	"github.com/fourblocks2020/fencerow/internal/writer"
)

const (
	devInstance = "dev"
	devWorker   = "dev"
	// What makes the samples quick: a retry comes after about this long, and a poll as often.
	devInterval = 100 * time.Millisecond
	devGrace    = 5 * time.Second
	// devPatience is how long draining may take; it takes about a second.
	devPatience = time.Minute
	devLook     = 20 * time.Millisecond
	// devTrickle is how often an entry is enqueued while dev keeps running.
	devTrickle = 2 * time.Second
)

//nolint:lll // a struct tag cannot be wrapped
type devCmd struct {
	Once         bool            `name:"once" env:"FENCEROW_DEV_ONCE" help:"End when everything is delivered, and print what was done."`
	UseDSN       bool            `name:"dsn" env:"FENCEROW_DEV_USE_DSN" help:"Use the PostgreSQL of FENCEROW_DSN or --dsn-file instead of memory, under a fresh instance key."`
	Database     config.Database `embed:""`
	LedgerListen string          `name:"ledger-listen" env:"FENCEROW_DEV_LEDGER_LISTEN" default:"127.0.0.1:0" placeholder:"HOST:PORT" help:"Loopback address of the stub ledger; port 0 takes a free one."`
	OpsListen    string          `name:"ops-listen" env:"FENCEROW_DEV_OPS_LISTEN" default:"127.0.0.1:8311" placeholder:"HOST:PORT" help:"Loopback address of the daemon's ops listener. With --once there is none."`
	Log          bool            `name:"log" env:"FENCEROW_DEV_LOG" help:"Write the daemon's log to standard error with --once too."`
}

// Help says what runs.
func (*devCmd) Help() string {
	return `Enqueues sample entries, and runs the daemon's own loop against a stub ledger on a loopback socket
that books, compares and fails in every everyday way. Nothing is installed, and nothing is kept: but with
--dsn the sample entries stay in that database, under their fresh instance key. With --once the exit status
is 0 only if everything came out as it must.`
}

// Validate checks the addresses.
func (c *devCmd) Validate() error {
	if _, ok := loopbackPort(c.LedgerListen); !ok {
		return usage("--ledger-listen", "must be a HOST:PORT on loopback, such as 127.0.0.1:0")
	}
	if port, ok := loopbackPort(c.OpsListen); !ok || port == 0 {
		return usage("--ops-listen", "must be a HOST:PORT on loopback, such as 127.0.0.1:8311")
	}
	return nil
}

func loopbackPort(address string) (port int, ok bool) {
	host, name, err := net.SplitHostPort(address)
	if err != nil || !loopback.Names(host) {
		return 0, false
	}
	port, err = net.LookupPort("tcp", name)
	return port, err == nil && name != ""
}

// stage is all that dev runs.
type stage struct {
	store interface {
		fencerow.Store
		Close()
	}
	kept     bool // the store outlives the command
	instance fencerow.InstanceKey
	stub     *ledgerstub.Stub
	base     string // of the stub's address
	ledger   *ledger.HTTP
	observer *observe.Observer
	daemon   *daemon.Daemon
	samples  []sample
	enqueued enqueueDoc
	began    time.Time
}

// Run runs the whole job.
func (c *devCmd) Run(ctx context.Context, a *app) error {
	config.CollectLessOften()
	s := &stage{samples: samples(), began: time.Now()}
	if err := c.openStore(ctx, s); err != nil {
		return err
	}
	defer s.store.Close()
	listener, err := net.Listen("tcp", c.LedgerListen)
	if err != nil {
		return failure("the stub ledger cannot listen there; choose another address with --ledger-listen")
	}
	s.stub, s.base = ledgerstub.New(ledgerstub.Options{Control: !c.Once}), "http://"+listener.Addr().String()
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { _ = s.stub.Serve(background, listener) }) // whether it serves is seen by the deliveries

	if err := c.build(s, a.stderr); err != nil {
		return err
	}
	defer s.ledger.Close()
	defer s.observer.CloseAlerts()
	s.introduce(a)
	if err := s.prepare(ctx); err != nil {
		return err
	}
	if err := s.enqueue(ctx, a); err != nil {
		return err
	}
	if c.Once {
		return s.once(ctx, a)
	}
	return c.keepRunning(ctx, a, s)
}

func (c *devCmd) openStore(ctx context.Context, s *stage) error {
	if !c.UseDSN {
		s.instance, s.store = devInstance, memstore.New(memstore.Options{})
		return nil
	}
	// An instance of its own: under another key, entries that belong in a real ledger could be delivered to the
	// stub.
	s.instance, s.kept = fencerow.InstanceKey(devInstance+"-"+strings.ToLower(rand.Text()[:8])), true
	store, err := openStore(ctx, &c.Database)
	s.store = store
	return err
}

func (c *devCmd) build(s *stage, stderr io.Writer) error {
	entries := s.base + ledgerstub.EntriesPath
	adapter, err := ledger.New(ledger.Config{URL: entries, ReadbackURL: entries})
	if err != nil {
		return err
	}
	s.ledger = adapter
	logTo := io.Discard
	if c.Log || !c.Once {
		logTo = stderr
	}
	logs := config.Log{Format: string(observe.FormatText), Level: "info"}
	if s.observer, err = logs.Observer(logTo, s.instance, observe.Alerting{Worker: devWorker}); err != nil {
		return err
	}
	w, err := writer.New(s.store, adapter, s.observer, writer.Config{
		Instance: s.instance, Worker: devWorker, MaxAttempts: devAttempts, DeliveryTimeout: devGrace,
		BackoffBase: devInterval, TargetDelay: devInterval, Grace: devGrace,
	})
	if err != nil {
		return err
	}
	cfg := daemon.Config{
		Store: s.store, Writers: []daemon.Writer{w}, Observer: s.observer, Worker: devWorker,
		Interval: devInterval, Grace: devGrace,
		Slots: slots.NewBuilder(s.store, s.instance, devWorker, slots.CountersOf(s.observer)),
	}
	if !c.Once {
		cfg.OpsListen = c.OpsListen
	}
	s.daemon, err = daemon.New(cfg)
	return err
}

// enqueue does what a producer does: all samples, one of them again, and one id again with other content.
func (s *stage) enqueue(ctx context.Context, a *app) error {
	quiet := &app{stdout: a.stdout, stderr: io.Discard}
	e := enqueuer{app: quiet, store: s.store, instance: s.instance}
	for i := range s.samples {
		e.add(s.samples[i].entry, 0)
	}
	again := s.samples[0].entry
	changed := again
	changed.CashDelta = again.CashDelta.Neg()
	e.add(again, 0)
	e.add(changed, 0)
	err := e.flush(ctx)
	s.enqueued = e.doc
	a.tell("  enqueued  %d entries; one of them once more, which changes nothing,", e.doc.Inserted)
	a.tell("            and its id with other content, which is refused as a conflict")
	return err
}

// run runs the daemon. That it has stopped is the last that it has to say.
func (s *stage) run(ctx context.Context) error {
	err := s.daemon.Run(ctx)
	s.observer.CloseAlerts()
	s.observer.Stopped(devWorker)
	return err
}

// once runs the daemon until nothing is pending.
func (s *stage) once(ctx context.Context, a *app) error {
	daemonCtx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		defer close(ended)
		ended <- s.run(daemonCtx)
	}()
	err := s.drained(ctx, ended)
	stop()
	if runErr := <-ended; err == nil {
		err = runErr
	}
	if err != nil {
		return err
	}
	doc, err := s.report(ctx)
	if err != nil {
		return err
	}
	if err := a.print(doc, func(t *table) { showReport(t, doc) }); err != nil {
		return err
	}
	if !doc.AsExpected {
		return failure("not everything came out as it must")
	}
	a.tell(devVerdict, os.Args[0])
	return nil
}

// drained waits until nothing is pending. An end of the daemon before that is an error.
func (s *stage) drained(ctx context.Context, ended chan error) error {
	patience := time.NewTimer(devPatience)
	defer patience.Stop()
	look := time.NewTicker(devLook)
	defer look.Stop()
	for {
		counts, err := s.store.Counts(ctx, s.instance)
		if err != nil || counts.ByStatus[fencerow.StatusPending] == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return failure("interrupted")
		case <-patience.C:
			return failure("entries are still pending after %s", devPatience)
		case err := <-ended:
			if err == nil {
				err = failure("the daemon ended before everything was delivered")
			}
			return err
		case <-look.C:
		}
	}
}

// keepRunning runs the daemon until a signal, with a producer that goes on.
func (c *devCmd) keepRunning(ctx context.Context, a *app, s *stage) error {
	c.suggest(a, s)
	producing, stop := context.WithCancel(ctx)
	var producer sync.WaitGroup
	producer.Go(func() { s.trickle(producing, a) })
	err := s.run(ctx)
	stop()
	producer.Wait()
	if err != nil {
		if errors.Is(err, daemon.ErrOpsListen) {
			return failure("the ops listener cannot listen there; choose another address with --ops-listen")
		}
		return err
	}
	doc, err := s.report(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	return a.print(doc, func(t *table) { showReport(t, doc) })
}

// trickle enqueues a healthy entry now and then.
func (s *stage) trickle(ctx context.Context, a *app) {
	ticker := time.NewTicker(devTrickle)
	defer ticker.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		next := s.samples[0].entry
		next.CorrelationID = fencerow.CorrelationID(fmt.Sprintf("fill-%d", 9000+n))
		next.CashDelta = decimal.New(int64(n%7)-3, 0)
		_, err := s.store.EnqueueMany(ctx, fencerow.EnqueueParams{
			Instance: s.instance, Entries: []fencerow.NewEntry{next},
		})
		if err != nil && ctx.Err() == nil {
			a.say("%s", textOf(err))
		}
	}
}
