package main

import (
	"net"
	"strings"
	"testing"

	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

func TestDoctorNamesTheGrantThatIsMissing(t *testing.T) {
	t.Parallel()
	server := pgtest.StartPrivate(t, map[string]string{"fsync": "on", "synchronous_commit": "on"})
	db := server.NewDatabase(t, schema)
	role := db.NewRole(t, nil)
	give := func(grant string) { db.Exec(t, "GRANT "+grant+` TO "`+role.Name+`"`) }
	take := func(grant string) { db.Exec(t, "REVOKE "+grant+` FROM "`+role.Name+`"`) }
	give("USAGE ON SCHEMA fencerow")
	give("ALL ON ALL TABLES IN SCHEMA fencerow")
	give("USAGE ON ALL SEQUENCES IN SCHEMA fencerow")
	give("EXECUTE ON ALL FUNCTIONS IN SCHEMA fencerow")
	c := at(db.DSN(pgtest.As(role)), desk)
	if check := results(document[doctorDoc](t, c, 0, "doctor"))["grants"]; check.Result != checkOK {
		t.Errorf("%+v", check)
	}
	for _, grant := range []string{
		"INSERT ON fencerow.ledger_outcome", "UPDATE ON fencerow.ledger_claim",
		"USAGE ON SEQUENCE fencerow.ledger_outbox_outbox_id_seq",
		"EXECUTE ON FUNCTION fencerow.foreign_owned(text, text, name)",
		"SELECT ON fencerow.schema_version", "USAGE ON SCHEMA fencerow", // without which nothing else is read
	} {
		take(grant)
		check := results(document[doctorDoc](t, c, 1, "doctor"))["grants"]
		if check.Result != checkFail || check.Detail != "missing: "+grant {
			t.Errorf("without %s: %+v", grant, check)
		}
		mustContain(t, check.Advice, "GRANT it to this role")
		give(grant)
	}
}

func TestDoctorTellsWhatKeepsItFromTheDatabase(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, nil)
	role := db.NewRole(t, nil)
	mute, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is closed at once
	if err != nil {
		t.Fatal(err)
	}
	closed := mute.Addr().String()
	if err := mute.Close(); err != nil {
		t.Fatal(err)
	}
	stranger := pgtest.Role{Name: "no_such_" + role.Name, Password: "x"}
	for name, tt := range map[string]struct {
		dsn    string
		detail string
	}{
		"NoDatabase":  {db.DSN(pgtest.With("dbname", "no_such_database")), "no such database"},
		"NoRole":      {db.DSN(pgtest.As(stranger)), "refuses"},
		"NobodyThere": {db.DSN(pgtest.Via(closed)), "nobody listens there"},
		"NoSuchName":  {db.DSN(pgtest.Via("fencerow.invalid:5432")), "name does not resolve"},
		"NoTLS":       {db.DSN(pgtest.With("sslmode", "require")), "speaks no TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check := results(document[doctorDoc](t, at(tt.dsn, desk), 1, "doctor"))["connection"]
			if check.Result != checkFail || check.Advice == "" {
				t.Errorf("%+v", check)
			}
			mustContain(t, check.Detail, tt.detail)
			for _, word := range []string{"no_such_", "invalid", "127.0.0.1"} {
				if strings.Contains(check.Detail+check.Advice, word) {
					t.Errorf("shows %s: %+v", word, check)
				}
			}
		})
	}
}
