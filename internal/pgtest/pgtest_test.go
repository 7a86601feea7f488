package pgtest

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

// oneRow has one table with one row.
var oneRow = NewTemplate(buildOneRow)

func buildOneRow(ctx context.Context, dsn string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "CREATE TABLE item (n int PRIMARY KEY); INSERT INTO item VALUES (1)")
	return errors.Join(err, conn.Close(ctx))
}

func count(t *testing.T, conn *pgx.Conn, sql string, args ...any) int {
	t.Helper()
	var n int
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestDatabasesOfOneTemplateShareNothingButTheirStart(t *testing.T) {
	t.Parallel()
	var builds atomic.Int32
	template := NewTemplate(func(ctx context.Context, dsn string) error {
		builds.Add(1)
		// A session that is left open does not hinder the copies.
		if _, err := pgx.Connect(ctx, dsn); err != nil {
			return err
		}
		return buildOneRow(ctx, dsn)
	})
	for range 4 {
		t.Run("Copy", func(t *testing.T) {
			t.Parallel()
			db := NewDatabase(t, template)
			conn := db.Connect(t)
			if n := count(t, conn, "SELECT count(*) FROM item"); n != 1 {
				t.Errorf("%d rows at the start, want 1", n)
			}
			db.Exec(t, "INSERT INTO item VALUES (2)")
			if n := count(t, conn, "SELECT count(*) FROM item"); n != 2 {
				t.Errorf("%d rows, want the template's and our own", n)
			}
			if n := builds.Load(); n != 1 {
				t.Errorf("the template was built %d times", n)
			}
		})
	}
}

func TestDatabaseWithoutTemplateIsEmpty(t *testing.T) {
	t.Parallel()
	conn := NewDatabase(t, nil).Connect(t)
	if n := count(t, conn, "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace"); n != 0 {
		t.Errorf("%d relations, want none", n)
	}
}

func TestDatabaseAndRolesGoWithTheirTest(t *testing.T) {
	t.Parallel()
	var name, role string
	t.Run("Owner", func(t *testing.T) {
		db := NewDatabase(t, nil)
		r := db.NewRole(t, nil)
		name, role = db.Name, r.Name
		db.Exec(t, "CREATE SCHEMA owned AUTHORIZATION "+quote(role))
		// A session that is still open does not keep the database.
		if _, err := pgx.Connect(t.Context(), db.DSN(As(r))); err != nil {
			t.Fatal(err)
		}
	})
	conn := NewDatabase(t, nil).Connect(t)
	if n := count(t, conn, "SELECT count(*) FROM pg_database WHERE datname = $1", name); n != 0 {
		t.Error("the database is still there")
	}
	if n := count(t, conn, "SELECT count(*) FROM pg_roles WHERE rolname = $1", role); n != 0 {
		t.Error("the role is still there")
	}
}

func TestRoleBringsItsSettings(t *testing.T) {
	t.Parallel()
	db := NewDatabase(t, nil)
	role := db.NewRole(t, map[string]string{
		"default_transaction_isolation": "serializable",
		"application_name":              "it's",
	})
	conn := db.Connect(t, As(role))
	for setting, want := range map[string]string{
		"transaction_isolation": "serializable",
		"application_name":      "it's",
		"is_superuser":          "off",
	} {
		var got string
		if err := conn.QueryRow(t.Context(), "SELECT current_setting($1)", setting).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s is %q, want %q", setting, got, want)
		}
	}
}

func TestTerminateBackendsEndsThisDatabasesSessionsOnly(t *testing.T) {
	t.Parallel()
	db, other := NewDatabase(t, nil), NewDatabase(t, nil)
	conns := []*pgx.Conn{db.Connect(t), db.Connect(t)}
	bystander := other.Connect(t)
	if n := db.TerminateBackends(t); n != len(conns) {
		t.Errorf("ended %d sessions, want %d", n, len(conns))
	}
	for _, conn := range conns {
		if err := conn.Ping(t.Context()); err == nil {
			t.Error("a session goes on")
		}
	}
	if err := bystander.Ping(t.Context()); err != nil {
		t.Errorf("another database's session: %v", err)
	}
}

func TestViaConnectsElsewhere(t *testing.T) {
	t.Parallel()
	db := NewDatabase(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	reached := make(chan struct{})
	go func() {
		defer close(reached)
		if conn, err := l.Accept(); err == nil {
			_ = conn.Close()
		}
	}()
	if conn, err := pgx.Connect(t.Context(), db.DSN(Via(l.Addr().String()))); err == nil {
		_ = conn.Close(t.Context())
		t.Error("connected to a server, want a closed connection")
	}
	_ = l.Close()
	<-reached
}

func TestPrivateServer(t *testing.T) {
	t.Parallel()
	p := StartPrivate(t, map[string]string{"max_connections": "23"})
	db := p.NewDatabase(t, oneRow)
	before := db.Connect(t)
	if n := count(t, before, "SELECT current_setting('max_connections')::int"); n != 23 {
		t.Errorf("max_connections is %d", n)
	}
	db.Exec(t, "INSERT INTO item VALUES (2)")

	p.Restart(t)
	if err := before.Ping(t.Context()); err == nil {
		t.Error("a session outlived the crash")
	}
	if n := count(t, db.Connect(t), "SELECT count(*) FROM item"); n != 2 {
		t.Errorf("%d rows after the crash, want 2", n)
	}

	p.Stop(t)
	if conn, err := pgx.Connect(t.Context(), db.DSN()); err == nil {
		_ = conn.Close(t.Context())
		t.Error("connected to a stopped server")
	}
	p.Start(t)
	if n := count(t, db.Connect(t), "SELECT count(*) FROM item"); n != 2 {
		t.Errorf("%d rows after the stop, want 2", n)
	}
}
