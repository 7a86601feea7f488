package main

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/daemon"
	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

func TestItDeliversAndStops(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.enqueue(self, "own", 250)
	s.enqueue("instance-b", "foreign", 10)
	p := s.start()
	p.awaitCompleted(250)
	s.enqueue(self, "later", 1)
	p.awaitCompleted(251)
	p.stop()
	equal(t, "pending", s.atRest(), 0)
	report := ledgerstub.Check(s.stub.Journal(), ledgerstub.CheckOptions{})
	equal(t, "keys", report.Keys, 251)
	equal(t, "booked", report.Booked, 251)
	equal(t, "sends beyond one each", report.Extra(), 0)
	if strings.Contains(p.stderr(), sentinel) {
		t.Error("the log shows a payload")
	}
}

func TestStoppedUnderLoadNothingIsLeftOrSentTwice(t *testing.T) {
	t.Parallel()
	const entries = 3000
	s := newScene(t)
	s.rule(ledgerstub.Rule{Fault: ledgerstub.Fault{
		Mode: ledgerstub.ModeSlow, Delay: ledgerstub.Millis(20 * time.Millisecond),
	}})
	s.enqueue(self, "own", entries)
	pending := entries
	for _, after := range []int{1, 100, 333} {
		p := s.start()
		p.awaitCompleted(after)
		p.signal(syscall.SIGTERM)
		began := time.Now()
		equal(t, "status", p.wait(), 0)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("stopping took %v of a grace of 5s", took)
		}
		left := s.atRest()
		equal(t, "recorded and pending", p.completed()+left, pending)
		pending = left
	}
	if pending == 0 {
		t.Fatal("everything was delivered before the stops")
	}
	s.stub.ClearRules()
	p := s.start()
	p.awaitCompleted(pending)
	p.stop()
	report := ledgerstub.Check(s.stub.Journal(), ledgerstub.CheckOptions{})
	equal(t, "requests", report.Requests, entries)
	equal(t, "booked", report.Booked, entries)
}

func TestTheSecondSignalEndsItAtOnce(t *testing.T) {
	t.Parallel()
	for _, signals := range [][2]syscall.Signal{
		{syscall.SIGTERM, syscall.SIGTERM}, {syscall.SIGINT, syscall.SIGTERM}, {syscall.SIGTERM, syscall.SIGINT},
	} {
		s := newScene(t)
		s.settings["GRACE"] = "1h"
		s.settings["DELIVERY_TIMEOUT"] = "24s"
		s.rule(ledgerstub.Rule{Fault: ledgerstub.Fault{Mode: ledgerstub.ModeHang}})
		s.enqueue(self, "own", 1)
		p := s.start()
		p.awaitEvents("batch claimed", 1)
		p.signal(signals[0])
		p.awaitEvents("stopping", 1)
		p.signal(signals[1])
		equal(t, "status", p.wait(), 1)
		equal(t, "outcomes recorded", len(p.events("outcome recorded")), 0)
	}
}

func TestADatabaseThatGoesAwayAndComesBack(t *testing.T) {
	t.Parallel()
	server := pgtest.StartPrivate(t, nil)
	s := newSceneOn(t, server.NewDatabase(t, schema))
	server.Stop(t)

	p := s.start()
	client := p.client("")
	p.awaitEvents("start failed", 1)
	s.readiness(client, daemon.NotReadyStarting, string(fencerow.ErrStoreUnavailable))
	server.Start(t)
	s.enqueueWhenUp("first")
	p.awaitCompleted(1)
	s.readiness(client, "")

	equal(t, "failed polls before the first", len(p.events("poll failed")), 0)
	server.Crash(t)
	p.awaitEvents("poll failed", 3)
	s.readiness(client, daemon.NotReadyFailing, string(fencerow.ErrStoreUnavailable))
	server.Start(t)
	s.enqueueWhenUp("second")
	p.awaitCompleted(2)
	s.readiness(client, "")
	p.stop()
	for _, e := range p.events("poll failed") {
		equal(t, "level", e.Level, "ERROR")
		equal(t, "reason", e.Reason, "ledger_writer_run_once_failed")
		if e.ExcType == "" {
			t.Error("a failed poll has no exc_type")
		}
	}
}

// readiness asks until the daemon gives one of the reasons; an answer of the database is up to a second old.
func (s *scene) readiness(client *daemon.Client, reasons ...string) {
	s.t.Helper()
	var last daemon.Readiness
	for range retries(s.t) {
		doc, err := client.Ready(s.t.Context())
		check(s.t, err)
		last = doc
		for _, reason := range reasons {
			if doc.Reason == reason && doc.Ready == (reason == "") {
				return
			}
		}
	}
	s.t.Fatalf("readiness is %+v, want a reason of %q", last, reasons)
}

// enqueueWhenUp enqueues one entry, on a server that was just started and whose old connections are dead.
func (s *scene) enqueueWhenUp(prefix string) {
	s.t.Helper()
	var err error
	for range retries(s.t) {
		_, err = s.store.EnqueueMany(s.t.Context(), fencerow.EnqueueParams{Instance: self,
			Entries: []fencerow.NewEntry{
				{CorrelationID: fencerow.CorrelationID(prefix), EntryKind: "fill", Payload: []byte(`{}`)},
			}})
		if err == nil {
			return
		}
	}
	s.t.Fatal(err)
}

