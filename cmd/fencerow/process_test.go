package main

import (
	"context"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/daemon"
	"github.com/fourblocks2020/fencerow/internal/ledger"
	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
	"github.com/fourblocks2020/fencerow/internal/observe"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
	"github.com/fourblocks2020/fencerow/internal/slots"
	"github.com/fourblocks2020/fencerow/internal/writer"
)

func process(id, claim string, outcome fencerow.OutcomeKind, reason string) daemon.ProcessResult {
	return daemon.ProcessResult{
		CorrelationID: fencerow.CorrelationID(id), ClaimResult: claim, Outcome: outcome, Reason: reason,
	}
}

func TestProcessStatuses(t *testing.T) {
	t.Parallel()
	db := withLegacy(t, insertLegacy+`('unowned', 'fill', NULL, 0, NULL, '{}')`)
	stub, url := startStub(t)
	c := at(db.DSN(), desk).with("FENCEROW_LEDGER_URL="+url, "FENCEROW_LOG_FORMAT=json", "FENCEROW_LEASE=5s",
		"FENCEROW_DELIVERY_TIMEOUT=2s", "FENCEROW_BACKOFF_BASE=1h", "FENCEROW_BACKOFF_CAP=2h")
	enqueue(t, c, "good", "retry", "refused", "last", "leased", "held")
	enqueue(t, at(db.DSN(), "desk-2"), "foreign")
	addRule(t, stub, ledgerstub.Rule{Key: "desk-1:retry", Count: 2, Fault: status(500)})
	addRule(t, stub, ledgerstub.Rule{Key: "desk-1:refused", Fault: status(422)})
	addRule(t, stub, ledgerstub.Rule{Key: "desk-1:last", Fault: status(425)})
	_, err := openTestStore(t, db.DSN()).ClaimOne(t.Context(), fencerow.ClaimOneParams{
		Instance: desk, Worker: "other", Token: fencerow.NewClaimToken(), CorrelationID: "leased", Lease: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}

	for _, step := range []struct {
		status int
		want   daemon.ProcessResult
		args   []string
	}{
		{0, process("good", "claimed", fencerow.OutcomeCompleted, ""), nil},
		{2, process("good", "unavailable", "", "finished"), nil},
		{2, process("leased", "unavailable", "", "leased"), nil},
		{2, process("nobody", "unavailable", "", "unknown"), nil},
		{3, process("foreign", "foreign_instance", "", "foreign_instance"), nil},
		{3, process("unowned", "foreign_instance", "", "foreign_instance"), nil},
		{5, process("retry", "claimed", fencerow.OutcomeRetryableFailure, "ledger_error"), nil},
		{2, process("retry", "unavailable", "", "not_due"), nil},
		{5, process("retry", "claimed", fencerow.OutcomeRetryableFailure, "ledger_error"), []string{"--force-due"}},
		{0, process("retry", "claimed", fencerow.OutcomeCompleted, ""), []string{"--force-due"}},
		{5, process("refused", "claimed", fencerow.OutcomePermanentFailure, "content_refused"), nil},
		{5, process("last", "claimed", fencerow.OutcomeDeadLettered, "not_ready"),
			[]string{"--max-attempts", "1"}},
	} {
		args := append([]string{"process", string(step.want.CorrelationID)}, step.args...)
		if got := document[daemon.ProcessResult](t, c, step.status, args...); got != step.want {
			t.Errorf("%v: %+v, want %+v", args, got, step.want)
		}
	}
	c.want(t, 0, "hold")
	got := document[daemon.ProcessResult](t, c, 2, "process", "held")
	if want := process("held", "unavailable", "", "instance_held"); got != want {
		t.Errorf("on hold: %+v", got)
	}
	if n := len(stub.Sends("desk-2:foreign")); n != 0 {
		t.Errorf("another instance's entry was sent %d times", n)
	}
}

func TestProcessSaysToPeopleWhatItDid(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	_, url := startStub(t)
	c := at(db.DSN(), desk).with("FENCEROW_LEDGER_URL=" + url)
	enqueue(t, c, "a")
	r := c.want(t, 0, "process", "a")
	golden(t, "text/process.txt", r.stdout)
	mustContain(t, r.stderr, `msg="targeted claim"`, "claim_result=claimed", "outcome=completed")
	mustContain(t, c.want(t, 2, "process", "a").stderr, "nothing done: the entry cannot be claimed (finished)")
}

// While the delivery hangs, the lease is made to run out and another worker takes the entry over.
func TestReclaimedEntryIsClaimLost(t *testing.T) {
	t.Parallel()
	// Without its limit the backfill could reclaim the entry itself, before the other does.
	for _, args := range [][]string{{"process", "a"}, {"backfill", "--limit", "1"}} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			db := pgtest.NewDatabase(t, schema)
			stub, url := startStub(t)
			c := at(db.DSN(), desk).with("FENCEROW_LEDGER_URL=" + url)
			enqueue(t, c, "a")
			arrived, goOn := make(chan struct{}, 8), make(chan struct{})
			stub.Fail(func(ledgerstub.Request) *ledgerstub.Fault {
				arrived <- struct{}{}
				<-goOn
				return nil
			})
			cmd, stdout, stderr := c.start(t, append([]string{"--json"}, args...)...)
			<-arrived
			takeOver(t, db)
			close(goOn)
			if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != exitClaimLost {
				t.Fatalf("status %d\n%s\n%s", cmd.ProcessState.ExitCode(), stdout, stderr)
			}
			golden(t, "text/lost_"+args[0]+".json", stdout.String())
			mustContain(t, stderr.String(), "claim_result=lost", "dropped_outcome=completed", "lost")
			state := document[showDoc](t, c, 0, "show", "a")
			if state.Status != fencerow.StatusPending || state.Lease == nil || state.Lease.Worker != "other" {
				t.Errorf("the other's claim was touched: %+v", state)
			}
		})
	}
}

