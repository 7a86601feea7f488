package e2e

import (
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
)

// actor is who processes entries: the command itself, or the running daemon that it asks.
type actor struct {
	name   string
	args   []string // beside `process --json ID`
	daemon *daemon  // nil if the command does it itself
}

// startAsked starts a daemon of desk-1 that has polled, once, and from now on works only when it is asked.
func (w *world) startAsked(settings map[string]string) *daemon {
	w.t.Helper()
	w.enqueueOne("desk-1", "first-poll")
	settings["LEDGER_INTERVAL_SEC"] = "3600"
	d := w.start("desk-1", settings)
	d.await("the first poll", func() bool { return len(d.log("outcome recorded")) == 1 })
	return d
}

// process has an entry of desk-1 processed.
func (w *world) process(a actor, correlationID string, more ...string) result {
	w.t.Helper()
	args := append([]string{"process", "--json", correlationID}, a.args...)
	return w.run("desk-1", append(args, more...)...)
}

// fail makes the ledger fail requests for an entry of desk-1: the first count, or all if that is 0.
func (w *world) fail(correlationID string, count int64, fault ledgerstub.Fault) {
	w.t.Helper()
	_, err := w.stub.AddRule(ledgerstub.Rule{Key: "desk-1:" + correlationID, Count: count, Fault: fault})
	check(w.t, err)
}

func answers(status int) ledgerstub.Fault {
	return ledgerstub.Fault{Mode: ledgerstub.ModeStatus, Status: status}
}

// enqueueOne enqueues an entry in a slot, with an open skip.
func (w *world) enqueueOne(instance, correlationID string) {
	w.t.Helper()
	equal(w.t, "enqueue", one[string](w, `
SELECT result
FROM fencerow.enqueue(
    $1, $2, 'fill', '{}', slot_id => 'slot-1', cash_delta => 1, currency => 'EUR', skip => true
)`, instance, correlationID), "inserted")
}

func TestProcessEndsWithTheStatusOfWhatBecameOfTheEntry(t *testing.T) {
	t.Parallel()
	w := newLegacyWorld(t, `('unowned', 'fill', NULL, 0, NULL, '{}')`)
	w.settings["MAX_ATTEMPTS"], w.settings["BACKOFF_BASE"], w.settings["BACKOFF_CAP"] = "3", "1h", "1h"
	d := w.startAsked(map[string]string{})
	actors := []actor{{"ByItself", nil, nil}, {"ByTheDaemon", []string{"--ops-url", d.opsURL()}, d}}
	w.enqueueOne("desk-2", "foreign")
	unowned, foreign := w.state("", "unowned"), w.state("desk-2", "foreign")

	mismatch := answers(422)
	mismatch.ContentType, mismatch.Body = "application/problem+json", `{"type":"urn:x:idempotency-key-reuse"}`
	for _, a := range actors {
		t.Run(a.name, func(t *testing.T) {
			own := func(id string) string {
				id = strings.ToLower(a.name) + "-" + id
				w.enqueueOne("desk-1", id)
				return id
			}
			logged := 0
			if a.daemon != nil {
				logged = len(a.daemon.log())
			}

			// 0: it is in the ledger.
			fresh := own("fresh")
			wantProcessed(t, w.process(a, fresh), 0, processed{fresh, "claimed", "completed", ""})
			booked := own("booked-before")
			w.fail(booked, 1, ledgerstub.Fault{Mode: ledgerstub.ModeCut, Commit: true})
			wantProcessed(t, w.process(a, booked), 5,
				processed{booked, "claimed", "retryable_failure", "connection_cut"})
			// 2: nothing is done before it is due; unless that is forced, and then it was booked before.
			wantProcessed(t, w.process(a, booked), 2, processed{booked, "unavailable", "", "not_due"})
			wantProcessed(t, w.process(a, booked, "--force-due"), 0,
				processed{booked, "claimed", "duplicate_completed", ""})
			equal(t, "sends of an entry processed three times", len(w.stub.Sends("desk-1:"+booked)), 2)

			// 2: it cannot be claimed.
			wantProcessed(t, w.process(a, fresh), 2, processed{fresh, "unavailable", "", "finished"})
			wantProcessed(t, w.process(a, "unknown"), 2, processed{"unknown", "unavailable", "", "unknown"})
			held := own("held")
			w.mustRun("desk-1", "hold")
			wantProcessed(t, w.process(a, held), 2, processed{held, "unavailable", "", "instance_held"})
			w.mustRun("desk-1", "resume")
			wantProcessed(t, w.process(a, held), 0, processed{held, "claimed", "completed", ""})

			// 3: it is another's, or nobody's.
			const other = "foreign_instance"
			wantProcessed(t, w.process(a, "foreign"), 3, processed{"foreign", other, "", other})
			wantProcessed(t, w.process(a, "unowned", "--force-due"), 3, processed{"unowned", other, "", other})
			equal(t, "the foreign entry", w.state("desk-2", "foreign"), foreign)
			equal(t, "the unowned entry", w.state("", "unowned"), unowned)

			// 5: it was tried and is not in the ledger.
			// The definite answers come last: they show that the ledger is not down as a whole, which would cost the
			// next entry no attempt.
			for _, end := range []struct {
				id      string
				fault   ledgerstub.Fault
				outcome string
				reason  string
			}{
				{"failing", answers(500), "retryable_failure", "ledger_error"},
				{"down", answers(503), "retryable_failure", "ledger_unavailable"},
				{"refused", answers(400), "permanent_failure", "bad_request"},
				{"different", mismatch, "conflict_blocked", "content_conflict"},
			} {
				id := own(end.id)
				w.fail(id, 0, end.fault)
				wantProcessed(t, w.process(a, id), 5, processed{id, "claimed", end.outcome, end.reason})
			}
			dying := own("dying")
			w.fail(dying, 0, answers(425))
			for range 2 {
				want(t, w.process(a, dying, "--force-due"), 5)
			}
			wantProcessed(t, w.process(a, dying, "--force-due"), 5,
				processed{dying, "claimed", "dead_lettered", "not_ready"})

			if a.daemon != nil {
				w.daemonDidIt(t, a.daemon, logged)
			}
		})
	}
	t.Log("process, by itself and by the daemon: status 0 completed and booked before; 2 not due, finished, " +
		"unknown, on hold; 3 foreign, unowned; 5 permanent, conflict, 500, 503, dead letter")
}

