package main

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"
)

// everyCommand is one well-formed call of each command that works for an instance.
var everyCommand = [][]string{
	{"enqueue", "-"},
	{"enqueue", "--correlation-id", "a", "--entry-kind", "fill", "--payload", "{}"},
	{"process", "a"},
	{"backfill"},
	{"requeue", "a", "--from", "dead_lettered"},
	{"prune", "--older-than", "90d"},
	{"pending"},
	{"blocked"},
	{"cash-delta"},
	{"show", "a"},
	{"counts"},
	{"claims"},
	{"legacy"},
	{"legacy", "--db-max-conns", "2"},
	{"legacy", "count"},
	{"legacy", "export", "a"},
	{"hold"},
	{"resume"},
	{"slot", "slot-1", "--strategy", "trend"},
	{"doctor"},
}

// trap is an address at which every connection is counted.
func trap(t *testing.T) (address string, connections *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	connections = new(atomic.Int64)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			_ = conn.Close() // whoever connects has lost already
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close() // ends the loop
		<-done
	})
	return listener.Addr().String(), connections
}

func TestBadInstanceKeyIsRefusedBeforeAnyConnection(t *testing.T) {
	t.Parallel()
	address, connections := trap(t)
	trapped := func(settings ...string) command {
		return command{env: append(settings, "FENCEROW_DSN=postgres://u:p@"+address+"/db?sslmode=disable",
			"FENCEROW_LEDGER_URL=http://"+address+"/entries"), stdin: line("a")}
	}
	for _, args := range everyCommand {
		for name, c := range map[string]command{
			"missing": trapped(),
			"empty":   trapped("FENCEROW_INSTANCE_KEY="),
			"space":   trapped("FENCEROW_INSTANCE_KEY=desk 1"),
			"newline": trapped("FENCEROW_INSTANCE_KEY=desk\n1"),
			"Korean":  trapped("FENCEROW_INSTANCE_KEY=원장"),
			"long":    trapped("FENCEROW_INSTANCE_KEY=" + strings.Repeat("k", 129)),
		} {
			if name != "missing" && name != "space" && args[0] != "counts" {
				continue // one command shows the rest
			}
			r := c.want(t, 80, args...)
			mustContain(t, r.stderr, "--instance-key (FENCEROW_INSTANCE_KEY)")
			if r.stdout != "" {
				t.Errorf("%v prints %q", args, r.stdout)
			}
		}
	}
	if n := connections.Load(); n != 0 {
		t.Errorf("%d connections were opened", n)
	}
	// The trap works: with a key, a command does connect.
	trapped("FENCEROW_INSTANCE_KEY="+desk).want(t, 1, "counts")
	if connections.Load() == 0 {
		t.Error("no connection is counted")
	}
}

