package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/observe"
	"github.com/fourblocks2020/fencerow/internal/writer"
)

// poller polls by one writer. Those of a daemon work side by side, each with a cadence of its own.
type poller struct {
	d      *Daemon
	writer Writer
	state  pollState
	// resumed asks for a follow-up; its capacity is 1.
	resumed chan struct{}
}

// work prepares the database, trying once an interval and the first time at once, and then polls by every
// writer until ctx ends. The error is one that trying again would not mend.
func (d *Daemon) work(ctx context.Context) error {
	ticker := time.NewTicker(d.cfg.Interval)
	defer ticker.Stop()
	for {
		d.pollers[0].state.beat()
		prepared, err := d.prepare(ctx)
		if err != nil {
			return err
		}
		if prepared {
			break
		}
		d.pollers[0].state.beat()
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
	var polling sync.WaitGroup
	for i, p := range d.pollers {
		// Spread over the interval, an entry waits the less for its first poll the more writers there are.
		offset := d.cfg.Interval * time.Duration(i) / time.Duration(len(d.pollers))
		polling.Go(func() { p.tick(ctx, offset) })
		polling.Go(func() { p.followUp(ctx) })
	}
	polling.Wait()
	return nil
}

// tick polls once an interval until ctx ends, the first time after the offset.
func (p *poller) tick(ctx context.Context, offset time.Duration) {
	if offset > 0 {
		first := time.NewTimer(offset)
		defer first.Stop()
		select {
		case <-ctx.Done():
			return
		case <-first.C:
		}
	}
	ticker := time.NewTicker(p.d.cfg.Interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		p.state.beat()
		p.poll(ctx, true)
		p.state.beat()
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// followUp polls whenever the writer says that it is worth while before the next tick.
func (p *poller) followUp(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.writer.Wake():
		case <-p.resumed:
		}
		if p.state.mayFollowUp() {
			p.poll(ctx, false)
		}
	}
}

// prepare checks the schema and registers the instance, and reports whether both are done.
func (d *Daemon) prepare(ctx context.Context) (done bool, fatal error) {
	var version fencerow.SchemaVersion
	err := d.guard(ctx, d.startFailed, func() (err error) {
		if version, err = d.cfg.Store.Ready(ctx); err != nil {
			return err
		}
		return d.cfg.Store.Register(ctx, d.obs.Instance())
	})
	switch {
	case err == nil:
		for _, p := range d.pollers {
			p.state.prepare()
		}
		d.restored()
		d.notify.send("READY=1")
		return true, nil
	case errors.Is(err, fencerow.ErrStoreSchema):
		return false, &SchemaError{Found: version}
	case errors.Is(err, fencerow.ErrStoreSetting): // The DSN is not read again but for user and password.
		return false, err
	case ctx.Err() != nil:
		return false, nil //nolint:nilerr // guard has logged it, unless it only says that ctx ended
	}
	if d.failed(d.pollers[0], err) == 1 {
		d.obs.NotReady(storeCode(err))
	}
	d.notify.extendStart(2*d.cfg.Interval + maxPoll)
	return false, nil
}

// startFailed logs what kept the database from being prepared, if it is not what did so before. It is called
// by one goroutine.
func (d *Daemon) startFailed(cause any) {
	if excType := observe.ExcType(cause); excType != d.startFailure {
		d.startFailure = excType
		d.obs.StartFailed(excType)
	}
}

// SchemaError says that the database's schema is not one that this build works with.
type SchemaError struct {
	// Found is the version that the database has; 0 if there is none.
	Found fencerow.SchemaVersion
}

// Error says what to do.
func (e *SchemaError) Error() string {
	if e.Found == 0 {
		return "the database has no fencerow schema that this program can read: run fencerow migrate up"
	}
	return fmt.Sprintf("the database's schema, version %d, is not one that this program works with: "+
		"run fencerow migrate up, or the program that belongs to it", e.Found)
}

// Is reports whether target is [fencerow.ErrStoreSchema].
func (e *SchemaError) Is(target error) bool { return target == fencerow.ErrStoreSchema }

// poll is one poll, of a tick or between two.
func (p *poller) poll(ctx context.Context, ticked bool) {
	before := p.state.pollBegins(ticked)
	var res writer.PollResult
	err := p.d.guard(ctx, p.d.obs.PollFailed, func() (err error) {
		res, err = p.writer.Poll(ctx)
		return err
	})
	if err != nil {
		if stopped := ctx.Err() != nil && errors.Is(err, context.Canceled); !stopped {
			p.d.failed(p, err)
		}
		return
	}
	p.d.answered(res.Skipped)
	switch res.Skipped {
	case writer.SkippedStoreBusy:
		if p.d.state.storeBusy() {
			p.d.obs.StoreBusy()
		}
		return
	case "", writer.SkippedInstanceHeld:
		if p.d.state.storeAnswered() {
			p.d.obs.StoreFree()
		}
	case writer.SkippedNoRoom, writer.SkippedTargetHeld, writer.SkippedStopping: // The store was not asked.
	}
	followUp := p.state.pollGood(ticked, before)
	p.d.restored()
	if followUp {
		select {
		case p.resumed <- struct{}{}:
		default:
		}
	}
}

// failed notes a failed poll of one writer and returns how many it had in a row. Several in a row are told
// once, until polls are good again.
func (d *Daemon) failed(p *poller, err error) (inARow int) {
	d.changes.Lock()
	defer d.changes.Unlock()
	inARow = p.state.pollFailed()
	if inARow >= maxFailed && d.state.fails() {
		d.obs.StoreFailing(storeCode(err))
	}
	return inARow
}

// restored notes that a poll was good, or the database prepared. The trouble is over when no writer has it.
func (d *Daemon) restored() {
	d.changes.Lock()
	defer d.changes.Unlock()
	for _, p := range d.pollers {
		if why, _, _ := p.state.polls(); why == NotReadyFailing {
			return
		}
	}
	if d.state.fine() {
		d.obs.StoreRestored()
	}
}

// answered notes whether the store, if it was asked, called the instance held.
func (d *Daemon) answered(skipped writer.SkipReason) {
	switch skipped {
	case "", writer.SkippedInstanceHeld:
		d.changes.Lock()
		defer d.changes.Unlock()
		held := skipped == writer.SkippedInstanceHeld
		switch changed := d.state.instance(held); {
		case changed && held:
			d.obs.InstanceHeld()
		case changed:
			d.obs.InstanceResumed()
		}
	case writer.SkippedStoreBusy, writer.SkippedNoRoom, writer.SkippedTargetHeld, writer.SkippedStopping:
	}
}

// storeCode returns the code of a store's error, or nothing if it is none.
func storeCode(err error) fencerow.Code {
	if own, ok := errors.AsType[*fencerow.Error](err); ok {
		return own.Code()
	}
	return ""
}

// errPanicked stands for a panic, which is logged where it is met.
var errPanicked = errors.New("panicked")

// guard calls fn and tells its error, or the value of its panic, but not an error that only says that ctx
// ended.
func (d *Daemon) guard(ctx context.Context, tell func(cause any), fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			tell(v)
			err = errPanicked
		}
	}()
	err = fn()
	if stopped := ctx.Err() != nil && errors.Is(err, context.Canceled); err != nil && !stopped {
		tell(err)
	}
	return err
}