// takeOver lets every lease end, and has another worker claim entry a.
func takeOver(t *testing.T, db *pgtest.Database) {
	t.Helper()
	db.Exec(t, `UPDATE fencerow.ledger_claim
SET claimed_at = claimed_at - interval '1 hour', lease_expires_at = lease_expires_at - interval '1 hour'`)
	_, err := openTestStore(t, db.DSN()).ClaimOne(t.Context(), fencerow.ClaimOneParams{
		Instance: desk, Worker: "other", Token: fencerow.NewClaimToken(), CorrelationID: "a", Lease: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestDatabaseThatIsDownIsAFailure(t *testing.T) {
	t.Parallel()
	_, url := startStub(t)
	c := at("postgres://127.0.0.1:1/none", desk).with("FENCEROW_LEDGER_URL=" + url).reading(line("a"))
	for _, args := range everyCommand {
		r := c.want(t, 1, args...)
		mustContain(t, r.stderr, "fencerow: ")
		if args[0] != "doctor" {
			mustContain(t, r.stderr, "store_unavailable", "check that the server runs")
		}
	}
}

func TestSchemaOfAnotherVersionIsAFailure(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, nil)
	c := at(db.DSN(), desk)
	mustContain(t, c.want(t, 1, "counts").stderr, "store_schema_mismatch", "fencerow migrate up")
	c.want(t, 0, "migrate", "up")
	c.want(t, 0, "counts")
	db.Exec(t, "UPDATE fencerow.schema_version SET version = 99")
	c.want(t, 0, "counts") // the schema says that this program works with it
	db.Exec(t, `
CREATE OR REPLACE FUNCTION fencerow.oldest_program() RETURNS integer LANGUAGE sql AS 'SELECT 99'`)
	mustContain(t, c.want(t, 1, "counts").stderr, "store_schema_mismatch")
	mustContain(t, c.want(t, 1, "migrate", "up").stderr, "schema_newer")
}

// polledOnce tells when its first poll is over.
type polledOnce struct {
	daemon.Writer

	once sync.Once
	done chan struct{}
}

func (w *polledOnce) Poll(ctx context.Context) (writer.PollResult, error) {
	defer w.once.Do(func() { close(w.done) })
	return w.Writer.Poll(ctx)
}

// startDaemon runs a daemon that polls once and then not for an hour, and returns the address of its ops
// listener once that poll is over: what is enqueued from then on waits.
func startDaemon(t *testing.T, dsn, ledgerURL, tokenFile string) string {
	t.Helper()
	store := openTestStore(t, dsn)
	adapter, err := ledger.New(ledger.Config{URL: ledgerURL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(adapter.Close)
	handler, err := observe.NewHandler(t.Output(), observe.FormatText, nil)
	if err != nil {
		t.Fatal(err)
	}
	observer, err := observe.New(handler, desk, observe.Alerting{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := writer.New(store, adapter, observer, writer.Config{Instance: desk, Worker: "daemon"})
	if err != nil {
		t.Fatal(err)
	}
	first := &polledOnce{Writer: w, done: make(chan struct{})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close() // for the daemon to bind
	d, err := daemon.New(daemon.Config{
		Store: store, Writers: []daemon.Writer{first}, Observer: observer, Worker: "daemon",
		Interval: time.Hour, Grace: time.Second,
		OpsListen: address, OpsTokenFile: tokenFile,
		Slots: slots.NewBuilder(store, desk, "worker-1", slots.CountersOf(observer)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		defer close(ended)
		ended <- d.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the daemon: %v", err)
		}
	})
	client, err := daemon.NewClient("http://"+address, fencerow.Secret{})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		t.Fatalf("the daemon ended: %v", err)
	case <-first.done:
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if ready, err := client.Ready(t.Context()); err == nil && ready.Ready {
			return "http://" + address
		}
		select {
		case err := <-ended:
			t.Fatalf("the daemon ended: %v", err)
		case <-tick.C:
		}
	}
}

func TestProcessByTheRunningDaemon(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	stub, url := startStub(t)
	ops := startDaemon(t, db.DSN(), url, "")
	enqueue(t, at(db.DSN(), desk), "a", "refused")
	enqueue(t, at(db.DSN(), "desk-2"), "foreign")
	addRule(t, stub, ledgerstub.Rule{Key: "desk-1:refused", Fault: status(422)})
	// Neither a database nor a ledger is given.
	c := command{env: []string{"FENCEROW_INSTANCE_KEY=" + desk, "FENCEROW_OPS_URL=" + ops}}
	for _, step := range []struct {
		status int
		want   daemon.ProcessResult
	}{
		{0, process("a", "claimed", fencerow.OutcomeCompleted, "")},
		{2, process("a", "unavailable", "", "finished")},
		{3, process("foreign", "foreign_instance", "", "foreign_instance")},
		{5, process("refused", "claimed", fencerow.OutcomePermanentFailure, "content_refused")},
	} {
		got := document[daemon.ProcessResult](t, c, step.status, "process", string(step.want.CorrelationID))
		if got != step.want {
			t.Errorf("%+v, want %+v", got, step.want)
		}
	}
	other := c.with("FENCEROW_INSTANCE_KEY=desk-2")
	mustContain(t, other.want(t, 3, "process", "foreign").stderr, "serves another instance; nothing was done")
	nobody := c.with("FENCEROW_OPS_URL=http://127.0.0.1:1")
	mustContain(t, nobody.want(t, 1, "process", "a").stderr, "daemon_unreachable", "check that fencerowd runs")
}

func TestBackfillDrainsAndSaysWhatCameOfIt(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	stub, url := startStub(t)
	c := at(db.DSN(), desk).with("FENCEROW_LEDGER_URL=" + url)
	enqueue(t, at(db.DSN(), "desk-2"), "foreign")
	if doc := document[backfillDoc](t, c, 0, "backfill"); doc.Claimed != 0 || len(doc.Outcomes) != 6 {
		t.Errorf("of nothing: %+v", doc)
	}
	enqueue(t, c, "a", "b", "c", "d")
	doc := document[backfillDoc](t, c, 0, "backfill", "--limit", "3")
	if doc.Claimed != 3 || doc.Lost != 0 || doc.Outcomes[fencerow.OutcomeCompleted] != 3 {
		t.Errorf("of three: %+v", doc)
	}
	enqueue(t, c, "e")
	addRule(t, stub, ledgerstub.Rule{Key: "desk-1:e", Fault: status(422)})
	doc = document[backfillDoc](t, c, 5, "backfill")
	if doc.Claimed != 2 || doc.Outcomes[fencerow.OutcomeCompleted] != 1 ||
		doc.Outcomes[fencerow.OutcomePermanentFailure] != 1 {
		t.Errorf("of the rest: %+v", doc)
	}
	if n := len(stub.Sends("desk-2:foreign")); n != 0 {
		t.Errorf("another instance's entry was sent %d times", n)
	}
	golden(t, "text/backfill.txt", c.want(t, 0, "backfill").stdout)
}

func TestBackfillStopsForAHoldAndForALedgerThatIsDown(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	stub, url := startStub(t)
	c := at(db.DSN(), desk).with("FENCEROW_LEDGER_URL=" + url)
	enqueue(t, c, "a", "b", "c")
	c.want(t, 0, "hold")
	mustContain(t, c.want(t, 2, "backfill").stderr, "on hold")
	c.want(t, 0, "resume")
	addRule(t, stub, ledgerstub.Rule{Fault: status(503)})
	r := c.want(t, 5, "backfill", "--concurrency", "1")
	mustContain(t, r.stderr, "the ledger as a whole fails (ledger_unavailable)")
	counts := document[countsDoc](t, c, 0, "counts")
	if counts.Statuses[fencerow.StatusPending] != 3 || counts.Leased != 0 {
		t.Errorf("%+v", counts)
	}
}

// What an interrupted backfill holds is recorded or given back.
func TestBackfillThatIsInterruptedLeavesNothingLeased(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	stub, url := startStub(t)
	c := at(db.DSN(), desk).with("FENCEROW_LEDGER_URL="+url, "FENCEROW_GRACE=10s")
	ids := strings.Fields(strings.Repeat("x ", 50))
	for i := range ids {
		ids[i] += string(rune('a'+i/26)) + string(rune('a'+i%26))
	}
	enqueue(t, c, ids...)
	arrived, goOn := make(chan struct{}, len(ids)), make(chan struct{})
	stub.Fail(func(ledgerstub.Request) *ledgerstub.Fault {
		arrived <- struct{}{}
		<-goOn
		return nil
	})
	cmd, _, stderr := c.start(t, "backfill", "--concurrency", "2")
	<-arrived
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	close(goOn)
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("status %d: %s", cmd.ProcessState.ExitCode(), stderr)
	}
	mustContain(t, stderr.String(), "interrupted")
	counts := document[countsDoc](t, c, 0, "counts")
	all := counts.Statuses[fencerow.StatusPending] + counts.Statuses[fencerow.StatusCompleted]
	if counts.Leased != 0 || all != int64(len(ids)) {
		t.Errorf("%+v", counts)
	}
}