func TestWrongUsageIsRefusedBeforeAnyConnection(t *testing.T) {
	t.Parallel()
	address, connections := trap(t)
	c := at("postgres://u:p@"+address+"/db?sslmode=disable", desk).with("FENCEROW_LEDGER_URL=http://" + address)
	for _, w := range []struct {
		args []string
		says string
	}{
		{[]string{}, "expected one of"},
		{[]string{"count"}, `did you mean "counts"`},
		{[]string{"counts", "extra-s3cret"}, "unexpected argument"},
		{[]string{"show"}, "<id>"},
		{[]string{"show", "a b"}, "<id>"},
		{[]string{"show", strings.Repeat("a", 201)}, "<id>"},
		{[]string{"pending", "--limit", "0"}, "--limit"},
		{[]string{"pending", "--limit", "10001"}, "--limit"},
		{[]string{"pending", "--limit", "1001", "--with-payload"}, "--limit"},
		{[]string{"pending", "--after", "yesterday"}, "--after"},
		{[]string{"blocked", "--limit", "10001"}, "--limit"},
		{[]string{"blocked", "--status", "pending"}, "--status"},
		{[]string{"blocked", "--after", "yesterday"}, "--after"},
		{[]string{"blocked", "--after", "0"}, "--after"},
		{[]string{"cash-delta", "--slot", "a b"}, "--slot"},
		{[]string{"requeue", "a", "--from", "completed"}, "--from"},
		{[]string{"requeue", "a"}, "--from"},
		{[]string{"slot", "a b", "--strategy", "x"}, "<id>"},
		{[]string{"slot", "a", "--strategy", " x"}, "--strategy"},
		{[]string{"prune"}, "--older-than"},
		{[]string{"prune", "--older-than", "soon"}, "--older-than"},
		{[]string{"prune", "--older-than", "-1h"}, "--older-than"},
		{[]string{"prune", "--older-than", "1d", "--limit=-1"}, "--limit"},
		{[]string{"backfill", "--limit=-1"}, "--limit"},
		{[]string{"backfill", "--lease", "10s", "--delivery-timeout", "10s"}, "does not fit the lease"},
		{[]string{"process", "a", "--ledger-url", "ftp://x"}, "--ledger-url"},
		{[]string{"process", "a", "--ops-url", "127.0.0.1:1"}, "--ops-url"},
		{[]string{"process", "a", "--log-level", "loud"}, "--log-level"},
		{[]string{"legacy", "export", "a", "--outbox-id=-1"}, "--outbox-id"},
		{[]string{"enqueue"}, "--correlation-id"},
		{[]string{"enqueue", "-", "--entry-kind", "fill"}, "one of them"},
		{[]string{"enqueue", "/nonexistent/file"}, "<file>"},
		{[]string{"enqueue", "--correlation-id", "a", "--entry-kind", "fill"}, "--payload"},
		{[]string{"enqueue", "--correlation-id", "a", "--entry-kind", "Fill", "--payload", "{}"}, "--entry-kind"},
		{[]string{"enqueue", "--correlation-id", "a", "--entry-kind", "fill", "--payload", "[]"}, "--payload"},
		{[]string{"enqueue", "--correlation-id", "a", "--entry-kind", "fill", "--payload", "{}",
			"--cash-delta", "1"}, "--currency"},
		{[]string{"enqueue", "--correlation-id", "a", "--entry-kind", "fill", "--payload", "{}",
			"--cash-delta", "1e9"}, "--cash-delta"},
		{[]string{"migrate", "down"}, "--to"},
		{[]string{"migrate", "down", "--to=-1"}, "--to"},
		{[]string{"dev", "--once", "--ledger-listen", "0.0.0.0:0"}, "--ledger-listen"},
		{[]string{"dev", "--ops-listen", "0.0.0.0:8311"}, "--ops-listen"},
	} {
		r := c.want(t, 80, w.args...)
		mustContain(t, r.stderr, w.says, "fencerow: ")
		if strings.Contains(r.stderr, "s3cret") || r.stdout != "" {
			t.Errorf("%v: stdout %q, stderr %q", w.args, r.stdout, r.stderr)
		}
	}
	if n := connections.Load(); n != 0 {
		t.Errorf("%d connections were opened", n)
	}
}

func TestNoDSNIsWrongUsage(t *testing.T) {
	t.Parallel()
	c := command{env: []string{"FENCEROW_INSTANCE_KEY=" + desk}}
	for _, args := range [][]string{{"counts"}, {"migrate", "up"}, {"doctor"}, {"dev", "--once", "--dsn"}} {
		mustContain(t, c.want(t, 80, args...).stderr, "FENCEROW_DSN")
	}
}

// A DSN that does not parse or does not connect is in no output, its password least of all.
func TestPasswordIsInNoOutput(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := listener.Addr().String()
	_ = listener.Close() // nobody answers there now
	for dsn, status := range map[string]int{
		"postgres://user:se%cret@" + closed + "/db":   80,
		"postgres://user:se%25cret@" + closed + "/db": 1,
		"host=127.0.0.1 port=se%cret":                 80,
	} {
		for _, args := range [][]string{
			{"counts"}, {"doctor"}, {"migrate", "up"}, {"migrate", "status"}, {"dev", "--once", "--dsn"},
			{"process", "a", "--ledger-url", "http://127.0.0.1:1/"},
		} {
			r := at(dsn, desk).want(t, status, args...)
			for _, secret := range []string{"se%", "cret", "user"} {
				text := strings.ReplaceAll(r.stdout+r.stderr, "check the user", "")
				if strings.Contains(text, secret) {
					t.Errorf("%v shows %q: %q", args, secret, text)
				}
			}
		}
	}
}
