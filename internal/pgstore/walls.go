package pgstore

import (
	"context"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/db"
)

// Walls says how the walls between the instances stand, and the store's role beside them.
type Walls struct {
	// Tables is how many tables have a wall; Up how many of those are up.
	Tables, Up int
	// Unguarded tables lack their policy, so that nobody bound sees a row of them; Widened ones have another
	// policy, which lets more through.
	Unguarded, Widened int
	// Unbound says that the role owns the tables or overrides row security.
	Unbound bool
	// Mapped says that the role works for the instance that was asked about.
	Mapped bool
	// Strangers is how many login roles may enqueue but work for no instance; zero where the role may not know.
	Strangers int
}

// Walls looks at the walls. It judges nothing.
func (s *Store) Walls(ctx context.Context, instance fencerow.InstanceKey) (Walls, error) {
	if err := instance.Validate(); err != nil {
		return Walls{}, err
	}
	var row db.DoctorWallsRow
	err := s.view(ctx, "look at the walls", func(ctx context.Context, q *db.Queries) error {
		var err error
		row, err = q.DoctorWalls(ctx, string(instance))
		return err
	})
	return Walls{
		Tables: int(row.Tables), Up: int(row.Up), Unguarded: int(row.Unguarded), Widened: int(row.Widened),
		Unbound: row.Unbound, Mapped: row.Mapped, Strangers: int(row.Strangers),
	}, err
}
