package canary

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

// commandLines is every command that works on a database, with an entry done-1 that is there.
func commandLines() [][]string {
	return [][]string{
		{"migrate", "up"}, {"migrate", "down", "--to", "2"}, {"migrate", "status"}, {"migrate", "verify"},
		{"migrate", "walls", "down"}, {"doctor"},
		{"enqueue", "-"}, {"process", "done-1"}, {"backfill"}, {"requeue", "done-1", "--from", "dead_lettered"},
		{"prune", "--older-than", "1h"}, {"pending"}, {"blocked"}, {"cash-delta"},
		{"show", "done-1"}, {"counts"}, {"claims"},
		{"legacy", "count"}, {"legacy", "export", "done-1"}, {"hold"}, {"resume"},
		{"slot", "slot-1", "--strategy", "x"}, {"dev", "--once"},
		{"slots", "--spy", "--ops-url", "http://127.0.0.1:9"},
	}
}

func entryLine(id string) string {
	return fmt.Sprintf(`{"correlation_id":%q,"entry_kind":"fill","payload":{"memo":%q,"account":%q}}`+"\n",
		id, payload, account)
}

var commandInHelp = regexp.MustCompile(`(?m)^  ([a-z][a-z-]*(?: [a-z][a-z-]*)?)(?: \[| <| --)`)

func TestEveryCommandIsRun(t *testing.T) {
	t.Parallel()
	w := &world{t: t, role: pgtest.Role{Name: "none"}, db: &pgtest.Database{Name: "none"}}
	_, help := w.runWith("fencerow", nil, nil, nil, "--help")
	found := commandInHelp.FindAllStringSubmatch(help, -1)
	if len(found) < 20 {
		t.Fatalf("only %d commands in the help", len(found))
	}
	for _, m := range found {
		if !slices.ContainsFunc(commandLines(), func(args []string) bool {
			return strings.HasPrefix(strings.Join(args, " ")+" ", m[1]+" ")
		}) {
			t.Errorf("fencerow %s is not run", m[1])
		}
	}
}

// commandScene is what the commands say on a database that works: done, refused, and asked for payloads.
func commandScene(t *testing.T) []row {
	w := newWorld(t)
	t.Cleanup(w.end)
	address := newHostileLedger(t, map[string]ledgerAnswer{
		"done-1": {status: 201, body: "-"}, "line-1": {status: 422}, "blocked": {status: 400},
	})
	w.settings["LEDGER_URL"] = address
	drive := func(do func()) func(testing.TB) *world {
		return func(t testing.TB) *world {
			w.row(t)
			do()
			return w
		}
	}
	says := func(code string, do func()) row {
		return row{name: code, codes: []string{code}, drive: drive(do)}
	}
	return []row{
		{name: "every_command", shown: []string{"completed"}, drive: drive(func() { w.everyCommand(address) })},
		says("foreign_instance", func() {
			_, err := w.pool.Exec(w.t.Context(), `SELECT fencerow.enqueue('desk-2', 'foreign-1', 'fill', '{}')`)
			check(w.t, err)
			w.run(nil, "process", "foreign-1")
			w.run(nil, "process", "foreign-1", "--json")
		}),
		says("not_found", func() { w.run(nil, "show", "nowhere") }),
		{name: "wrong_status", codes: []string{"wrong_status"},
			shown: []string{"nothing done: the entry is completed"}, drive: drive(func() {
				w.run(nil, "requeue", "done-1", "--from", "dead_lettered")
			})},
		{name: "enqueue_conflict", codes: []string{"enqueue_conflict"},
			shown: []string{"already enqueued with other content"}, drive: drive(func() {
				other := strings.Replace(entryLine("done-1"), "fill", "fee", 1)
				w.runWith("fencerow", nil, strings.NewReader(other), nil, "enqueue", "-")
				w.run(nil, "enqueue", "--correlation-id", "done-1", "--entry-kind", "fee", "--payload", "{}")
			})},
		{name: "claim_refused", codes: []string{"unavailable", "leased", "not_due", "finished", "unknown"},
			shown: []string{"unavailable", "leased", "not_due", "finished", "unknown"}, drive: drive(w.refuseClaims)},
		says("instance_held", func() {
			w.enqueue("held-1")
			w.run(nil, "hold")
			w.run(nil, "process", "held-1")
			w.run(nil, "backfill")
			w.run(nil, "resume", "--json")
		}),
		{name: "invalid_input", codes: []string{"invalid_input"},
			shown: []string{"is not a JSON object", "must be"}, drive: drive(w.badInput)},
		says("owned_entries_exist", func() { w.run(nil, "migrate", "down", "--to", "1") }),
	}
}

