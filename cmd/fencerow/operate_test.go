package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

func TestRequeueOfOneEntry(t *testing.T) {
	t.Parallel()
	db := withLegacy(t, insertLegacy+`('unowned', 'fill', NULL, 0, NULL, '{}')`)
	stub, url := startStub(t)
	c := at(db.DSN(), desk).with("FENCEROW_LEDGER_URL=" + url)
	enqueue(t, c, "a")
	enqueue(t, at(db.DSN(), "desk-2"), "foreign")
	addRule(t, stub, ledgerstub.Rule{Fault: status(422), Count: 1})
	pending, failed := fencerow.StatusPending, fencerow.StatusPermanentFailure
	requeue := func(status int, id, from, result string, found *fencerow.Status) {
		t.Helper()
		doc := document[requeueDoc](t, c, status, "requeue", id, "--from", from)
		if doc.Result != result || (doc.Status == nil) != (found == nil) || found != nil && *doc.Status != *found {
			t.Errorf("%s from %s: %+v", id, from, doc)
		}
	}
	requeue(exitNothingDone, "a", "permanent_failure", "wrong_status", &pending)
	c.want(t, exitNotCompleted, "process", "a")
	requeue(exitNothingDone, "a", "dead_lettered", "wrong_status", &failed)
	requeue(0, "a", "permanent_failure", "requeued", &pending)
	requeue(exitNothingDone, "a", "permanent_failure", "wrong_status", &pending)
	requeue(exitNothingDone, "nobody", "permanent_failure", "not_found", nil)
	requeue(exitRefused, "foreign", "permanent_failure", "foreign_instance", nil)
	requeue(exitRefused, "unowned", "permanent_failure", "foreign_instance", nil)
	c.want(t, 0, "process", "a")
}

func TestHoldIsDurableAndIdempotent(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	c := at(db.DSN(), desk)
	for _, step := range []struct {
		verb          string
		held, changed bool
	}{
		{"resume", false, false}, {"hold", true, true}, {"hold", true, false}, {"resume", false, true},
	} {
		doc := document[holdDoc](t, c, 0, step.verb)
		if doc != (holdDoc{desk, step.held, step.changed}) {
			t.Errorf("%s: %+v", step.verb, doc)
		}
		if since := document[countsDoc](t, c, 0, "counts").HeldSince; (since != nil) != step.held {
			t.Errorf("after %s: held since %v", step.verb, since)
		}
	}
	mustContain(t, c.want(t, 0, "hold").stdout, "desk-1 is on hold\n")
	mustContain(t, c.want(t, 0, "hold").stdout, "desk-1 was on hold already; nothing changed\n")
	mustContain(t, c.want(t, 0, "counts").stdout, "on hold since")
	mustContain(t, c.want(t, 0, "resume").stdout, "desk-1 is not on hold any more\n")
	mustContain(t, c.want(t, 0, "resume").stdout, "desk-1 was not on hold; nothing changed\n")
}

func TestSlotGetsItsStrategy(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	c := at(db.DSN(), desk)
	doc := document[slotDoc](t, c, 0, "slot", "slot-1", "--strategy", "mean reversion")
	if doc != (slotDoc{"slot-1", "mean reversion"}) {
		t.Errorf("%+v", doc)
	}
	slots, err := openTestStore(t, db.DSN()).Slots(t.Context(), desk)
	if err != nil || len(slots) != 1 || slots[0].Strategy != "mean reversion" {
		t.Errorf("%+v, %v", slots, err)
	}
}

func TestWhatIsNotThereIsToldAlikeByRequeueAndProcess(t *testing.T) {
	t.Parallel()
	c := at(pgtest.NewDatabase(t, schema).DSN(), desk).with("FENCEROW_LEDGER_URL=http://127.0.0.1:9/entries")
	r := c.want(t, exitNothingDone, "requeue", "nobody", "--from", "dead_lettered")
	mustContain(t, r.stderr, "fencerow: nothing done: the instance has no such entry")
	mustContain(t, c.want(t, exitNothingDone, "process", "nobody").stderr, "fencerow: nothing done: ")
}

func TestPruneLoopsOverBoundedCalls(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	stub, url := startStub(t)
	c := at(db.DSN(), desk).with("FENCEROW_LEDGER_URL="+url, "FENCEROW_LOG_LEVEL=error")
	addRule(t, stub, ledgerstub.Rule{Key: "desk-1:blocked", Fault: status(422)})
	var lines strings.Builder
	const all = 1500 // more than one call deletes
	for i := range all {
		lines.WriteString(line(fmt.Sprintf("id-%d", i)))
	}
	c.reading(lines.String()+line("blocked")).want(t, 0, "enqueue", "-")
	c.want(t, exitNotCompleted, "backfill", "--batch-limit", "1000")
	enqueue(t, c, "waiting")

	if n := document[pruneDoc](t, c, 0, "prune", "--older-than", "1d").Deleted; n != 0 {
		t.Errorf("%d fresh entries deleted", n)
	}
	if n := document[pruneDoc](t, c, 0, "prune", "--older-than", "0s", "--limit", "7").Deleted; n != 7 {
		t.Errorf("%d deleted with a limit of 7", n)
	}
	if n := document[pruneDoc](t, c, 0, "prune", "--older-than", "0s").Deleted; n != all-7 {
		t.Errorf("%d deleted, want %d", n, all-7)
	}
	counts := document[countsDoc](t, c, 0, "counts")
	if counts.Statuses[fencerow.StatusCompleted] != 0 || counts.Statuses[fencerow.StatusPermanentFailure] != 1 ||
		counts.Statuses[fencerow.StatusPending] != 1 {
		t.Errorf("%+v", counts)
	}
	mustContain(t, c.want(t, 0, "prune", "--older-than", "36h").stdout, "0 entries deleted")
}

func TestAgeIsReadInDaysToo(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"0d": 0, "90d": 90 * day, "36h": 36 * time.Hour, "1m30s": 90 * time.Second, "65535d": 65535 * day,
	} {
		var got age
		if err := got.UnmarshalText([]byte(text)); err != nil || time.Duration(got) != want {
			t.Errorf("%s is %v, %v", text, time.Duration(got), err)
		}
	}
	for _, text := range []string{
		"", "d", "-1d", "1.5d", "99999999d", "90", "-1s", "1w", "0", "+0", "-0", "00",
	} {
		var got age
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is read as %v", text, time.Duration(got))
		}
	}
}
