package canary

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// badDSNs are connection strings that do not parse, or lead nowhere, each with secrets in it.
func badDSNs() []string {
	p, u := string(password), string(account)
	at := "postgres://" + u + ":" + p + "@127.0.0.1:9/d?"
	return []string{
		"postgres://" + u + ":" + p + "%zz@127.0.0.1:9/" + string(dsnPart), "postgres://" + u + ":" + p + "%@h/d",
		"postgres://" + u + ":" + p + " x@127.0.0.1:9/d", "postgres://" + u + ":" + p + "@127.0.0.1:no/d",
		"postgres://" + u + ":" + p + "@[::1/d", "host=127.0.0.1 port=" + p, "host='" + p, "password=" + p + " =",
		at + "sslmode=" + p,
		"postgres://" + u + ":" + p + "@h/d?pool_max_conns=" + p,
		at + "sslrootcert=/nowhere/" + p + "&sslmode=verify-ca",
		at + "passfile=/nowhere/" + p,
		"host=127.0.0.1 user=" + u + " password='" + p,
		at + "connect_timeout=" + p, "service=" + p, p,
		"mysql://" + u + ":" + p + "@h/d",
		at + "target_session_attrs=" + p, hostileText(password),
		"postgres://" + u + ":" + p + "@" + string(dsnPart) + ".invalid/d", "host=/nowhere/" + p + " user=" + u,
		at + "default_query_exec_mode=" + p,
		"user=" + u + " password=a\\ " + p + " host=127.0.0.1 port=9",
		at + "options=-c%20" + p,
	}
}

var variableInDocs = regexp.MustCompile("(?m)^\\| `FENCEROW_([A-Z_]+)` \\|")

// configScene gives each setting a value that is a secret in the wrong place.
func configScene(t *testing.T) []row {
	w := newWorld(t)
	t.Cleanup(w.end)
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	check(t, err)
	var variables []string
	for _, m := range variableInDocs.FindAllStringSubmatch(string(page), -1) {
		if m[1] != "DSN" && !slices.Contains(variables, m[1]) {
			variables = append(variables, m[1])
		}
	}
	if len(variables) < 40 {
		t.Fatalf("only %d settings in the docs", len(variables))
	}
	w.settings["LEDGER_URL"] = "http://127.0.0.1:9/" + string(account)
	return []row{
		{name: "dsn_invalid", codes: []string{"dsn_invalid"},
			shown: []string{"is not a PostgreSQL connection string"}, drive: func(t testing.TB) *world {
				w.row(t)
				file := filepath.Join(t.TempDir(), string(dsnPart))
				for _, dsn := range badDSNs() {
					s := map[string]string{"DSN": dsn}
					w.run(s, "counts")
					w.run(s, "migrate", "status", "--json")
					w.run(s, "process", "--json", "x")
					check(t, os.WriteFile(file, []byte(dsn), 0o600))
					w.run(map[string]string{"DSN": "", "DSN_FILE": file}, "doctor", "--json")
				}
				return w
			}},
		{name: "every_variable", shown: []string{"fencerowd: --lease"}, drive: func(t testing.TB) *world {
			w.row(t)
			for _, name := range variables {
				for _, value := range []string{hostileText(setting), "postgres://u:" + string(setting) + "@h/d"} {
					// Without a connection string each start ends, at the latest when that is looked for.
					settings := map[string]string{"DSN": "", name: value}
					w.runWith("fencerowd", settings, nil, nil)
					w.runWith("fencerow", settings, nil, nil, "backfill")
				}
			}
			return w
		}},
	}
}
