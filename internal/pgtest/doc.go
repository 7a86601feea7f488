// Package pgtest gives tests a real PostgreSQL.
//
// Each test has a database of its own on a server that all tests share, so tests run in parallel and start
// from the same state. A database that a [Template] describes is copied from one that was migrated once:
//
//	var schema = pgtest.NewTemplate(func(ctx context.Context, dsn string) error {
//		return migrate.Up(ctx, dsn)
//	})
//
//	func TestX(t *testing.T) {
//		t.Parallel()
//		db := pgtest.NewDatabase(t, schema)
//		pool, err := pgxpool.New(t.Context(), db.DSN())
//		...
//	}
//
// # Server
//
// The server is, in this order, the one that TREX_POSTGRESQL_TEST_DSN names, one in a container where an
// engine answers, or a private cluster made from PostgreSQL binaries on the machine. Where there is none, the
// test fails. It is never skipped.
//
// `make test` starts one server for all packages and passes it on in the variable. A bare `go test` of a
// package gets its own: the first test that needs it starts the pgtest-server command, which ends its server
// as soon as the test binary has exited or was killed. The test binary has no goroutine for it.
//
// What a killed test binary, or the template of one that ended, left behind on a server named by the variable
// is dropped by the next one that uses that server.
//
// # Faults
//
// [StartPrivate] gives a test a cluster of its own, to be stopped, crashed and started again, and
// [Private.StartStandby] a replica of that to fail over to. [StartPooler] puts a pgbouncer before a server.
// [Database.TerminateBackends] cuts connections, [Via] sends them through a proxy, and [Database.NewRole]
// makes a login role with settings.
package pgtest
