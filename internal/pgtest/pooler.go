package pgtest

import (
	"net/url"
	"testing"
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

// Address is the pooler's HOST:PORT, for [Via].
func (p *Pooler) Address() string {
	u, err := url.Parse(p.server.dsn)
	if err != nil {
		panic("pgtest: a pooler's DSN is not a URL")
	}
	return u.Host
}
