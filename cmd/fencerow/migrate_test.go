package main

import (
	"testing"

	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

func TestMigrateUpDownAndStatus(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, nil)
	c := command{env: []string{"FENCEROW_DSN=" + db.DSN()}} // no instance is needed
	before := document[migrateStatusDoc](t, c, 0, "migrate", "status")
	latest := before.Latest
	if before.Current != 0 || latest < 3 || len(before.Pending) != latest || before.Newer {
		t.Errorf("before: %+v", before)
	}
	if doc := document[migratedDoc](t, c, 0, "migrate", "up"); doc != (migratedDoc{0, latest}) {
		t.Errorf("up: %+v", doc)
	}
	if doc := document[migratedDoc](t, c, 0, "migrate", "up"); doc != (migratedDoc{latest, latest}) {
		t.Errorf("up again: %+v", doc)
	}
	if before.Oldest < 6 || before.Oldest > latest {
		t.Errorf("the oldest program: %+v", before)
	}
	mustContain(t, c.want(t, 0, "migrate", "up").stdout, "as before")
	after := document[migrateStatusDoc](t, c, 0, "migrate", "status")
	if after.Current != latest || len(after.Pending) != 0 {
		t.Errorf("after: %+v", after)
	}
	if doc := document[migratedDoc](t, c, 0, "migrate", "down", "--to", "1"); doc != (migratedDoc{latest, 1}) {
		t.Errorf("down: %+v", doc)
	}
	mustContain(t, c.want(t, 80, "migrate", "down", "--to", "2").stderr,
		"--to (FENCEROW_MIGRATE_TO) must not be above the current version")
	c.want(t, 0, "migrate", "up")
	enqueue(t, at(db.DSN(), desk), "a")
	r := c.want(t, 1, "migrate", "down", "--to", "1")
	mustContain(t, r.stderr, "owned_entries_exist", "or keep this version")
}

func TestMigrateVerify(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, nil)
	c := command{env: []string{"FENCEROW_DSN=" + db.DSN()}}
	doc := document[migrateVerifyDoc](t, c, 0, "migrate", "verify")
	if doc.Latest < 3 || len(doc.Checks) != 3 {
		t.Errorf("%+v", doc)
	}
}

func TestDSNMayComeFromAFile(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	file := t.TempDir() + "/dsn"
	writeFile(t, file, db.DSN()+"\n")
	c := command{env: []string{"FENCEROW_INSTANCE_KEY=" + desk, "FENCEROW_DSN_FILE=" + file}}
	c.want(t, 0, "counts")
	mustContain(t, c.with("FENCEROW_DSN="+db.DSN()).want(t, 80, "counts").stderr, "both given")
}
