package pgtest

import (
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Pooler is a pgbouncer in transaction mode before a test's server. It keeps its address when it is stopped
// and started.
type Pooler struct {
	*Private
}

// StartPooler starts a pooler before the database's server. It ends with the test, and knows every role and
// database of the server, those made later too. Settings are parameters of pgbouncer. It fails the test where
// pgbouncer is not installed.
func StartPooler(t testing.TB, d *Database, settings map[string]string) *Pooler {
	t.Helper()
	return &Pooler{startOwn(t, "pooler", settings, d.server.dsn)}
}

// KeepsStatements reports whether this pgbouncer can keep clients' prepared statements: from version 1.21 on
// it can.
func (p *Pooler) KeepsStatements(t testing.TB) bool {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), withSettings(p.server.dsn, setting{keyDatabase, "pgbouncer"}))
	if err != nil {
		t.Fatalf("pgtest: connect to the pooler's console: %v", err)
	}
	defer func() { _ = conn.Close(t.Context()) }() // its answer tells
	rows, err := conn.Query(t.Context(), "SHOW CONFIG")
	if err != nil {
		t.Fatalf("pgtest: ask the pooler: %v", err)
	}
	known := false
	for rows.Next() {
		known = known || string(rows.RawValues()[0]) == "max_prepared_statements"
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("pgtest: ask the pooler: %v", err)
	}
	return known
}

// Address is the pooler's HOST:PORT, for [Via].
func (p *Pooler) Address() string {
	u, err := url.Parse(p.server.dsn)
	if err != nil {
		panic("pgtest: a pooler's DSN is not a URL")
	}
	return u.Host
}
