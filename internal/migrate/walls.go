package migrate

import (
	"context"
	_ "embed" // for the statements

	"github.com/jackc/pgx/v5"

	"github.com/fourblocks2020/fencerow"
)

// wallsCame is the migration that brought the policies.
const wallsCame = 5

var (
	//go:embed sql/walls.sql
	wallsSQL string
	//go:embed sql/walled_roles.sql
	walledRolesSQL string
	//go:embed sql/unknown_roles.sql
	unknownRolesSQL string
	//go:embed sql/unmapped_roles.sql
	unmappedRolesSQL string
)

// Walls says how the walls between the instances stand after a call.
type Walls struct {
	Up      bool
	Changed int // tables whose row security was switched
	Roles   int // that are mapped to instances

	// What follows is looked at on the way up only.

	// Policies were missing and are there again.
	Policies []string
	// UnknownRoles are mapped to instances and do not exist; UnmappedRoles may log in and use one of the tables,
	// but are mapped to no instance and see nothing.
	UnknownRoles, UnmappedRoles []string
}

// SetWalls puts the walls between the instances up or down: it switches row-level security on the tables. It
// may be repeated. Each table is switched by itself, since holding several locked at once would end in
// deadlocks with claims and enqueues; a call that failed half-way is finished by another. On the way up it
// first creates what policies were dropped.
func SetWalls(ctx context.Context, dsn string, up bool) (Walls, error) {
	r, err := newRunner(dsn)
	if err != nil {
		return Walls{}, err
	}
	return r.setWalls(ctx, up)
}

func (r *runner) setWalls(ctx context.Context, up bool) (Walls, error) {
	walls := Walls{Up: up}
	err := r.locked(ctx, "set the walls", func(s *session) error {
		version, err := s.version(ctx)
		if err != nil {
			return err
		}
		if version < wallsCame {
			return s.older()
		}
		if up {
			if walls.Policies, err = s.restorePolicies(ctx, r.files, version); err != nil {
				return err
			}
		}
		rows, _ := s.conn.Query(ctx, wallsSQL, up) // CollectRows returns its error
		statements, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return s.failed(ctx, err)
		}
		for _, statement := range statements {
			if _, err := s.conn.Exec(ctx, statement); err != nil {
				return s.failed(ctx, err)
			}
			walls.Changed++
		}
		if err := s.conn.QueryRow(ctx, walledRolesSQL).Scan(&walls.Roles); err != nil {
			return s.failed(ctx, err)
		}
		if !up {
			return nil
		}
		if walls.UnknownRoles, err = s.names(ctx, unknownRolesSQL); err != nil {
			return err
		}
		walls.UnmappedRoles, err = s.names(ctx, unmappedRolesSQL)
		return err
	})
	return walls, err
}

func (s *session) older() error {
	return &Error{
		Hint:  "run \"fencerow migrate up\" first: the walls came with a later version",
		inner: fencerow.NewError(s.op, fencerow.ErrStoreSchema, nil),
	}
}
