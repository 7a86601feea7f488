package memstore

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/storetest"
)

// harness makes worlds in memory. wrap, if set, takes a guard out of each store that is opened.
type harness struct {
	wrap func(*Store) fencerow.Store
}

func (h harness) World(storetest.TB) storetest.World {
	w := &world{wrap: h.wrap}
	w.nanos.Store(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixMicro() * 1000)
	w.first = New(Options{Now: func() time.Time { return time.Unix(0, w.nanos.Load()) }})
	return w
}

// world is a store whose clock stands still but for Advance.
type world struct {
	wrap  func(*Store) fencerow.Store
	first *Store
	nanos atomic.Int64 // the clock, in nanoseconds since 1970
	keys  atomic.Int64
}

func (w *world) Open() fencerow.Store {
	s := w.first.Reopen()
	if w.wrap == nil {
		return s
	}
	return w.wrap(s)
}

func (w *world) Instance() fencerow.InstanceKey {
	return fencerow.InstanceKey(fmt.Sprintf("instance-%d", w.keys.Add(1)))
}

func (w *world) Advance(d time.Duration) { w.nanos.Add(int64(d)) }

func (w *world) DeleteEntry(key fencerow.InstanceKey, id fencerow.OutboxID) {
	w.row(key, id, func(in *instance, r *row) {
		if r.claim != nil {
			in.letGo(r.claim, r)
		}
		delete(in.rows, id)
		delete(in.pending, id)
		delete(in.byKey, r.entry.CorrelationID)
	})
}

func (w *world) SetLastEpoch(key fencerow.InstanceKey, id fencerow.OutboxID, epoch fencerow.ClaimEpoch) {
	w.row(key, id, func(_ *instance, r *row) { r.pending.lastEpoch = epoch })
}

func (w *world) SetAttempts(key fencerow.InstanceKey, id fencerow.OutboxID, attempts int) {
	w.row(key, id, func(_ *instance, r *row) { r.pending.attempts = attempts })
}

func (w *world) row(key fencerow.InstanceKey, id fencerow.OutboxID, change func(*instance, *row)) {
	d := w.first.data
	d.mu.Lock()
	defer d.mu.Unlock()
	in := d.instance(key)
	change(in, in.rows[id])
}
