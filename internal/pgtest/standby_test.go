package pgtest

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestStandbyFollowsAndTakesOverWithoutWhatWasCommittedAfterItsLinkWasCut(t *testing.T) {
	t.Parallel()
	primary := StartPrivate(t, nil)
	database := primary.NewDatabase(t, nil)
	database.Exec(t, "CREATE TABLE note (n int)")
	standby := primary.StartStandby(t)
	dsn := standby.DSN(database)
	standby.Synchronous(t)
	database.Exec(t, "INSERT INTO note VALUES (1)")
	standby.reconfigure(t, primary, "ALTER SYSTEM RESET synchronous_standby_names")
	standby.Disconnect(t)
	database.Exec(t, "INSERT INTO note VALUES (2)")
	primary.Crash(t)
	standby.Promote(t)

	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	rows, err := conn.Query(t.Context(), "INSERT INTO note VALUES (3) RETURNING (SELECT array_agg(n) FROM note)")
	if err != nil {
		t.Fatal(err)
	}
	kept, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[[]int32])
	if err != nil {
		t.Fatal(err)
	}
	if len(kept) != 1 || kept[0] != 1 {
		t.Errorf("the new primary has %v, want what was committed while it followed", kept)
	}
}
