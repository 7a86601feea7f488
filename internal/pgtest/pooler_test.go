package pgtest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Two clients share the one connection that the pooler has to the server, one transaction after the other.
func TestPoolerHandsOneSessionToManyClients(t *testing.T) {
	t.Parallel()
	database := NewDatabase(t, nil)
	role := database.NewRole(t, nil) // after the superuser's password, by whom the pooler finds the others'
	pooler := StartPooler(t, database, map[string]string{"default_pool_size": "1"})
	backend := func() int32 {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), database.DSN(As(role), Via(pooler.Address()),
			With("default_query_exec_mode", "exec")))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(context.Background()) }) // kept open beside the next
		var pid int32
		if err := conn.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
			t.Fatal(err)
		}
		return pid
	}
	first, second := backend(), backend()
	if first != second {
		t.Errorf("clients at the same time were given sessions %d and %d", first, second)
	}
	pooler.Restart(t)
	if again := backend(); again == first {
		t.Error("the pooler that was started again has its old session")
	}
}
