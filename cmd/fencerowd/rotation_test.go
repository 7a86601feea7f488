package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

func TestAPasswordReplacedInTheFileNeedsNoRestart(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	role := db.NewRole(t, nil)
	for _, what := range []string{
		"USAGE ON SCHEMA", "ALL ON ALL TABLES IN SCHEMA", "ALL ON ALL SEQUENCES IN SCHEMA",
		"EXECUTE ON ALL FUNCTIONS IN SCHEMA",
	} {
		db.Exec(t, "GRANT "+what+` fencerow TO "`+role.Name+`"`)
	}
	s := newSceneOn(t, db)
	file := filepath.Join(t.TempDir(), "dsn")
	check(t, os.WriteFile(file, []byte(db.DSN(pgtest.As(role))+"\n"), 0o600))
	delete(s.settings, "DSN")
	s.settings["DSN_FILE"] = file
	p := s.start()
	s.enqueue(self, "before", 1)
	p.awaitCompleted(1)

	role.Password = "replaced/" + sentinel
	db.Exec(t, `ALTER ROLE "`+role.Name+`" PASSWORD '`+role.Password+`'`)
	db.Exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '`+role.Name+`'`)
	p.awaitEvents("poll failed", 1)
	check(t, os.WriteFile(file, []byte(db.DSN(pgtest.As(role))+"\n"), 0o600))
	s.enqueue(self, "after", 1)
	p.awaitCompleted(2)
	p.stop()
}

// A terminal that goes away leaves nothing leased.
func TestHangUpStopsInOrder(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.enqueue(self, "own", 1)
	p := s.start()
	p.awaitCompleted(1)
	p.signal(syscall.SIGHUP)
	equal(t, "status", p.wait(), 0)
	equal(t, "records of the end", len(p.events("stopped")), 1)
	equal(t, "pending at the end", s.atRest(), 0)
}

func TestMisspeltVariableIsNamed(t *testing.T) {
	t.Parallel()
	p := start(t, map[string]string{"INSTANCEKEY": sentinel, "DSN": "postgres://127.0.0.1:1/x"})
	equal(t, "status", p.wait(), 80)
	for _, line := range []string{
		"fencerowd: FENCEROW_INSTANCEKEY is no setting and is ignored",
		"fencerowd: --instance-key (FENCEROW_INSTANCE_KEY) is missing",
	} {
		contains(t, p.stderr(), line)
	}
	if strings.Contains(p.stderr(), sentinel) {
		t.Errorf("it shows the value:\n%s", p.stderr())
	}
}

func TestAddressThatCannotBeHadIsNamedAsTheSetting(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer taken.Close()
	s.settings["OPS_LISTEN"] = taken.Addr().String()
	p := s.start()
	equal(t, "status", p.wait(), 1)
	contains(t, p.stderr(), "ops_listen_failed: --ops-listen (FENCEROW_OPS_LISTEN) is taken")
}

func contains(t *testing.T, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%q is not in:\n%s", part, text)
	}
}
