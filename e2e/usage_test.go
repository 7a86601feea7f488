package e2e

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"
)

// refusingServer takes connections, counts them, and ends them. It returns its DSN, whose password must not
// be shown.
func refusingServer(t *testing.T) (dsn string, accepted *atomic.Int64) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	accepted = &atomic.Int64{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed
			}
			accepted.Add(1)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		check(t, listener.Close())
		<-ended
	})
	return "postgres://user:s3cr3t@" + listener.Addr().String() + "/db", accepted
}

func TestWrongUsageEndsWithStatus80BeforeAConnectionIsOpened(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dsn, accepted := refusingServer(t)
	w.settings["DSN"] = dsn
	commands := [][]string{
		{"process", "c-1"}, {"process", "--ops-url", w.ledgerURL[:len(w.ledgerURL)-len("/v1/entries")], "c-1"},
		{"backfill"}, {"pending"}, {"blocked"}, {"cash-delta"}, {"show", "c-1"}, {"counts"}, {"claims"}, {"legacy"},
		{"legacy", "export", "c-1"}, {"requeue", "c-1", "--from", "dead_lettered"}, {"hold"}, {"resume"},
		{"slot", "s-1", "--strategy", "x"}, {"prune", "--older-than", "1h"}, {"enqueue", "-"},
		{"enqueue", "--correlation-id", "c-1", "--entry-kind", "fill", "--payload", "{}"},
	}
	refused := 0
	refuse := func(r result, says ...string) {
		t.Helper()
		refused++
		want(t, r, 80, says...)
		if r.stdout != "" || strings.Contains(r.stderr, "s3cr3t") || strings.Contains(r.stderr, "kEy ") {
			t.Errorf("standard output %q, standard error %q", r.stdout, r.stderr)
		}
	}
	for _, command := range commands {
		for _, key := range []string{"", "a kEy with spaces"} {
			refuse(w.runWith(key, nil, strings.NewReader(""), command...), "--instance-key (FENCEROW_INSTANCE_KEY)")
		}
	}
	for _, key := range []string{"kEy \x01", "clé", strings.Repeat("k", 129)} {
		refuse(w.run(key, "counts"), "--instance-key (FENCEROW_INSTANCE_KEY)")
	}
	for says, command := range map[string][]string{
		"<id> holds":                       {"process", "an id"},
		"<id> is longer":                   {"show", strings.Repeat("x", 201)},
		"<id> is missing":                  {"process"},
		"--delivery-timeout":               {"process", "--lease", "2s", "--delivery-timeout", "2s", "c-1"},
		"--lease (FENCEROW_LEASE)":         {"process", "--lease", "0s", "c-1"},
		"--batch-limit":                    {"backfill", "--batch-limit", "1001"},
		"--ledger-url":                     {"process", "--ledger-url", "ftp://s3cr3t/", "c-1"},
		"--ops-url":                        {"process", "--ops-url", "127.0.0.1", "c-1"},
		"unknown flag":                     {"counts", "--frob"},
		"unknown command":                  {"frobnicate"},
		"--from":                           {"requeue", "c-1"},
		"--limit":                          {"pending", "--limit", "0"},
		"--after":                          {"pending", "--after", "nowhere"},
		"--to":                             {"migrate", "down", "--to=-1"},
		"expected one of":                  {"migrate"},
		"--dsn-file":                       {"counts", "--dsn-file", "/dev/null"},
		"--ledger-token-file":              {"process", "--ledger-token-file", "/nowhere/token", "c-1"},
		"--max-attempts":                   {"process", "--max-attempts", "0", "c-1"},
		"--strategy":                       {"slot", "s-1", "--strategy", " x"},
		"--older-than":                     {"prune", "--older-than=-1h"},
		"--log-level (FENCEROW_LOG_LEVEL)": {"backfill", "--log-level", "loud"},
	} {
		refuse(w.runWith("desk-1", nil, nil, command...), says)
	}
	for bad, says := range map[string]string{
		"postgres://user:s3cr3t%@host/db": "is not a PostgreSQL connection string",
		"host=x port=s3cr3t":              "has a port that is not a number",
		"s3cr3t://":                       "must begin with postgres://",
	} {
		refuse(w.runWith("desk-1", map[string]string{"DSN": bad}, nil, "counts"), says)
	}
	refuse(w.runWith("desk-1", map[string]string{"DSN": ""}, nil, "counts"), "FENCEROW_DSN is missing")
	equal(t, "connections to the database", accepted.Load(), 0)
	equal(t, "requests to the ledger", len(w.stub.Journal()), 0)

	for says, settings := range map[string]map[string]string{
		"--instance-key (FENCEROW_INSTANCE_KEY)": {"INSTANCE_KEY": ""},
		"--delivery-timeout":                     {"LEASE": "10s", "DELIVERY_TIMEOUT": "10s"},
		"--ops-listen":                           {"OPS_LISTEN": "0.0.0.0:0"},
		"--ledger-interval-sec":                  {"LEDGER_INTERVAL_SEC": "0"},
		"--ledger-url (FENCEROW_LEDGER_URL)":     {"LEDGER_URL": ""},
		"FENCEROW_DSN":                           {"DSN": ""},
	} {
		refuse(w.runDaemon(settings), says)
	}
	equal(t, "connections to the database", accepted.Load(), 0)
	t.Logf("%d wrong usages of %d commands: status 80 each, nothing on standard output, no connection opened",
		refused, len(commands))
}