// retries yields until patience ends: at once, then ten times a second.
func retries(t *testing.T) <-chan struct{} {
	t.Helper()
	attempts, end := make(chan struct{}), time.After(patience)
	stop := t.Context().Done()
	go func() {
		defer close(attempts)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case attempts <- struct{}{}:
			case <-stop:
				return
			case <-end:
				return
			}
			select {
			case <-tick.C:
			case <-stop:
				return
			case <-end:
				return
			}
		}
	}()
	return attempts
}

func TestADatabaseWithoutOurSchemaEndsIt(t *testing.T) {
	t.Parallel()
	s := newSceneOn(t, pgtest.NewDatabase(t, nil))
	p := s.start()
	equal(t, "status", p.wait(), 1)
	if !strings.Contains(p.stderr(), "run fencerow migrate up") {
		t.Errorf("it does not say what to do:\n%s", p.stderr())
	}
}

// No trying again mends it, and the DSN is not read again but for user and password.
func TestASettingThatTheServerRefusesEndsIt(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	s := newSceneOn(t, db)
	dsn, err := url.Parse(db.DSN())
	check(t, err)
	q := dsn.Query()
	q.Set("statement_timeout", sentinel)
	dsn.RawQuery = q.Encode()
	s.settings["DSN"] = dsn.String()
	p := s.start()
	equal(t, "status", p.wait(), 1)
	log := p.stderr()
	if !strings.Contains(log, "store_setting_refused: the connection string holds a setting") ||
		strings.Contains(log, sentinel) {
		t.Errorf("it says:\n%s", log)
	}
}

func TestASchemaFromTheFutureEndsIt(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	db.Exec(t, `UPDATE fencerow.schema_version SET version = 999;
		CREATE OR REPLACE FUNCTION fencerow.oldest_program() RETURNS integer LANGUAGE sql STABLE AS 'SELECT 999'`)
	s := newSceneOn(t, db)
	p := s.start()
	equal(t, "status", p.wait(), 1)
	if !strings.Contains(p.stderr(), "version 999") {
		t.Errorf("it does not say which version it found:\n%s", p.stderr())
	}
}

func TestProcessByTheRunningDaemon(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	token := filepath.Join(t.TempDir(), "token")
	check(t, os.WriteFile(token, []byte("ops-token\n"), 0o600))
	s.settings["OPS_TOKEN_FILE"] = token
	s.settings["LEDGER_INTERVAL_SEC"] = "3600" // only what is asked for happens
	p := s.start()
	client := p.client("ops-token")
	s.readiness(client, "")
	s.enqueue(self, "own", 1)
	s.enqueue(self, "slow", 1)
	s.enqueue("instance-b", "foreign", 1)
	s.rule(ledgerstub.Rule{KeyPrefix: "instance-a:slow", Count: 1, Fault: ledgerstub.Fault{
		Mode: ledgerstub.ModeStatus, Status: 425,
	}})
	type want struct {
		id      fencerow.CorrelationID
		force   bool
		claim   string
		outcome fencerow.OutcomeKind
		reason  string
	}
	for _, w := range []want{
		{"own-0", false, "claimed", fencerow.OutcomeCompleted, ""},
		{"own-0", false, "unavailable", "", "finished"},
		{"slow-0", false, "claimed", fencerow.OutcomeRetryableFailure, "not_ready"},
		{"slow-0", false, "unavailable", "", "not_due"},
		{"slow-0", true, "claimed", fencerow.OutcomeCompleted, ""},
		{"nowhere", false, "unavailable", "", "unknown"},
		{"foreign-0", false, "foreign_instance", "", "foreign_instance"},
	} {
		got, err := client.Process(t.Context(), self, w.id, w.force)
		check(t, err)
		equal(t, "result", got, daemon.ProcessResult{
			CorrelationID: w.id, ClaimResult: w.claim, Outcome: w.outcome, Reason: w.reason,
		})
	}
	_, err := p.client("other").Process(t.Context(), self, "own-0", false)
	if !errors.Is(err, daemon.ErrDaemonToken) {
		t.Errorf("with another token: got %v", err)
	}
	p.stop()
}

func TestANewLedgerTokenIsTakenUp(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	token := filepath.Join(t.TempDir(), "token")
	check(t, os.WriteFile(token, []byte("first-"+sentinel), 0o600))
	s.stub.SetToken("first-" + sentinel)
	s.settings["LEDGER_TOKEN_FILE"] = token
	s.enqueue(self, "before", 5)
	p := s.start()
	p.awaitCompleted(5)

	s.stub.SetToken("second-" + sentinel)
	s.enqueue(self, "after", 50)
	p.awaitEvents("target held", 1)
	check(t, os.WriteFile(token+".new", []byte("second-"+sentinel), 0o600))
	check(t, os.Rename(token+".new", token))
	p.awaitEvents("target resumed", 1)
	p.awaitCompleted(55)
	p.stop()
	if strings.Contains(p.stderr(), sentinel) {
		t.Error("the log shows a token")
	}
	state, err := s.store.Show(t.Context(), fencerow.EntryParams{Instance: self, CorrelationID: "after-0"})
	check(t, err)
	equal(t, "attempts", state.Outcomes[0].Attempts, 1)
}

func TestATokenFileThatOthersCanReadIsWarnedOf(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	token := filepath.Join(t.TempDir(), "token")
	check(t, os.WriteFile(token, []byte("token"), 0o600))
	check(t, os.Chmod(token, 0o644))
	s.settings["LEDGER_TOKEN_FILE"] = token
	p := s.start()
	p.awaitEvents("notice", 1)
	equal(t, "reason", p.events("notice")[0].Reason, "token_file_readable_by_others")
	p.stop()
}
