package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
)

// patience bounds every wait for something that comes much sooner.
const patience = time.Minute

// Rule names what was broken. The vocabulary is closed.
type Rule string

// violation is one thing that must not be, and was.
type violation struct {
	rule Rule
	text string
}

// maxViolations bounds what is kept of each rule; all are counted.
const maxViolations = 5

// run is one run and its bookkeeping.
type run struct {
	cfg      Config
	dir      string
	plan     Plan
	programs *programs
	database *database
	ledger   *ledger
	operator *operator
	daemons  [][]*daemon
	began    time.Time
	special  int // one in so many entries is of a class of its own
	foreign  []string
	legacy   []string
	enqueued []atomic.Int64 // entries of each instance, committed

	retries, asked, answered, requeued atomic.Int64

	mu         sync.Mutex
	happenings []Happening
	commands   []*process
	found      []violation
	broken     map[Rule]int
}

func ledgerURL(address string) string { return "http://" + address + ledgerstub.EntriesPath }

// note tells how the run goes.
func (r *run) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.cfg.Log, "%7.1fs "+format+"\n", append([]any{time.Since(r.began).Seconds()}, args...)...)
}

// violate notes that a rule was broken.
func (r *run) violate(rule Rule, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken[rule]++
	if r.broken[rule] <= maxViolations {
		r.found = append(r.found, violation{rule, fmt.Sprintf(format, args...)})
	}
}

func (r *run) commanded(p *process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.commands = append(r.commands, p)
}

