package config

import (
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/pgstore"
)

const (
	// DSNVariable names the variable that holds the connection string.
	DSNVariable = variablePrefix + "DSN"

	maxConns = 1000

	minStoreTimeout, maxStoreTimeout = 100 * time.Millisecond, time.Minute
)

// Database says where the database is.
//
//nolint:lll // a struct tag cannot be wrapped
type Database struct {
	DSNFile      string        `name:"dsn-file" env:"FENCEROW_DSN_FILE" placeholder:"FILE" group:"Database" help:"File that holds the PostgreSQL connection string. Without it the variable FENCEROW_DSN holds the string; there is no flag for it. User and password are read again for each connection."`
	MaxConns     int32         `name:"db-max-conns" env:"FENCEROW_DB_MAX_CONNS" default:"8" group:"Database" help:"Connections at most, 1 to 1000."`
	StoreTimeout time.Duration `name:"store-timeout" env:"FENCEROW_STORE_TIMEOUT" default:"2s" group:"Database" help:"Bound of a statement, of a wait for a lock, and of connecting; 100ms to 1m."`
}

// Validate refuses values out of bounds. Whether there is a connection string at all is found out by
// [Database.DSN].
func (d *Database) Validate() error {
	if d.MaxConns < 1 || d.MaxConns > maxConns {
		return inputError("db_max_conns", "must be from 1 to 1000")
	}
	if d.StoreTimeout < minStoreTimeout || d.StoreTimeout > maxStoreTimeout {
		return inputError("store_timeout", "must be from 100ms to 1m")
	}
	return notBoth(DSNVariable, "dsn_file", d.DSNFile)
}

// Given reports whether a connection string was given.
func (d *Database) Given() bool { return d.DSNFile != "" || content(DSNVariable) != "" }

// DSN returns the connection string, which parses. The error is an [*fencerow.InputError], or of code
// ErrDSNInvalid if all that can be said is that it is no connection string.
func (d *Database) DSN() (fencerow.Secret, error) {
	dsn, err := readUnlistable(DSNVariable, "dsn_file", d.DSNFile)
	if err != nil {
		return dsn, err
	}
	if !dsn.IsZero() {
		return dsn, checkDSN(dsn)
	}
	return fencerow.Secret{}, &fencerow.InputError{Field: DSNVariable,
		Problem: "is missing; it holds the PostgreSQL connection " +
			"string, or --dsn-file (" + variablePrefix + "DSN_FILE) names a file that does"}
}

// Within returns the settings for work under claims of the given lease: what locks is bounded well below it,
// at a fifth, so that whoever is stopped with a lock is gone before the lease is.
func (d Database) Within(lease time.Duration) *Database {
	d.StoreTimeout = min(d.StoreTimeout, max(lease/5, minStoreTimeout))
	return &d
}

// Open makes the store. It opens no connection. The application name is what pg_stat_activity shows. The
// caller closes the store.
func (d *Database) Open(application string) (*pgstore.Store, error) {
	dsn, err := d.DSN()
	if err != nil {
		return nil, err
	}
	cfg := pgstore.Config{
		DSN: dsn, MaxConns: d.MaxConns, Timeout: d.StoreTimeout, ApplicationName: application,
	}
	if d.DSNFile != "" {
		cfg.Current = d.DSN
	}
	store, err := pgstore.Open(cfg)
	return store, asFlag(err)
}
