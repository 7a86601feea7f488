package main

import (
	"context"

	"github.com/fourblocks2020/fencerow/internal/config"
	"github.com/fourblocks2020/fencerow/internal/migrate"
)

//nolint:lll // a struct tag cannot be wrapped
type migrateCmd struct {
	Up     migrateUpCmd     `cmd:"" help:"Run every migration that the database lacks."`
	Down   migrateDownCmd   `cmd:"" help:"Undo the migrations above a version, the newest first."`
	Status migrateStatusCmd `cmd:"" help:"Compare the database's version with this program's."`
	Verify migrateVerifyCmd `cmd:"" help:"Check the history that is built into this program, on scratch databases."`
	Walls  migrateWallsCmd  `cmd:"" help:"Put the walls between the instances up or down."`
}

type migrateUpCmd struct {
	Database config.Database `embed:""`
}

// Help says how it behaves beside others.
func (*migrateUpCmd) Help() string {
	return `Safe to run from many processes at once, and to run again: one of them migrates, and the others wait
for it, a minute at most. Connect to the server itself, not through a pooler.`
}

// Run migrates up.
func (c *migrateUpCmd) Run(ctx context.Context, a *app) error {
	dsn, err := c.Database.DSN()
	if err != nil {
		return err
	}
	change, err := migrate.Up(ctx, dsn.Reveal())
	if err != nil {
		return err
	}
	return a.printChange(change)
}

func (a *app) printChange(change migrate.Change) error {
	return a.print(migratedDoc(change), func(t *table) {
		if change.From == change.To {
			t.line("the schema is at version %d, as before", change.To)
		} else {
			t.line("the schema went from version %d to %d", change.From, change.To)
		}
	})
}

//nolint:lll // a struct tag cannot be wrapped
type migrateDownCmd struct {
	Database config.Database `embed:""`
	To       int             `name:"to" env:"FENCEROW_MIGRATE_TO" required:"" placeholder:"N" help:"The version to go down to."`
}

// Help says what is not undone.
func (*migrateDownCmd) Help() string {
	return `Entries are never given up. Going below version 2, which brought owners, is refused while owned
entries exist, and going to 0 while the outbox holds any entry. Nothing is undone then. Stop producers first:
what they enqueue while this runs is not looked at again.`
}

// Validate checks the version.
func (c *migrateDownCmd) Validate() error {
	if c.To < 0 {
		return usage("--to", "must not be negative")
	}
	return nil
}

// Run migrates down.
func (c *migrateDownCmd) Run(ctx context.Context, a *app) error {
	dsn, err := c.Database.DSN()
	if err != nil {
		return err
	}
	change, err := migrate.DownTo(ctx, dsn.Reveal(), c.To)
	if err != nil {
		return named("--to", err)
	}
	return a.printChange(change)
}

type migrateStatusCmd struct {
	Database config.Database `embed:""`
}

// Run shows the version.
func (c *migrateStatusCmd) Run(ctx context.Context, a *app) error {
	dsn, err := c.Database.DSN()
	if err != nil {
		return err
	}
	status, err := migrate.ReadStatus(ctx, dsn.Reveal())
	if err != nil {
		return err
	}
	doc := migrateStatusDoc{
		Current: status.Current, Latest: status.Latest, Newer: status.Newer(), Oldest: status.Oldest,
		Pending: []stepDoc{},
	}
	for _, step := range status.Pending {
		doc.Pending = append(doc.Pending, stepDoc(step))
	}
	return a.print(doc, func(t *table) {
		t.line("the schema is at version %d; the newest that this program knows is %d", doc.Current, doc.Latest)
		if doc.Newer {
			t.line("a newer fencerow migrated this database: use that one")
		}
		for _, step := range doc.Pending {
			t.line("  to do: %s", step.Name)
		}
		if len(doc.Pending) > 0 {
			t.line("afterwards programs built for version %d or a later one work with it", doc.Oldest)
		}
	})
}

type migrateVerifyCmd struct {
	Database config.Database `embed:""`
}

// Help says what is needed.
func (*migrateVerifyCmd) Help() string {
	return `Checks numbers and hashes of the migrations, and applies the history, both to an empty database and
to one with rows from before ownership, up, down and up again. For that it makes databases on the server and
drops them: the role needs CREATEDB. The database of the connection string is not touched.`
}

// Run verifies.
func (c *migrateVerifyCmd) Run(ctx context.Context, a *app) error {
	dsn, err := c.Database.DSN()
	if err != nil {
		return err
	}
	found, err := migrate.Verify(ctx, dsn.Reveal())
	if err != nil {
		return err
	}
	doc := migrateVerifyDoc{Latest: found.Latest, Checks: []string{}}
	for _, check := range found.Checks {
		doc.Checks = append(doc.Checks, string(check))
	}
	return a.print(doc, func(t *table) {
		t.line("the history up to version %d is in order", doc.Latest)
		for _, check := range doc.Checks {
			t.line("  ok: %s", check)
		}
	})
}

type migrateWallsCmd struct {
	Database config.Database `embed:""`
	State    string          `arg:"" name:"state" help:"up or down."`
}

// Help says what the walls are and what must come first.
func (*migrateWallsCmd) Help() string {
	return `Up, the database lets a role see and change only the rows of the instances that fencerow.ledger_role
gives it, whatever statement it sends; a role without a row there sees nothing. So give each its instances
first: who was forgotten or misspelt is told. Up also creates policies that were dropped. The owner of the
tables and superusers are not bound. Run it as the owner; it may be repeated.`
}

// Validate checks the state.
func (c *migrateWallsCmd) Validate() error {
	if c.State != wallsUp && c.State != wallsDown {
		return usage("<state>", "must be up or down")
	}
	return nil
}

const (
	wallsUp   = "up"
	wallsDown = "down"
)

// Run switches the walls.
func (c *migrateWallsCmd) Run(ctx context.Context, a *app) error {
	dsn, err := c.Database.DSN()
	if err != nil {
		return err
	}
	walls, err := migrate.SetWalls(ctx, dsn.Reveal(), c.State == wallsUp)
	if err != nil {
		return err
	}
	doc := migrateWallsDoc{
		Walls: c.State, Changed: walls.Changed, Roles: walls.Roles, Policies: orNone(walls.Policies),
		Unknown: orNone(walls.UnknownRoles), Unmapped: orNone(walls.UnmappedRoles),
	}
	return a.print(doc, func(t *table) {
		t.line("the walls are %s; %d tables were switched", doc.Walls, doc.Changed)
		if walls.Up {
			t.line("%d roles have instances", doc.Roles)
		}
		for _, policy := range doc.Policies {
			t.line("policy %s was missing and is there again", policy)
		}
		for _, role := range doc.Unknown {
			t.line("warning: fencerow.ledger_role gives instances to %s, and there is no such role", role)
		}
		for _, role := range doc.Unmapped {
			t.line("warning: %s has no instance in fencerow.ledger_role and sees nothing", role)
		}
	})
}

// orNone makes a list that is empty one that JSON shows as such.
func orNone(names []string) []string { return append([]string{}, names...) }
