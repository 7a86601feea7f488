package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fourblocks2020/fencerow/internal/badinput"
	"github.com/fourblocks2020/fencerow/internal/config"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

// goodCalls are calls in which every setting of every command can be tried. dsn leads to a database, address
// to where a ledger, a daemon or NATS could be, and the file
// holds the ledger's token.
func goodCalls(dsn, address, tokenFile string) []badinput.Call {
	own := func(command string, arguments []string, more ...string) badinput.Call {
		c := badinput.Call{
			Command: strings.Fields(command), Arguments: arguments,
			Variables: map[string]string{"DSN": dsn, "INSTANCE_KEY": desk},
			Instead:   map[string][]string{"--dsn-file": {"DSN"}, "--payload-file": {"ENQUEUE_PAYLOAD"}},
		}
		for _, pair := range more {
			name, value, _ := strings.Cut(pair, "=")
			c.Variables[name] = value
		}
		return c
	}
	ledger, token := "LEDGER_URL=http://"+address+"/entries", "LEDGER_TOKEN_FILE="+tokenFile
	ops, nats := "OPS_URL=http://"+address, "NATS_URL=nats://"+address
	id := []string{"a"}
	lines := own("enqueue", []string{"-"})
	lines.Only = []string{"<file>"}
	one := own("enqueue", nil, "ENQUEUE_CORRELATION_ID=a", "ENQUEUE_ENTRY_KIND=fill", "ENQUEUE_CASH_DELTA=1.5",
		"ENQUEUE_CURRENCY=EUR", "ENQUEUE_PAYLOAD={}")
	// What leads to a daemon is tried where one is asked.
	daemon := []string{"--ops-url", "--ops-token-file"}
	alone, asking := own("process", id, ledger, token), own("process", id, ledger, ops)
	alone.Except, asking.Only = daemon, daemon
	byNATS, byOps := own("slots", nil, nats), own("slots", nil, ops)
	byNATS.Except, byOps.Only = append(daemon, config.DSNVariable), daemon
	return []badinput.Call{
		lines, one, alone, asking, byNATS, byOps,
		own("dev", nil, "DEV_ONCE=true", "DEV_USE_DSN=true"),
		own("migrate up", nil), own("migrate down", nil, "MIGRATE_TO=0"), own("migrate status", nil),
		own("migrate verify", nil), own("migrate walls", []string{"up"}), own("doctor", nil),
		own("backfill", nil, ledger, token), own("requeue", id, "REQUEUE_FROM=dead_lettered"),
		own("prune", nil, "PRUNE_OLDER_THAN=90d"), own("pending", nil), own("blocked", nil), own("cash-delta", nil),
		own("show", id), own("counts", nil), own("claims", nil), own("legacy count", nil), own("legacy export", id),
		own("hold", nil), own("resume", nil), own("slot", id, "SLOT_STRATEGY=trend"),
	}
}

func aToken(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "token")
	writeFile(t, path, "token")
	return path
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestEverySettingOfEveryCommandRefusesBadValuesByName(t *testing.T) {
	address, connections := trap(t)
	var stdout, stderr bytes.Buffer
	p := newProgram(&stdout, &stderr) // for all calls: reading the model takes ten times as long as a call
	dsn := "postgres://u:" + badinput.Secret + "@" + address + "/db?sslmode=disable"
	settings, err := badinput.Settings(p.parser.Model, []string{config.DSNVariable},
		goodCalls(dsn, address, aToken(t))...)
	check(t, err)
	tried, refused := badinput.InProcess(t, settings, func(ctx context.Context, args []string) badinput.Ending {
		p.cli = commands{}
		stdout.Reset()
		stderr.Reset()
		status := p.run(ctx, args, strings.NewReader("{}"))
		return badinput.Ending{Status: status, Stdout: stdout.String(), Stderr: stderr.String()}
	})
	if n := connections.Load(); n != 0 {
		t.Errorf("%d connections were opened", n)
	}
	t.Logf("%d settings of %d commands tried with %d values: %d refused with status 80, each by name, "+
		"without a connection, a file or a character that does not print; the others taken",
		len(settings), len(p.parser.Model.Leaves(false)), tried, refused)
}

func TestTheProgramRefusesABadValueOfEverySettingAndTheDatabaseIsAsBefore(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	enqueue(t, at(db.DSN(), desk), "a", "b", "c")
	before := db.Fingerprint(t, "fencerow")
	settings, err := badinput.Settings(parser(t).Model, []string{config.DSNVariable},
		goodCalls(db.DSN(), "127.0.0.1:1", aToken(t))...)
	check(t, err)
	processes := badinput.Processes(t, settings, binary)
	if db.Fingerprint(t, "fencerow") != before {
		t.Error("something was written")
	}
	t.Logf("%d processes, each with a bad value of another setting: status 80, and every row is as before",
		processes)
}
