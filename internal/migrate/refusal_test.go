package migrate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
	"github.com/fourblocks2020/fencerow/sql"
)

func TestARoleThatOwnsOnlyTheSchemaCanMigrate(t *testing.T) {
	t.Parallel()
	_, db := newRunnerOn(t)
	role := db.NewRole(t, map[string]string{
		"default_transaction_isolation": "serializable", "statement_timeout": "1ms", "search_path": "other",
	})
	db.Exec(t, "REVOKE ALL ON DATABASE "+db.Name+" FROM PUBLIC")
	db.Exec(t, "GRANT CONNECT ON DATABASE "+db.Name+" TO "+role.Name)
	db.Exec(t, "CREATE SCHEMA fencerow AUTHORIZATION "+role.Name)
	r := runnerFor(t, db.DSN(pgtest.As(role)))
	mustUp(t, r, Change{0, latest(t)})
	mustMatch(t, r, sql.Golden)
	mustTo(t, r, 0)
	mustUp(t, r, Change{0, latest(t)})
	mustUp(t, r, Change{latest(t), latest(t)})
}

func TestARoleThatMayNothingIsRefused(t *testing.T) {
	t.Parallel()
	_, db := newRunnerOn(t)
	role := db.NewRole(t, nil)
	_, err := Up(t.Context(), db.DSN(pgtest.As(role)))
	mustFail(t, err, fencerow.ErrStorePermission, 0, "42501")
	mustBeAt(t, db.DSN(), 0)
}

func TestADatabaseThatIsNotUTF8IsRefused(t *testing.T) {
	t.Parallel()
	_, db := newRunnerOn(t)
	name := db.Name + "_latin1"
	db.Exec(t, "CREATE DATABASE "+name+" TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'")
	defer db.Exec(t, "DROP DATABASE "+name+" WITH (FORCE)")
	r := runnerFor(t, db.DSN())
	r.config.Database = name
	_, err := r.up(t.Context())
	mustFail(t, err, fencerow.ErrEncoding, 0, "FR004")
	if status, err := r.status(t.Context()); err != nil || status.Current != 0 {
		t.Errorf("after the refusal: %+v, %v", status, err)
	}
}

func TestANewerSchemaIsRefusedByAnOlderHistory(t *testing.T) {
	t.Parallel()
	r, db := newRunnerOn(t)
	newer := runnerFor(t, db.DSN())
	files := withFiles(t)
	name := fmt.Sprintf("%03d_add_nothing.sql", latest(t)+1)
	files[name] = &fstest.MapFile{Data: []byte("SELECT 1;\n" + separatorLine + "\nSELECT 1;\n")}
	newer.files = files
	mustUp(t, newer, Change{0, latest(t) + 1})
	_, err := Up(t.Context(), db.DSN())
	mustFail(t, err, fencerow.ErrSchemaNewer, 0, "")
	_, err = DownTo(t.Context(), db.DSN(), 0)
	mustFail(t, err, fencerow.ErrSchemaNewer, 0, "")
	status, err := r.status(t.Context())
	if err != nil || !status.Newer() || status.Current != latest(t)+1 || len(status.Pending) != 0 {
		t.Errorf("status with an older history: %+v, %v", status, err)
	}
	mustMatch(t, r, sql.Golden)
}

func TestAVersionOutOfRangeIsBadInput(t *testing.T) {
	t.Parallel()
	r, db := newRunnerOn(t)
	mustTo(t, r, 1)
	for _, version := range []int{-1, 2, 1 << 40} {
		if _, err := DownTo(t.Context(), db.DSN(), version); !errors.Is(err, fencerow.ErrInvalidInput) {
			t.Errorf("down to %d from 1: %v", version, err)
		}
	}
	if change, err := DownTo(t.Context(), db.DSN(), 1); err != nil || change != (Change{1, 1}) {
		t.Errorf("down to where it is: %+v, %v", change, err)
	}
}

func TestAFailedMigrationIsUndoneAndNamed(t *testing.T) {
	t.Parallel()
	r, db := newRunnerOn(t)
	files := withFiles(t)
	name := fmt.Sprintf("%03d_fail_halfway.sql", latest(t)+1)
	const statements = "CREATE TABLE fencerow.half (a integer); SELECT 'canary'::integer;\n"
	files[name] = &fstest.MapFile{Data: []byte(statements)}
	r.files = files
	_, err := r.up(t.Context())
	mustFail(t, err, fencerow.ErrMigrationFailed, latest(t)+1, "22P02")
	mustBeSilent(t, err, "canary", "half", "SELECT")
	mustBeAt(t, db.DSN(), latest(t))
	mustMatch(t, r, sql.Golden)
}

func TestAMigrationWithoutWayBackSaysSo(t *testing.T) {
	t.Parallel()
	r, db := newRunnerOn(t)
	files := withFiles(t)
	name := fmt.Sprintf("%03d_burn_bridge.sql", latest(t)+1)
	files[name] = &fstest.MapFile{Data: []byte("SELECT 1;\n")}
	r.files = files
	mustUp(t, r, Change{0, latest(t) + 1})
	_, err := r.downTo(t.Context(), 0)
	mustFail(t, err, fencerow.ErrMigrationIrreversible, 0, "")
	mustBeAt(t, db.DSN(), latest(t)+1)
}

// mustBeSilent fails where any print form of err holds one of the words.
func mustBeSilent(t *testing.T, err error, words ...string) {
	t.Helper()
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "err", err) //nolint:forbidigo // looks at what it writes
	document, _ := json.Marshal(map[string]any{"err": err})
	verbs := fmt.Sprintf("%v|%+v|%#v|%q|%s", err, err, err, err, err)
	forms := []string{err.Error(), verbs, log.String(), string(document)}
	for _, form := range forms {
		for _, word := range words {
			if strings.Contains(form, word) {
				t.Errorf("%q shows %q", form, word)
			}
		}
	}
}

func TestErrorsShowNothingOfTheDSN(t *testing.T) {
	t.Parallel()
	_, db := newRunnerOn(t)
	role := db.NewRole(t, nil)
	for name, test := range map[string]struct {
		dsn  string
		code fencerow.Code
	}{
		"DSNThatDoesNotParse": {"postgres://canary:can%zzary@canary.invalid/canary", fencerow.ErrDSNInvalid},
		"PortThatDoesNotParse": {
			"host=canary.invalid port=canary user=canary password=canary", fencerow.ErrDSNInvalid,
		},
		"ServerThatIsNotThere": {
			"postgres://canary:canary@127.0.0.1:1/canary?sslmode=disable", fencerow.ErrStoreUnavailable,
		},
		"DatabaseThatIsNotThere": {
			strings.Replace(db.DSN(), db.Name, "canary", 1), fencerow.ErrStoreUnavailable,
		},
		"WrongPassword": {
			db.DSN(pgtest.As(pgtest.Role{Name: role.Name, Password: "canary"})), fencerow.ErrStoreCredentials,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for call, do := range map[string]func() error{
				"up":     func() error { _, err := Up(t.Context(), test.dsn); return err },
				"down":   func() error { _, err := DownTo(t.Context(), test.dsn, 0); return err },
				"status": func() error { _, err := ReadStatus(t.Context(), test.dsn); return err },
				"verify": func() error { _, err := Verify(t.Context(), test.dsn); return err },
			} {
				err := do()
				if !errors.Is(err, test.code) {
					t.Fatalf("%s: %v; want %s", call, err, test.code)
				}
				mustBeSilent(t, err, "canary", role.Name, db.Name, "127.0.0.1")
			}
		})
	}
}
