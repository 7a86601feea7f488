// Package memworld is the memory store as one side of [storetest.Differential], for the tests of other
// stores. It works by the store's public methods alone.
package memworld

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/memstore"
	"github.com/fourblocks2020/fencerow/internal/storetest"
)

// World is a memory store whose clock stands still but for [World.Advance].
type World struct {
	t     storetest.TB
	store *memstore.Store
	nanos atomic.Int64 // the clock, since 1970
	keys  atomic.Int64
}

var _ storetest.Twin = (*World)(nil)

// New returns an empty world.
func New(t storetest.TB) *World {
	w := &World{t: t}
	w.nanos.Store(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixNano())
	w.store = memstore.New(memstore.Options{Now: func() time.Time { return time.Unix(0, w.nanos.Load()) }})
	return w
}

// Open implements [storetest.Twin].
func (w *World) Open() fencerow.Store { return w.store.Reopen() }

// Instance implements [storetest.Twin].
func (w *World) Instance() fencerow.InstanceKey {
	return fencerow.InstanceKey(fmt.Sprintf("instance-%d", w.keys.Add(1)))
}

// Advance implements [storetest.Twin].
func (w *World) Advance(d time.Duration) { w.nanos.Add(int64(d)) }

// SetLastEpoch implements [storetest.Twin] in the way in which it happens: the clock is ahead while the row
// is claimed and given back, and is then stepped back. A hold is lifted meanwhile.
func (w *World) SetLastEpoch(key fencerow.InstanceKey, id fencerow.OutboxID, epoch fencerow.ClaimEpoch) {
	w.t.Helper()
	ctx, process := w.t.Context(), w.store.Reopen()
	listed, err := process.ListPending(ctx, fencerow.ListPendingParams{Instance: key, Limit: fencerow.MaxPage})
	w.noError(err)
	held, err := process.Resume(ctx, key)
	w.noError(err)
	before := w.nanos.Swap(int64(epoch) * 1000)
	for i := range listed {
		if listed[i].OutboxID != id {
			continue
		}
		claim, err := process.ClaimOne(ctx, fencerow.ClaimOneParams{
			Instance: key, Worker: "ahead", Token: fencerow.NewClaimToken(), CorrelationID: listed[i].CorrelationID,
			Lease: fencerow.MinLease, ForceDue: true,
		})
		w.noError(err)
		_, err = process.Release(ctx, fencerow.ReleaseParams{Instance: key, Token: claim.Token, All: true})
		w.noError(err)
	}
	w.nanos.Store(before)
	if held {
		_, err := process.Hold(ctx, key)
		w.noError(err)
	}
}

func (w *World) noError(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("set the last epoch: %v", err)
	}
}
