package main

import (
	"slices"
	"testing"

	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

const mapRole = "INSERT INTO fencerow.ledger_role (role_name, instance_key) VALUES ($1, $2)"

func TestMigrateSwitchesTheWallsAndDoctorJudgesThem(t *testing.T) {
	t.Parallel()
	server := pgtest.StartPrivate(t, map[string]string{"fsync": "on", "synchronous_commit": "on"})
	db := server.NewDatabase(t, schema)
	role := db.NewRole(t, nil)
	for _, grant := range []string{
		"USAGE ON SCHEMA fencerow", "ALL ON ALL TABLES IN SCHEMA fencerow",
		"USAGE ON ALL SEQUENCES IN SCHEMA fencerow", "EXECUTE ON ALL FUNCTIONS IN SCHEMA fencerow",
	} {
		db.Exec(t, "GRANT "+grant+` TO "`+role.Name+`"`)
	}
	owner, daemon := at(db.DSN(), desk), at(db.DSN(pgtest.As(role)), desk)
	judge := func(c command, want string, details ...string) {
		t.Helper()
		code := 0
		if want == checkFail {
			code = 1
		}
		check := results(document[doctorDoc](t, c, code, "doctor"))["walls"]
		if check.Result != want || (check.Advice == "") != (want == checkOK) {
			t.Errorf("%+v, want %s", check, want)
		}
		mustContain(t, check.Detail, details...)
	}
	switchTo := func(state string, changed, roles int, policies ...string) migrateWallsDoc {
		t.Helper()
		doc := document[migrateWallsDoc](t, owner, 0, "migrate", "walls", state)
		if doc.Walls != state || doc.Changed != changed || doc.Roles != roles ||
			!slices.Equal(doc.Policies, policies) {
			t.Errorf("%+v", doc)
		}
		return doc
	}
	judge(daemon, checkOK, "down")
	if doc := switchTo("up", 8, 0); !slices.Contains(doc.Unmapped, role.Name) || len(doc.Unknown) != 0 {
		t.Errorf("%+v", doc)
	}
	mustContain(t, daemon.want(t, 1, "hold").stderr, "store_permission_denied", "the walls are up")
	judge(daemon, checkFail, "does not work for this instance")
	judge(owner, checkWarn, "do not bind this role; 1 other roles")
	db.Exec(t, mapRole, role.Name, desk)
	judge(daemon, checkOK, "up")
	judge(owner, checkWarn, "do not bind this role; 0 other roles")
	db.Exec(t, "CREATE POLICY guest ON fencerow.ledger_outbox FOR SELECT USING (true)")
	judge(daemon, checkFail, "1 tables have another policy")
	db.Exec(t, "DROP POLICY ledger_skip_wall ON fencerow.ledger_skip")
	db.Exec(t, "ALTER TABLE fencerow.ledger_claim DISABLE ROW LEVEL SECURITY")
	judge(daemon, checkFail, "7 of 8 tables", "1 tables lack their policy", "1 tables have another policy")
	switchTo("up", 1, 1, "ledger_skip_wall")
	db.Exec(t, "DROP POLICY guest ON fencerow.ledger_outbox")
	judge(daemon, checkOK, "up")
	db.Exec(t, mapRole, "misspelt", desk)
	mustContain(t, owner.want(t, 0, "migrate", "walls", "up").stdout, "misspelt, and there is no such role")
	switchTo("down", 8, 2)
	daemon.want(t, 80, "migrate", "walls", "sideways")
}
