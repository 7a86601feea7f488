package pgtest

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// replicationTimeout bounds every wait for a replica.
	replicationTimeout = 30 * time.Second
	// replicationInterval is how often a replica is looked at again.
	replicationInterval = 10 * time.Millisecond
)

// Standby is a streaming replica of a private server. It has the primary's databases and roles.
type Standby struct {
	*Private
	primary *Private
}

// StartStandby starts a streaming replica that ends with the test. It returns once the replica follows.
func (p *Private) StartStandby(t testing.TB) *Standby {
	t.Helper()
	s := &Standby{Private: startOwn(t, "standby", nil, p.server.dsn), primary: p}
	s.AwaitReplay(t)
	return s
}

// DSN is the connection string of a database of the primary for clients that follow a failover: it names both
// servers, and asks for the one that takes writes.
func (s *Standby) DSN(d *Database, options ...DSNOption) string {
	options = append(options, With("target_session_attrs", "read-write"))
	primary, standby := s.parse(d.DSN(options...)), s.parse(s.server.dsn)
	primary.Host += "," + standby.Host
	return primary.String()
}

// parse reads a private server's DSN, which is a URL.
func (s *Standby) parse(dsn string) *url.URL {
	u, err := url.Parse(dsn)
	if err != nil {
		panic("pgtest: a private server's DSN is not a URL")
	}
	return u
}

// Synchronous has each commit on the primary wait until the standby has it on disk.
func (s *Standby) Synchronous(t testing.TB) {
	t.Helper()
	s.reconfigure(t, s.primary, "ALTER SYSTEM SET synchronous_standby_names = '*'")
	s.await(t, s.primary, "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')")
}

// AwaitReplay returns once the standby has applied all that is committed on the primary now.
func (s *Standby) AwaitReplay(t testing.TB) {
	t.Helper()
	var end string
	s.query(t, s.primary, &end, "SELECT pg_current_wal_flush_lsn()::text")
	s.await(t, s.Private, "SELECT coalesce(pg_last_wal_replay_lsn() >= $1::text::pg_lsn, false)", end)
}

// Disconnect ends replication: the standby has what was committed before, and nothing of what is committed
// after it returns.
func (s *Standby) Disconnect(t testing.TB) {
	t.Helper()
	s.reconfigure(t, s.Private, "ALTER SYSTEM SET primary_conninfo = ''")
	s.await(t, s.Private, "SELECT NOT EXISTS (SELECT FROM pg_stat_wal_receiver)")
	s.await(t, s.primary, "SELECT NOT EXISTS (SELECT FROM pg_stat_replication)")
}

// Promote makes the standby a primary, on a time line of its own, and returns when it takes writes.
func (s *Standby) Promote(t testing.TB) {
	t.Helper()
	var promoted bool
	s.query(t, s.Private, &promoted, "SELECT pg_promote(true, $1)", int(replicationTimeout.Seconds()))
	if !promoted {
		t.Fatalf("pgtest: the standby was not promoted within %s", replicationTimeout)
	}
	s.await(t, s.Private, "SELECT NOT pg_is_in_recovery()")
}

// reconfigure changes a setting of a server and has it read its configuration again.
func (s *Standby) reconfigure(t testing.TB, server *Private, statement string) {
	t.Helper()
	if err := server.server.exec(statement, "SELECT pg_reload_conf()"); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
}

// query reads one value from a server's maintenance database.
func (s *Standby) query(t testing.TB, server *Private, into any, query string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), adminTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, server.server.dsn)
	if err != nil {
		t.Fatalf("pgtest: connect: %v", err)
	}
	defer func() { _ = conn.Close(ctx) }() // the query's own error tells
	if err := conn.QueryRow(ctx, query, args...).Scan(into); err != nil {
		t.Fatalf("pgtest: %s: %v", query, err)
	}
}

// await returns once a query of one boolean is true.
func (s *Standby) await(t testing.TB, server *Private, query string, args ...any) {
	t.Helper()
	tick := time.NewTicker(replicationInterval)
	defer tick.Stop()
	deadline := time.After(replicationTimeout)
	for {
		var is bool
		if s.query(t, server, &is, query, args...); is {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("pgtest: waited %s in vain for %s", replicationTimeout, query)
		}
	}
}
