package main

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

// withDSN are commands that reach the database in each way that there is.
var withDSN = [][]string{
	{"counts"}, {"enqueue", "--correlation-id", "a", "--entry-kind", "fill", "--payload", "{}"},
	{"process", "a"},
	{"migrate", "status"}, {"migrate", "up"}, {"migrate", "down", "--to", "1"}, {"migrate", "verify"},
	{"migrate", "walls", "up"}, {"doctor"}, {"dev", "--dsn", "--once"},
}

func TestEveryCommandSaysTheSameOfAMalformedDSN(t *testing.T) {
	t.Parallel()
	address, connections := trap(t)
	for dsn, says := range map[string]string{
		"mysql://u:hush@%s/db":                                           "must begin with postgres://",
		"postgres://u:hush@%s/db?sslmode=hush":                           "has an sslmode",
		"postgres://u:hush@%s/db?sslmode=verify-ca&sslrootcert=/no/hush": "cannot be read",
		"postgres://u:hush@%s/db?sslmod=require":                         "neither this program nor a server",
	} {
		for _, args := range withDSN {
			c := at(fmt.Sprintf(dsn, address), desk).with("FENCEROW_LEDGER_URL=http://127.0.0.1:9/entries")
			r := c.want(t, 80, args...)
			mustContain(t, r.stderr, "FENCEROW_DSN", says)
			if strings.Contains(r.stdout+r.stderr, "hush") {
				t.Errorf("%v shows a part of it: %s%s", args, r.stdout, r.stderr)
			}
		}
	}
	if n := connections.Load(); n != 0 {
		t.Errorf("%d connections were opened", n)
	}
}

func TestEveryCommandSaysTheSameOfASettingThatTheServerRefuses(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	for name, value := range map[string]string{
		"foo": "hush", "statement_timeout": "hush", "shared_buffers": "1",
	} {
		u, err := url.Parse(db.DSN())
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		q.Set(name, value)
		u.RawQuery = q.Encode()
		for _, args := range withDSN {
			c := at(u.String(), desk).with("FENCEROW_LEDGER_URL=http://127.0.0.1:9/entries")
			r := c.want(t, 1, args...)
			all := r.stdout + r.stderr
			mustContain(t, all, "store_setting_refused", "holds a setting that the server refuses")
			if strings.Contains(all, "hush") || strings.Contains(all, "percent-encode") {
				t.Errorf("%v says %s", args, all)
			}
		}
	}
}

func TestParametersOfAPoolAreTakenByEveryCommand(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	dsn := db.DSN()
	if strings.Contains(dsn, "?") {
		dsn += "&pool_max_conns=3"
	} else {
		dsn += "?pool_max_conns=3"
	}
	for _, args := range [][]string{{"counts"}, {"migrate", "status"}, {"migrate", "up"}} {
		at(dsn, desk).want(t, 0, args...)
	}
}
