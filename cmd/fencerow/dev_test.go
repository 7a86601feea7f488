package main

import (
	"bufio"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

func checkDev(t *testing.T, doc *devDoc) {
	t.Helper()
	enqueued := enqueueDoc{Inserted: 9, Duplicate: 1, Conflict: 1}
	if !doc.AsExpected || doc.Enqueued != enqueued || len(doc.Slots) != 2 {
		t.Errorf("%+v", doc)
	}
	sends := 0
	outcomes := map[string]int{}
	for _, e := range doc.Entries {
		if !e.AsExpected {
			t.Errorf("%+v", e)
		}
		sends += e.Sends
		outcomes[text(e.Outcome)]++
	}
	if sends != doc.Deliveries || len(doc.Entries) != 9 {
		t.Errorf("%d deliveries, %d sends, %d entries", doc.Deliveries, sends, len(doc.Entries))
	}
	for _, kind := range fencerow.OutcomeKinds() {
		if n := outcomes[string(kind)]; (n == 0) != (kind == fencerow.OutcomeRetryableFailure) {
			t.Errorf("%d ended %s", n, kind)
		}
	}
}

func TestDevOnceNeedsNothing(t *testing.T) {
	t.Parallel()
	// A database that is named in the environment is left alone.
	address, connections := trap(t)
	c := command{env: []string{"FENCEROW_DSN=postgres://" + address + "/db", "FENCEROW_INSTANCE_KEY=production"}}
	doc := document[devDoc](t, c, 0, "dev", "--once")
	checkDev(t, &doc)
	if doc.Store != "memory" || doc.Instance != "dev" || connections.Load() != 0 {
		t.Errorf("%+v, with %d connections", doc, connections.Load())
	}
	r := command{}.want(t, 0, "dev", "--once")
	mustContain(t, r.stdout, "WHAT THE LEDGER DOES WITH IT", "duplicate_completed", "dead_lettered (not_ready")
	mustContain(t, r.stderr, "the whole job on this machine", "Everything came out as it must", "Next:")
	if strings.Contains(r.stderr, "level=") {
		t.Error("the log is shown although nobody asked")
	}
	mustContain(t, command{}.want(t, 0, "dev", "--once", "--log").stderr, "level=INFO", "msg=stopped")
}

func TestDevOnceOnPostgreSQLTakesAnInstanceOfItsOwn(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	c := at(db.DSN(), desk)
	enqueue(t, c, "real") // must not be delivered to the stub
	doc := document[devDoc](t, c, 0, "dev", "--once", "--dsn")
	checkDev(t, &doc)
	if doc.Store != "postgresql" || !strings.HasPrefix(string(doc.Instance), "dev-") {
		t.Errorf("%+v", doc)
	}
	if counts := document[countsDoc](t, c, 0, "counts"); counts.Statuses[fencerow.StatusPending] != 1 {
		t.Errorf("%+v", counts)
	}
	counts := document[countsDoc](t, at(db.DSN(), string(doc.Instance)), 0, "counts")
	if counts.Statuses[fencerow.StatusCompleted] != 6 || counts.Leased != 0 {
		t.Errorf("%+v", counts)
	}
	// On a database without the schema it says what to do.
	empty := at(pgtest.NewDatabase(t, nil).DSN(), desk)
	mustContain(t, empty.want(t, 1, "dev", "--once", "--dsn").stderr, "fencerow migrate up")
}

// Without --once it runs until a signal, serves its addresses meanwhile, and ends well.
func TestDevKeepsRunningUntilASignal(t *testing.T) {
	t.Parallel()
	port := "127.0.0.1:" + freePort(t)
	cmd := exec.CommandContext(t.Context(), binary, "dev", "--ops-listen", port)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stdout strings.Builder
	cmd.Stdout = &stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := ""
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		said += lines.Text() + "\n"
		if strings.Contains(lines.Text(), "dead_lettered") { // the last of the samples
			break
		}
	}
	// The entry that another process asks for is finished by then.
	c := command{env: []string{"FENCEROW_INSTANCE_KEY=dev", "FENCEROW_OPS_URL=http://" + port}}
	c.want(t, exitNothingDone, "process", "fill-1001")
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(stderr)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, rest)
	}
	mustContain(t, said, "curl -s http://"+port+"/readyz", "/control/rules", "Ctrl-C")
	mustContain(t, string(rest), "msg=stopped")
	mustContain(t, stdout.String(), "fill-1001", "duplicate_completed")
}

func TestDevSaysWhichAddressIsTaken(t *testing.T) {
	t.Parallel()
	address, _ := trap(t)
	mustContain(t, command{}.want(t, 1, "dev", "--ops-listen", address).stderr, "--ops-listen")
	mustContain(t, command{}.want(t, 1, "dev", "--once", "--ledger-listen", address).stderr, "--ledger-listen")
}
