package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/observe"
	"github.com/fourblocks2020/fencerow/internal/writer"
)

// tick polls once an interval until ctx ends; the first time at once. The error is one that no later tick
// would mend.
func (d *Daemon) tick(ctx context.Context) error {
	ticker := time.NewTicker(d.cfg.Interval)
	defer ticker.Stop()
	for prepared := false; ; {
		d.state.beat()
		if !prepared {
			var err error
			if prepared, err = d.prepare(ctx); err != nil {
				return err
			}
		}
		if prepared && ctx.Err() == nil {
			d.poll(ctx, true)
		}
		d.state.beat()
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// followUp polls whenever the writer says that it is worth while before the next tick.
func (d *Daemon) followUp(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.cfg.Writer.Wake():
		case <-d.resumed:
		}
		if d.state.mayFollowUp() {
			d.poll(ctx, false)
		}
	}
}

// prepare checks the schema and registers the instance, and reports whether both are done.
func (d *Daemon) prepare(ctx context.Context) (done bool, fatal error) {
	var version fencerow.SchemaVersion
	err := d.guard(ctx, func() (err error) {
		if version, err = d.cfg.Store.Ready(ctx); err != nil {
			return err
		}
		return d.cfg.Store.Register(ctx, d.obs.Instance())
	})
	switch {
	case err == nil:
		d.state.prepare()
		d.notify.send("READY=1")
		return true, nil
	case errors.Is(err, fencerow.ErrStoreSchema):
		return false, &SchemaError{Found: version}
	case ctx.Err() != nil:
		return false, nil //nolint:nilerr // guard has logged it, unless it only says that ctx ended
	}
	if d.state.pollFailed() == 1 {
		d.obs.Notify(observe.NoticeNotReady)
	}
	d.notify.extendStart(2*d.cfg.Interval + maxPoll)
	return false, nil
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
func (d *Daemon) poll(ctx context.Context, ticked bool) {
	before := d.state.pollBegins(ticked)
	var res writer.PollResult
	err := d.guard(ctx, func() (err error) {
		res, err = d.cfg.Writer.Poll(ctx)
		return err
	})
	if err != nil {
		d.state.pollFailed()
		return
	}
	switch res.Skipped {
	case writer.SkippedStoreBusy:
		if d.state.storeBusy() {
			d.obs.StoreBusy()
		}
		return
	case "", writer.SkippedInstanceHeld:
		if d.state.storeAnswered() {
			d.obs.StoreFree()
		}
	case writer.SkippedNoRoom, writer.SkippedTargetHeld, writer.SkippedStopping: // The store was not asked.
	}
	if d.state.pollGood(ticked, before) {
		select {
		case d.resumed <- struct{}{}:
		default:
		}
	}
}

// errPanicked stands for a panic, which is logged where it is met.
var errPanicked = errors.New("panicked")

// guard calls fn and logs its error or panic, but for an error that only says that ctx ended.
func (d *Daemon) guard(ctx context.Context, fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			d.obs.LoopPanic(v)
			err = errPanicked
		}
	}()
	err = fn()
	if stopped := ctx.Err() != nil && errors.Is(err, context.Canceled); err != nil && !stopped {
		d.obs.LoopFailure(err)
	}
	return err
}
