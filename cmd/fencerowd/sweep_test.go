package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fourblocks2020/fencerow/internal/badinput"
	"github.com/fourblocks2020/fencerow/internal/config"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

// flagless are the variables that have no flag.
var flagless = []string{config.DSNVariable, config.AlertURLVariable}

// goodCall is a call in which every setting can be tried: a ledger, NATS and a receiver of alerts are named.
func goodCall(t *testing.T, dsn string) badinput.Call {
	t.Helper()
	// 24 bytes in base64: what signs alerts.
	secret := filepath.Join(t.TempDir(), "secret")
	check(t, os.WriteFile(secret, []byte("whsec_"+strings.Repeat("c2Vj", 8)), 0o600))
	return badinput.Call{
		Variables: map[string]string{
			"DSN": dsn, "INSTANCE_KEY": string(self), "LEDGER_URL": "http://127.0.0.1:1/entries",
			"NATS_URL": "nats://127.0.0.1:1", "ALERT_WEBHOOK_URL": "https://127.0.0.1:1/" + badinput.Secret,
			"ALERT_WEBHOOK_SECRET_FILE": secret, "GRACE": "1s", "LEDGER_TOKEN_FILE": secret,
		},
		Instead: map[string][]string{"--dsn-file": {"DSN"}, "--alert-webhook-url-file": {"ALERT_WEBHOOK_URL"}},
	}
}

func TestEverySettingRefusesBadValuesByName(t *testing.T) {
	dsn, called := watched(t)
	var stdout, stderr bytes.Buffer
	p := newProgram(&stdout, &stderr)
	settings, err := badinput.Settings(p.parser.Model, flagless,
		goodCall(t, strings.ReplaceAll(dsn, sentinel, badinput.Secret)))
	check(t, err)
	tried, refused := badinput.InProcess(t, settings, func(ctx context.Context, args []string) badinput.Ending {
		p.line = commandLine{}
		stdout.Reset()
		stderr.Reset()
		status := p.run(ctx, args)
		return badinput.Ending{Status: status, Stdout: stdout.String(), Stderr: stderr.String()}
	})
	if called() {
		t.Error("a connection was opened")
	}
	t.Logf("%d settings tried with %d values: %d refused with status 80, each by name, without a connection, a "+
		"file or a character that does not print; the others taken", len(settings), tried, refused)
}

func TestTheProgramRefusesABadValueOfEverySettingAndTheDatabaseIsAsBefore(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	before := db.Fingerprint(t, "fencerow")
	settings, err := badinput.Settings(newProgram(nil, nil).parser.Model, flagless, goodCall(t, db.DSN()))
	check(t, err)
	processes := badinput.Processes(t, settings, binary)
	if db.Fingerprint(t, "fencerow") != before {
		t.Error("something was written")
	}
	t.Logf("%d processes, each with a bad value of another setting: status 80, and every row is as before",
		processes)
}
