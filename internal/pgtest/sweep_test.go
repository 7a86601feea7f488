package pgtest

import (
	"context"
	"testing"
)

func TestWhatDeadRunsLeftIsDroppedAndTheLivingAreSpared(t *testing.T) {
	t.Parallel()
	observer := NewDatabase(t, nil).Connect(t)
	there := func(name string) bool {
		t.Helper()
		return count(t, observer, `
SELECT (SELECT count(*) FROM pg_database WHERE datname = $1)
    + (SELECT count(*) FROM pg_roles WHERE rolname = $1)`, name) > 0
	}
	// A run of its own, with a template, a database and a role that owns something in it.
	run := func() (*server, []string) {
		t.Helper()
		s, err := openServer(t.Context(), sharedServer(t).dsn)
		if err != nil {
			t.Fatal(err)
		}
		d := &Database{Name: s.newName(), server: s}
		if err := s.exec(createEmpty(d.Name)); err != nil {
			t.Fatal(err)
		}
		role := d.NewRole(t, nil)
		d.Exec(t, "CREATE SCHEMA owned AUTHORIZATION "+quote(role.Name))
		return s, []string{d.Name, role.Name}
	}

	dead, left := run()
	if err := dead.lease.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	living, kept := run() // sweeps as it begins
	t.Cleanup(func() {
		_ = living.lease.Close(context.Background())
		if err := living.exec("DROP DATABASE "+quote(kept[0]), "DROP ROLE "+quote(kept[1])); err != nil {
			t.Error(err)
		}
	})
	if _, err := openServer(t.Context(), sharedServer(t).dsn); err != nil {
		t.Fatal(err)
	}
	for _, name := range left {
		if there(name) {
			t.Errorf("%s of a dead run is still there", name)
		}
	}
	for _, name := range kept {
		if !there(name) {
			t.Errorf("%s of a living run is gone", name)
		}
	}
}
