// Package memstore is a [fencerow.Store] in memory: one mutex, an injected clock, and the meaning of the
// PostgreSQL store to the letter, since both pass internal/storetest. It serves `fencerow dev` and tests;
// nothing survives the process.
package memstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// schemaVersion is what Ready reports: there is no schema in memory, hence no migration either.
const schemaVersion fencerow.SchemaVersion = 0

// Options configure a store. The zero value is ready to use.
type Options struct {
	// Now is the store's clock, [time.Now] if nil. It decides what is due and what has expired, as the
	// database's clock does, and is cut to microseconds, as the database's is. It is called under the store's
	// mutex.
	Now func() time.Time
}

// Store keeps entries in memory. It is one process's view of its data: see [Store.Reopen].
type Store struct {
	data *data
	// seen is the highest epoch that this process has been given; data.mu guards it.
	seen fencerow.ClaimEpoch
}

var _ fencerow.Store = (*Store)(nil)

// New returns an empty store.
func New(o Options) *Store {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Store{data: &data{clock: o.Now, instances: make(map[fencerow.InstanceKey]*instance)}}
}

// Reopen returns another store on the same data, as another process would open it: what this process
// remembers of epochs is not shared.
func (s *Store) Reopen() *Store { return &Store{data: s.data} }

// Close makes every later call on the data, through any handle, fail with [fencerow.ErrStoreUnavailable]. It
// can be called repeatedly.
func (s *Store) Close() {
	s.data.mu.Lock()
	defer s.data.mu.Unlock()
	s.data.closed = true
}

// begin locks the data for op and reads the clock once: one call has one now. The caller unlocks unless it
// gets an error.
func (s *Store) begin(ctx context.Context, op string) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		code := fencerow.ErrStoreUnavailable
		if errors.Is(err, context.DeadlineExceeded) {
			code = fencerow.ErrStoreTimeout
		}
		return time.Time{}, fencerow.NewError(op, code, err)
	}
	s.data.mu.Lock()
	if s.data.closed {
		s.data.mu.Unlock()
		return time.Time{}, fencerow.NewError(op, fencerow.ErrStoreUnavailable, nil)
	}
	return s.data.clock().UTC().Truncate(time.Microsecond), nil
}

func (s *Store) end() { s.data.mu.Unlock() }

// Ready implements [fencerow.Viewer]: an open store is ready.
func (s *Store) Ready(ctx context.Context) (fencerow.SchemaVersion, error) {
	if _, err := s.begin(ctx, "ready"); err != nil {
		return 0, err
	}
	defer s.end()
	return schemaVersion, nil
}

// LegacyCount implements [fencerow.Viewer]: every entry in memory has an owner.
func (s *Store) LegacyCount(ctx context.Context) (int64, error) {
	if _, err := s.begin(ctx, "count legacy entries"); err != nil {
		return 0, err
	}
	defer s.end()
	return 0, nil
}

// LegacyExport implements [fencerow.Viewer]: every entry in memory has an owner.
func (s *Store) LegacyExport(ctx context.Context, correlationID string) ([]fencerow.LegacyEntry, error) {
	if err := fencerow.ValidateLegacyID(correlationID); err != nil {
		return nil, err
	}
	if _, err := s.begin(ctx, "export legacy entries"); err != nil {
		return nil, err
	}
	defer s.end()
	return nil, nil
}

// data is what all handles share.
type data struct {
	mu        sync.Mutex
	clock     func() time.Time
	closed    bool
	lastID    fencerow.OutboxID
	instances map[fencerow.InstanceKey]*instance
}
