package pgtest

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// terminateTimeout is how long a backend may take to end once it is told to.
const terminateTimeout = 10 * time.Second

// Database is one test's database. It is dropped when the test ends, with sessions that are still open.
type Database struct {
	Name   string
	server *server
	roles  []string // dropped after the database, in which they may own things
}

// NewDatabase returns a fresh database on the shared server: a copy of template, or empty where template is
// nil. It is safe for concurrent use; it fails the test where no server can be had.
func NewDatabase(t testing.TB, template *Template) *Database {
	t.Helper()
	s := sharedServer(t)
	d := &Database{Name: s.newName(), server: s}
	create := createEmpty(d.Name)
	if template != nil {
		source, err := template.on(s)
		if err != nil {
			t.Fatalf("pgtest: %v", err)
		}
		create = "CREATE DATABASE " + quote(d.Name) + " TEMPLATE " + quote(source)
	}
	d.create(t, create)
	return d
}

func (d *Database) create(t testing.TB, statement string) {
	t.Helper()
	if err := d.server.exec(statement); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		drop := []string{"DROP DATABASE IF EXISTS " + quote(d.Name) + " WITH (FORCE)"}
		for _, role := range d.roles {
			drop = append(drop, "DROP ROLE IF EXISTS "+quote(role))
		}
		if err := d.server.exec(drop...); err != nil {
			t.Errorf("pgtest: %v", err)
		}
	})
}

// DSN returns the connection string of the database, for its owner unless [As] says otherwise.
func (d *Database) DSN(options ...DSNOption) string {
	settings := []setting{{keyDatabase, d.Name}}
	for _, option := range options {
		settings = append(settings, option()...)
	}
	return withSettings(d.server.dsn, settings...)
}

// Server returns the connection string under which another test binary finds this database's server, in the
// variable TREX_POSTGRESQL_TEST_DSN. Only under the same one does it see which databases are in use.
func (d *Database) Server() string { return d.server.dsn }

// Connect returns a connection of the owner's. It is closed when the test ends.
func (d *Database) Connect(t testing.TB, options ...DSNOption) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.DSN(options...))
	if err != nil {
		t.Fatalf("pgtest: connect: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // the database may be gone by then
	return conn
}

// Exec runs one statement as the owner and fails the test where it fails.
func (d *Database) Exec(t testing.TB, statement string, args ...any) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.DSN())
	if err != nil {
		t.Fatalf("pgtest: connect: %v", err)
	}
	defer func() { _ = conn.Close(context.Background()) }() // the statement's own error tells
	if _, err := conn.Exec(t.Context(), statement, args...); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
}

// Fingerprint returns a digest of every row of every table of a schema and of who wrote it last: it changes
// with every write.
func (d *Database) Fingerprint(t testing.TB, schema string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.DSN())
	if err != nil {
		t.Fatalf("pgtest: connect: %v", err)
	}
	defer func() { _ = conn.Close(context.Background()) }() // nothing of it is needed any more
	var query, digest string
	err = conn.QueryRow(t.Context(), `
SELECT 'SELECT md5(string_agg(row, chr(10) ORDER BY row)) FROM (' || string_agg(
    format('SELECT %L || xmin || ctid || t FROM %s t', c.oid::regclass, c.oid::regclass), ' UNION ALL '
) || ') AS rows (row)'
FROM pg_class c
WHERE c.relkind = 'r'
    AND c.relnamespace = $1::regnamespace`, schema).Scan(&query)
	if err == nil {
		err = conn.QueryRow(t.Context(), query).Scan(&digest)
	}
	if err != nil {
		t.Fatalf("pgtest: fingerprint: %v", err)
	}
	return digest
}

// TerminateBackends ends every session of the database, waits until they are gone, and returns how many there
// were.
func (d *Database) TerminateBackends(t testing.TB) int {
	t.Helper()
	// From the maintenance database, so that this session is not among them.
	conn, err := pgx.Connect(t.Context(), d.server.dsn)
	if err != nil {
		t.Fatalf("pgtest: connect: %v", err)
	}
	defer func() { _ = conn.Close(context.Background()) }() // nothing of it is needed any more
	var ended, all int
	err = conn.QueryRow(t.Context(), `
SELECT count(*) FILTER (WHERE pg_terminate_backend(pid, $2)), count(*)
FROM pg_stat_activity
WHERE datname = $1
    AND backend_type = 'client backend'`, d.Name, terminateTimeout.Milliseconds()).Scan(&ended, &all)
	if err != nil {
		t.Fatalf("pgtest: terminate backends: %v", err)
	}
	if ended < all {
		t.Fatalf("pgtest: %d of %d backends did not end within %s", all-ended, all, terminateTimeout)
	}
	return all
}
