package pgstore

import (
	"errors"
	"sync"
	"testing"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

// A password that is replaced counts for the next connection, without a new store. A DSN that cannot be read
// for a moment, as while its file is written, costs nothing.
func TestRotatedPasswordCountsForTheNextConnection(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, schema)
	role := database.NewRole(t, nil)
	database.Exec(t, `GRANT USAGE ON SCHEMA fencerow TO "`+role.Name+`"`)
	database.Exec(t, `GRANT SELECT ON fencerow.schema_version TO "`+role.Name+`"`)
	var mu sync.Mutex
	dsn, failure := database.DSN(pgtest.As(role)), error(nil)
	is := func(now string, err error) {
		mu.Lock()
		defer mu.Unlock()
		dsn, failure = now, err
	}
	store, err := Open(Config{DSN: fencerow.NewSecret(dsn), Current: func() (fencerow.Secret, error) {
		mu.Lock()
		defer mu.Unlock()
		return fencerow.NewSecret(dsn), failure
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	ready := func(when string, want error) {
		t.Helper()
		store.pool.Reset() // so that the next call makes a connection
		if _, err := store.Ready(t.Context()); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", when, err, want)
		}
	}
	ready("at the start", nil)
	role.Password = "n3w/@ #%" + role.Password
	database.Exec(t, `ALTER ROLE "`+role.Name+`" PASSWORD '`+role.Password+`'`)
	ready("before the DSN has the new password", fencerow.ErrStoreCredentials)
	is(database.DSN(pgtest.As(role)), nil)
	ready("after", nil)
	is("", fencerow.ErrInvalidInput)
	ready("while the DSN cannot be read", nil)
	is("postgres://%zz", nil)
	ready("while the DSN is none", nil)
}