// everyCommand runs each command twice, for people and as JSON.
func (w *world) everyCommand(address string) {
	for _, form := range [][]string{nil, {"--json"}} {
		w.runWith("fencerow", nil, strings.NewReader(entryLine("done-1")+entryLine("line-1")), nil,
			append([]string{"enqueue", "-"}, form...)...)
		for _, args := range commandLines() {
			settings := map[string]string{"LEDGER_URL": address}
			if args[0] == "migrate" {
				settings["DSN"] = w.db.DSN() // its superuser: a role's grants do not suffice
			}
			if args[0] == "dev" {
				settings = map[string]string{"DSN": "", "LEDGER_URL": "", "INSTANCE_KEY": ""}
			}
			w.runWith("fencerow", settings, strings.NewReader(entryLine("done-1")), []secret{reference},
				append(slices.Clone(args), form...)...)
			if args[0] == "migrate" && args[1] == "down" {
				w.runWith("fencerow", settings, nil, nil, "migrate", "up")
			}
		}
		asked := []secret{payload, account}
		w.runWith("fencerow", nil, nil, asked, append([]string{"show", "done-1", "--with-payload"}, form...)...)
		w.runWith("fencerow", nil, nil, asked, append([]string{"pending", "--with-payload"}, form...)...)
	}
}

func (w *world) refuseClaims() {
	w.enqueue("leased-1", "waiting-1")
	_, err := w.pool.Exec(w.t.Context(), `
INSERT INTO fencerow.ledger_claim (
    claim_token, claim_epoch, instance_key, claimed_by, claimed_at, lease_expires_at, outbox_ids
)
SELECT gen_random_uuid(), 1, $1, 'other', now(), now() + interval '1 h', ARRAY[outbox_id]
FROM fencerow.ledger_outbox
WHERE correlation_id = 'leased-1'`, desk)
	check(w.t, err)
	_, err = w.pool.Exec(w.t.Context(), `
UPDATE fencerow.ledger_pending
SET next_retry_at = now() + interval '1 h'
WHERE outbox_id = (SELECT outbox_id FROM fencerow.ledger_outbox WHERE correlation_id = 'waiting-1')`)
	check(w.t, err)
	for _, id := range []string{"leased-1", "waiting-1", "done-1", "nowhere"} {
		w.run(nil, "process", id)
		w.run(map[string]string{"LOG_FORMAT": "json"}, "process", "--json", id)
	}
}