// daemonDidIt checks that a daemon's own records tell of the claims and outcomes that it was asked for.
func (w *world) daemonDidIt(t *testing.T, d *daemon, from int) {
	t.Helper()
	claims, outcomes := map[string]int{}, map[string]int{}
	for _, r := range d.log()[from:] {
		switch r.Msg {
		case "targeted claim":
			claims[r.ClaimResult]++
		case "outcome recorded":
			outcomes[r.Outcome] += max(r.Count, 1)
		}
	}
	for result, n := range map[string]int{"claimed": 11, "unavailable": 4, "foreign_instance": 2} {
		equal(t, "targeted claims with result "+result, claims[result], n)
	}
	for outcome, n := range map[string]int{
		"completed": 2, "duplicate_completed": 1, "retryable_failure": 5, "permanent_failure": 1,
		"conflict_blocked": 1, "dead_lettered": 1,
	} {
		equal(t, "outcomes "+outcome, outcomes[outcome], n)
	}
}

func TestProcessFailsWithStatus1WhereItCannotBeDone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nobody := func() string { // an address that refuses connections
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		check(t, err)
		check(t, listener.Close())
		return listener.Addr().String()
	}()
	token := filepath.Join(t.TempDir(), "token")
	writeFile(t, token, "the-token\n")
	wrong := filepath.Join(t.TempDir(), "token")
	writeFile(t, wrong, "another-token\n")
	d := w.startAsked(map[string]string{"OPS_TOKEN_FILE": token, "LEDGER_URL": "http://" + nobody + "/"})
	other := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	w.enqueueOne("desk-1", "c-1")
	before := w.state("desk-1", "c-1")

	down := map[string]string{"DSN": "postgres://user:secret@" + nobody + "/db"}
	r := w.runWith("desk-1", down, nil, "process", "c-1")
	want(t, r, 1, "store_unavailable", "check that the server runs")
	if strings.Contains(r.stderr, "secret") {
		t.Error("the password is shown")
	}
	ask := func(url, tokenFile, instance string) result {
		settings := map[string]string{"OPS_URL": url, "OPS_TOKEN_FILE": tokenFile}
		return w.runWith(instance, settings, nil, "process", "c-1")
	}
	want(t, ask("http://"+nobody, "", "desk-1"), 1, "daemon_unreachable")
	want(t, ask(other.URL, "", "desk-1"), 1, "daemon_answer_unreadable")
	want(t, ask(d.opsURL(), "", "desk-1"), 1, "token_refused", "--ops-token-file")
	want(t, ask(d.opsURL(), wrong, "desk-1"), 1, "token_refused")
	equal(t, "the entry", w.state("desk-1", "c-1"), before)

	// A daemon of another instance refuses, with status 3, and does nothing.
	want(t, ask(d.opsURL(), token, "desk-2"), 3, "serves another instance")
	equal(t, "the entry", w.state("desk-1", "c-1"), before)
	equal(t, "sends", len(w.stub.Journal()), 0)
	// With the token and one's own key it is tried.
	want(t, ask(d.opsURL(), token, "desk-1"), 5)
}

// short settings give a claim a second and a half to start a delivery in, and two seconds after it to expire.
var short = map[string]string{"LEASE": "5s", "DELIVERY_TIMEOUT": "3s"}

