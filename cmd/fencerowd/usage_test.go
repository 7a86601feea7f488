package main

import (
	"bytes"
	"flag"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// watched is a DSN at which nobody must call, and whether somebody did.
func watched(t *testing.T) (dsn string, called func() bool) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	calls := make(chan struct{}, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.Close() // that it came is enough
			select {
			case calls <- struct{}{}:
			default:
			}
		}
	}()
	called = func() bool {
		_ = listener.Close() // the second time does nothing
		<-ended
		return len(calls) > 0
	}
	t.Cleanup(func() { called() })
	return "postgres://user:p%25" + sentinel + "@" + listener.Addr().String() + "/db", called
}

func TestUsageErrorsComeBeforeAnyConnection(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		unset string
		set   map[string]string
		args  []string
		want  string
	}{
		{name: "NoInstanceKey", unset: "INSTANCE_KEY", want: "--instance-key (FENCEROW_INSTANCE_KEY) is missing"},
		{name: "BadInstanceKey", set: map[string]string{"INSTANCE_KEY": "a " + sentinel}, want: "--instance-key"},
		{name: "NoDSN", unset: "DSN", want: "FENCEROW_DSN is missing"},
		{name: "BadDSN", set: map[string]string{"DSN": "postgres://u:%zz" + sentinel + "@h/db"},
			want: "FENCEROW_DSN"},
		{name: "NoLedgerURL", unset: "LEDGER_URL", want: "--ledger-url (FENCEROW_LEDGER_URL) is missing"},
		{name: "BadLease", set: map[string]string{"LEASE": sentinel}, want: "FENCEROW_LEASE"},
		{name: "DeliveryTimeoutBeyondTheLease", args: []string{"--lease=5s"}, want: "--delivery-timeout"},
		{name: "ExposedOpsListener", args: []string{"--ops-listen=0.0.0.0:0"}, want: "--ops-token-file"},
		{name: "SecretInTheAddressOfNATS", args: []string{"--nats-url=nats://u:" + sentinel + "@127.0.0.1"},
			want: "--nats-url"},
		{name: "CredentialsOfNATSThatAreNone", set: map[string]string{
			"NATS_URL": "nats://127.0.0.1:1", "NATS_CREDS_FILE": "/" + sentinel}, want: "FENCEROW_NATS_CREDS_FILE"},
		{name: "SecretAsArgument", args: []string{"postgres://u:" + sentinel + "@h/db"},
			want: "unexpected argument"},
		{name: "SecretAsFlag", args: []string{"--dsn=postgres://u:" + sentinel + "@h/db"},
			want: "unknown flag --dsn"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dsn, called := watched(t)
			settings := map[string]string{
				"DSN": dsn, "INSTANCE_KEY": string(self), "LEDGER_URL": "http://127.0.0.1:1", "OPS_LISTEN": "127.0.0.1:0",
			}
			delete(settings, tt.unset)
			maps.Copy(settings, tt.set)
			p := start(t, settings, tt.args...)
			equal(t, "status", p.wait(), 80)
			if !strings.Contains(p.stderr(), tt.want) {
				t.Errorf("it does not name the setting %s:\n%s", tt.want, p.stderr())
			}
			if strings.Contains(p.stderr(), sentinel) {
				t.Errorf("it shows a value:\n%s", p.stderr())
			}
			if called() {
				t.Error("a connection was opened")
			}
		})
	}
}

func TestAPasswordIsNeverShown(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	role := db.NewRole(t, nil)
	s := newSceneOn(t, db)
	u, err := url.Parse(db.DSN(pgtest.As(role)))
	check(t, err)
	u.User = url.UserPassword(role.Name, "50%off/"+sentinel)
	s.settings["DSN"] = u.String()
	p := s.start()
	p.awaitEvents("start failed", 1)
	client := p.client("")
	s.readiness(client, "store_credentials_refused", "store_permission_denied")
	p.stop()
	for _, secret := range []string{sentinel, "50%", role.Name} {
		if strings.Contains(p.stderr(), secret) {
			t.Errorf("the log shows %q:\n%s", secret, p.stderr())
		}
	}
}

func TestHelpIsComplete(t *testing.T) {
	t.Parallel()
	const golden = "testdata/help.txt"
	cmd := exec.Command(binary, "--help")
	cmd.Env = []string{}
	got, err := cmd.Output()
	check(t, err)
	if *update {
		check(t, os.WriteFile(golden, got, 0o600))
	}
	want, err := os.ReadFile(golden)
	check(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("help is not what %s says; run the test with -update:\n%s", golden, got)
	}
}

func TestVersionIsShown(t *testing.T) {
	t.Parallel()
	got, err := exec.Command(binary, "--version").Output()
	check(t, err)
	if fields := strings.Fields(string(got)); len(fields) != 2 || fields[0] != "fencerowd" {
		t.Errorf("got %q", got)
	}
}