// badInput is input of every kind that is refused and holds a secret.
func (w *world) badInput() {
	s := string(payload)
	for _, line := range []string{
		s, `{"` + s + `":1}`, `{"correlation_id":"` + s + ` x","entry_kind":"fill","payload":{}}`,
		`{"correlation_id":"x","entry_kind":"` + s + `!","payload":{}}`,
		`{"correlation_id":"x","entry_kind":"fill","payload":"` + s + `"}`,
		`{"correlation_id":"x","entry_kind":"fill","payload":{"` + s + `"}`,
		`{"correlation_id":"x","entry_kind":"fill","payload":{},"cash_delta":"` + s + `"}`,
		`{"correlation_id":"x","entry_kind":"fill","payload":{},"cash_delta":1,"currency":"` + s + `"}`,
		`{"correlation_id":"x","entry_kind":"fill","payload":{},"traceparent":"` + s + `"}`,
		`{"correlation_id":"x","entry_kind":"fill","payload":{},"slot_id":"` + s + "\x01" + `"}`,
		hostile(payload),
	} {
		w.runWith("fencerow", nil, strings.NewReader(line+"\n"), nil, "enqueue", "-")
		w.runWith("fencerow", nil, strings.NewReader(line+"\n"), nil, "enqueue", "--json", "-")
		file := filepath.Join(w.t.TempDir(), s)
		check(w.t, os.WriteFile(file, []byte(line), 0o600))
		w.run(nil, "enqueue", file)
	}
	for _, args := range [][]string{
		{"enqueue", "/nowhere/" + s}, {"enqueue", "--correlation-id", "x", "--entry-kind", "fill", "--payload", s},
		{"enqueue", "--correlation-id", s + " ", "--entry-kind", "fill", "--payload", "{}"},
		{"enqueue", "--correlation-id", "x", "--entry-kind", "fill", "--payload", "{}", "--cash-delta", s},
		{"process", s + " "}, {"show", hostileText(payload)}, {s}, {"counts", s}, {"counts", "--json=" + s},
		{"counts", "--dsn=" + s}, {"counts", "--dsn", s}, {"counts", "-p" + s},
		{"counts", "--" + printable(payload)},
		{"counts", "--" + s + "2"},
		{"pending", "--limit", s}, {"pending", "--after", s}, {"blocked", "--status", s},
		{"blocked", "--after", s}, {"prune", "--older-than", s},
		{"requeue", "x", "--from", s}, {"slot", "slot-1", "--strategy", " " + s}, {"migrate", s},
		{"migrate", "down", "--to", s}, {"cash-delta", "--slot", s + " "}, {"counts", "postgres://u:" + s + "@h/d"},
	} {
		if status := w.run(nil, args...); status != 80 && status != 1 {
			w.t.Errorf("%v: status %d", args, status)
		}
	}
}

// migrationScene is what migrations say when they fail.
func migrationScene(*testing.T) []row {
	fresh := func(t testing.TB) *world {
		w := newWorld(t)
		w.settings["DSN"] = w.db.DSN(pgtest.With("application_name", string(dsnPart)))
		return w
	}
	return []row{
		{name: "migration_failed", codes: []string{"migration_failed"}, drive: func(t testing.TB) *world {
			w := fresh(t)
			w.db.Exec(t, `UPDATE fencerow.schema_version SET version = 2`)
			w.db.Exec(t, fmt.Sprintf(`
CREATE FUNCTION public.canary() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%s' USING ERRCODE = 'P0001';
END
$$`, databaseText))
			w.db.Exec(t, `CREATE EVENT TRIGGER canary ON ddl_command_start EXECUTE FUNCTION public.canary()`)
			w.run(nil, "migrate", "up")
			w.run(nil, "migrate", "up", "--json")
			w.db.Exec(t, `DROP EVENT TRIGGER canary`)
			return w
		}},
		{name: "schema_newer", codes: []string{"schema_newer"}, drive: func(t testing.TB) *world {
			w := fresh(t)
			w.db.Exec(t, `UPDATE fencerow.schema_version SET version = 99`)
			w.run(nil, "migrate", "up")
			w.run(nil, "migrate", "status", "--json")
			w.run(nil, "counts")
			return w
		}},
		{name: "entries_exist", codes: []string{"entries_exist"}, drive: func(t testing.TB) *world {
			w := fresh(t)
			w.run(nil, "migrate", "down", "--to", "1")
			w.db.Exec(t, fmt.Sprintf(`
INSERT INTO fencerow.ledger_outbox (correlation_id, entry_kind, payload)
VALUES ('legacy-1', 'fill', '{"memo":"%s"}')`, payload))
			w.run(nil, "migrate", "down", "--to", "0")
			w.run(nil, "migrate", "down", "--to", "0", "--json")
			w.run(nil, "migrate", "up")
			return w
		}},
		{name: "encoding_not_utf8", codes: []string{"encoding_not_utf8"}, drive: func(t testing.TB) *world {
			w := fresh(t)
			name := w.db.Name + "_ascii"
			w.db.Exec(t, "CREATE DATABASE "+name+
				" TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'")
			defer w.db.Exec(t, "DROP DATABASE "+name+" WITH (FORCE)")
			config, err := pgx.ParseConfig(w.db.DSN())
			check(t, err)
			w.run(map[string]string{"DSN": strings.Replace(w.settings["DSN"], "/"+config.Database, "/"+name, 1)},
				"migrate", "up")
			return w
		}},
	}
}
