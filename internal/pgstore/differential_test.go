package pgstore

import (
	"testing"

	"github.com/fourblocks2020/fencerow/internal/pgtest"
	"github.com/fourblocks2020/fencerow/internal/storetest"
	"github.com/fourblocks2020/fencerow/internal/storetest/memworld"
)

// The memory store and this one answer every sequence of calls alike. The database's clock stands still, so
// that a slow machine is no difference. The floor is off: for up to a second it may pass over a row that
// another process put below it, and the comparison is of each row.
func TestDifferential(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, frozenSchema)
	h := newHarness(t, frozenDSN(database), database.DSN(), func(s *Store) {
		keepPath(s)
		s.floorAge = 0
	}).handsOn(t)
	storetest.Differential(t, memworld.New, func(t storetest.TB) storetest.World {
		return &frozenWorld{newWorld(t, h)}
	})
}