// A claim is lost when its holder sleeps past its lease in mid-delivery and another one takes the row.
func TestProcessEndsWithStatus4WhenAnotherFinishedTheEntryMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.startAsked(maps.Clone(short))
	for _, kind := range []struct {
		name string
		args []string
		// zombie is the process that sleeps, where it is not the command itself.
		zombie *daemon
	}{
		{"ByItself", []string{"process", "--json"}, nil},
		{"ByTheDaemon", []string{"process", "--json", "--ops-url", d.opsURL()}, d},
		// With a limit it does not go on to a claim in the midst of which it could be put to sleep.
		{"ByBackfill", []string{"backfill", "--json", "--limit", "1"}, nil},
	} {
		t.Run(kind.name, func(t *testing.T) {
			id := "lost-" + strings.ToLower(kind.name)
			w.enqueueOne("desk-1", id)
			w.fail(id, 1, ledgerstub.Fault{Mode: ledgerstub.ModeHang})
			args := kind.args
			if args[0] == "process" {
				args = append(args, id)
			}
			first := w.spawn("desk-1", short, args...)
			signal := first.signal
			if kind.zombie != nil {
				signal = kind.zombie.signal
			}
			until(t, patience, "the first delivery", func() bool { return len(w.stub.Sends("desk-1:"+id)) == 1 })
			signal(syscall.SIGSTOP)
			refusals := 0
			until(t, patience, "the end of the lease", func() bool {
				r := w.run("desk-1", "process", "--json", id)
				if r.status == 2 {
					wantProcessed(t, r, 2, processed{id, "unavailable", "", "leased"})
					refusals++
					return false
				}
				wantProcessed(t, r, 0, processed{id, "claimed", "completed", ""})
				return true
			})
			before := w.state("desk-1", id)
			signal(syscall.SIGCONT)
			if r := first.wait(); kind.name == "ByBackfill" {
				want(t, r, 4, "1 claims were lost")
				type counts struct{ Claimed, Lost int }
				equal(t, "backfill", document[counts](t, r), counts{1, 1})
			} else {
				wantProcessed(t, r, 4, processed{id, "lost", "", "finished"})
			}
			equal(t, "the entry as the second left it", w.state("desk-1", id), before)
			sends := w.stub.Sends("desk-1:" + id)
			if len(sends) != 2 || sends[1].Epoch <= sends[0].Epoch {
				t.Errorf("sends %+v, want two with rising tokens", sends)
			}
			if kind.zombie != nil {
				lost := kind.zombie.awaitRecord("claim lost")
				equal(t, "the daemon's record", [3]string{lost.CorrelationID, lost.Reason, lost.Dropped},
					[3]string{id, "finished", "retryable_failure"})
				equal(t, "outcomes of the daemon since its first poll", len(kind.zombie.log("outcome recorded")), 1)
			}
			t.Logf("%d tries were refused while the lease stood; then the second finished, and the first ended with 4",
				refusals)
		})
	}
}

func TestProcessEndsWithStatus4WhenTheEntryIsHeldByAnotherOrGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.enqueueOne("desk-1", "taken")
	w.fail("taken", 0, ledgerstub.Fault{Mode: ledgerstub.ModeHang})
	first := w.spawn("desk-1", short, "process", "--json", "taken")
	until(t, patience, "the first delivery", func() bool { return len(w.stub.Sends("desk-1:taken")) == 1 })
	first.signal(syscall.SIGSTOP)
	var second *spawned
	until(t, patience, "the second delivery", func() bool {
		if second == nil {
			second = w.spawn("desk-1", nil, "process", "--json", "taken")
		}
		select {
		case <-second.ended: // the lease stood
			want(t, second.wait(), 2)
			second = nil
		default:
		}
		return len(w.stub.Sends("desk-1:taken")) == 2
	})
	before := w.state("desk-1", "taken")
	first.signal(syscall.SIGCONT)
	wantProcessed(t, first.wait(), 4, processed{"taken", "lost", "", "reclaimed"})
	equal(t, "the entry as the second holds it", w.state("desk-1", "taken"), before)
	w.stub.ClearRules()
	w.stub.Release()
	wantProcessed(t, second.wait(), 5, processed{"taken", "claimed", "retryable_failure", "connection_cut"})

	w.enqueueOne("desk-1", "gone")
	w.fail("gone", 1, ledgerstub.Fault{Mode: ledgerstub.ModeHang, Commit: true})
	holder := w.spawn("desk-1", nil, "process", "--json", "gone")
	until(t, patience, "the delivery", func() bool { return len(w.stub.Sends("desk-1:gone")) == 1 })
	w.db.Exec(t, `DELETE FROM fencerow.ledger_outbox WHERE correlation_id = 'gone'`)
	w.stub.Release()
	wantProcessed(t, holder.wait(), 4, processed{"gone", "lost", "", "missing"})
}