func (r *run) happened(h Happening, err error) {
	if err != nil {
		r.note("%s: not as planned: %v", h.Fault, err)
	} else {
		r.note("over: %s", h.Fault)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.happenings = append(r.happenings, h)
}

// Run makes a run. The error says that the run could not be made; what the run found is in the report.
func Run(ctx context.Context, c Config) (*Report, error) {
	c = c.Defaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "fencerow-faults-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a temporary folder
	r := &run{
		cfg: c, dir: dir, plan: NewPlan(c), began: time.Now(), broken: map[Rule]int{},
		special: min(1000, max(100, c.Entries/400)), enqueued: make([]atomic.Int64, c.Instances),
	}
	defer r.close()
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	r.rage(ctx)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return r.check(ctx)
}

func (r *run) prepare(ctx context.Context) error {
	var err error
	r.note("building")
	if r.programs, err = build(ctx, r.cfg, r.dir); err != nil {
		return err
	}
	if r.database, r.legacy, err = newDatabase(ctx, r.programs.root); err != nil {
		return err
	}
	if err := seedForeign(ctx, r.database); err != nil {
		return err
	}
	if r.foreign, err = r.database.texts(ctx, foreignSQL, foreignKey); err != nil {
		return err
	}
	if r.ledger, err = newLedger(filepath.Join(r.dir, "token")); err != nil {
		return err
	}
	r.operator = newOperator(r)
	for i := range r.cfg.Instances {
		r.daemons = append(r.daemons, nil)
		for n := range r.cfg.Daemons {
			d, err := newDaemon(r, i, n)
			if err != nil {
				return err
			}
			r.daemons[i] = append(r.daemons[i], d)
			if err := d.start(); err != nil {
				return err
			}
		}
	}
	return nil
}

// rage lets things go wrong for the time given, and returns when everything is delivered after that.
func (r *run) rage(ctx context.Context) {
	r.began = time.Now()
	r.note("seed %d: %d faults, %d entries, %d instances of %d daemons",
		r.cfg.Seed, len(r.plan), r.cfg.Entries, r.cfg.Instances, r.cfg.Daemons)
	supervised, stopSupervising := context.WithCancel(ctx)
	var supervising, producing, operating, failing sync.WaitGroup
	r.each(func(d *daemon) { supervising.Go(func() { d.supervise(supervised) }) })
	for i := range r.cfg.Instances {
		share := (r.cfg.Entries + i) / r.cfg.Instances
		p := producer{r: r, instance: i, share: share, random: r.random(uint64(i))}
		producing.Go(func() { p.run(ctx) })
	}
	asking, stopAsking := context.WithCancel(ctx)
	operating.Go(func() { r.operator.ask(asking, r.random(100)) })
	operating.Go(func() { r.operator.process(asking, r.random(101)) })
	seeing, stopSeeing := context.WithCancel(ctx)
	operating.Go(func() { r.operator.requeue(seeing, r.random(102)) })
	for _, f := range r.plan {
		if !sleep(ctx, f.At-time.Since(r.began)) {
			break
		}
		failing.Go(func() { r.inject(ctx, f) })
	}
	sleep(ctx, r.cfg.Duration-time.Since(r.began))
	failing.Wait()
	r.note("nothing goes wrong any more")
	stopAsking()
	producing.Wait()
	r.awaitDrained(ctx)
	stopSeeing()
	operating.Wait()
	stopSupervising()
	supervising.Wait()
}

// random is a source of its own for each use, by the seed.
func (r *run) random(use uint64) *rand.Rand {
	return rand.New(rand.NewPCG(r.cfg.Seed, use)) //nolint:gosec // a seed must give the same choices again
}

func (r *run) each(f func(*daemon)) {
	for _, instance := range r.daemons {
		for _, d := range instance {
			f(d)
		}
	}
}

// leftSQL is what is still to be done, by instance: rows that are pending, claims that stand, and entries
// that an operator has not seen to.
const leftSQL = `
SELECT format('%s: %s pending, %s claims, %s parked', i.instance_key,
    (SELECT count(*) FROM fencerow.ledger_pending p WHERE p.instance_key = i.instance_key),
    (SELECT count(*) FROM fencerow.ledger_claim c WHERE c.instance_key = i.instance_key),
    (
        SELECT count(*)
        FROM fencerow.ledger_outcome f
        JOIN fencerow.ledger_outbox o ON o.outbox_id = f.outbox_id
        WHERE f.instance_key = i.instance_key
            AND f.status <> 'completed'
            AND (o.correlation_id LIKE '%-repaired' OR o.correlation_id LIKE '%-locked')
            AND NOT EXISTS (
                SELECT FROM fencerow.ledger_outcome l WHERE l.outbox_id = f.outbox_id AND l.life > f.life
            )
    ))
FROM fencerow.ledger_instance i
WHERE i.instance_key <> '` + foreignKey + `'
ORDER BY i.instance_key`

// awaitDrained returns when nothing is left to be done, or when nothing more is done.
func (r *run) awaitDrained(ctx context.Context) {
	still := 10*r.cfg.Lease + 20*time.Second
	done := fmt.Sprint(r.nothingLeft())
	last, since := "", time.Now()
	for ctx.Err() == nil {
		left, err := r.database.texts(ctx, leftSQL)
		if err != nil {
			r.note("what is left: %v", err)
		}
		state := fmt.Sprint(left)
		if state == done {
			return
		}
		if state != last {
			last, since = state, time.Now()
		}
		if time.Since(since) > still {
			r.violate(RuleUnfinished, "nothing changes any more: %s", state)
			return
		}
		sleep(ctx, 10*glance)
	}
}

func (r *run) nothingLeft() []string {
	var lines []string
	for i := range r.cfg.Instances {
		lines = append(lines, instanceKey(i)+": 0 pending, 0 claims, 0 parked")
	}
	return lines
}

// stopDaemons ends every daemon in order.
func (r *run) stopDaemons() {
	var stopping sync.WaitGroup
	r.each(func(d *daemon) {
		stopping.Go(func() {
			p := d.current()
			if !p.alive() {
				return
			}
			p.signal(syscall.SIGTERM)
			if !p.over(stopWithin) {
				r.violate(RuleStop, "%s did not end within %s of SIGTERM", p.worker, stopWithin)
			}
		})
	})
	stopping.Wait()
}

func (r *run) close() {
	r.each(func(d *daemon) {
		for _, p := range d.all {
			if p.alive() {
				p.signal(syscall.SIGKILL)
				<-p.ended
			}
		}
	})
	r.each(func(d *daemon) {
		d.database.close()
		d.ledger.close()
	})
	if r.ledger != nil {
		_ = r.ledger.close() // its journal was read
	}
	if r.database != nil {
		r.database.close()
	}
}
