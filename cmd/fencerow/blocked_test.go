package main

import (
	"strings"
	"testing"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

func TestBlockedEntriesAreListedAndCanBeRequeuedFromTheList(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	stub, url := startStub(t)
	own := at(db.DSN(), desk).with("FENCEROW_LEDGER_URL=" + url)
	other := at(db.DSN(), "desk-2").with("FENCEROW_LEDGER_URL=" + url)
	if doc := document[blockedDoc](t, own, 0, "blocked"); doc.Entries == nil || len(doc.Entries) != 0 {
		t.Errorf("of nothing: %+v", doc)
	}
	enqueue(t, own, "a", "b", "c", "d")
	enqueue(t, other, "foreign")
	addRule(t, stub, ledgerstub.Rule{Count: 4, Fault: status(422)})
	for _, id := range []string{"c", "a", "b"} {
		own.want(t, exitNotCompleted, "process", id)
	}
	other.want(t, exitNotCompleted, "process", "foreign")

	var seen []string
	args := []string{"blocked", "--limit", "2"}
	for {
		page := document[blockedDoc](t, own, 0, args...)
		for i := range page.Entries {
			e := &page.Entries[i]
			seen = append(seen, string(e.CorrelationID))
			if e.Status != fencerow.StatusPermanentFailure || e.Reason == nil || *e.Reason != "content_refused" ||
				e.Attempts != 1 || e.Life != 1 || e.CashDelta != "-12.5" || e.Payload != nil {
				t.Errorf("%+v", e)
			}
		}
		if page.Next == nil {
			break
		}
		args = []string{"blocked", "--limit", "2", "--after", *page.Next}
	}
	if strings.Join(seen, " ") != "a b c" {
		t.Errorf("%v", seen)
	}
	r := own.want(t, 0, "blocked", "--limit", "2")
	mustContain(t, r.stdout, "CORRELATION ID", "SINCE", "permanent_failure", "content_refused")
	mustContain(t, r.stderr, "--after ")
	if doc := document[blockedDoc](t, own, 0, "blocked", "--status", "dead_lettered"); len(doc.Entries) != 0 {
		t.Errorf("of another status: %+v", doc)
	}
	for _, id := range seen {
		own.want(t, 0, "requeue", "--from", "permanent_failure", "--", id)
	}
	if doc := document[blockedDoc](t, own, 0, "blocked"); len(doc.Entries) != 0 {
		t.Errorf("after the requeue: %+v", doc)
	}
}

// A retry moves an entry's due time, and what is due looks young; since when it waits is not moved.
func TestAgeSinceEnqueueIsTold(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	c := at(db.DSN(), desk)
	enqueue(t, c, "a")
	db.Exec(t, `BEGIN; SET LOCAL session_replication_role = replica;
		UPDATE fencerow.ledger_outbox SET enqueued_at = enqueued_at - interval '2 h'; COMMIT`)
	mustContain(t, c.want(t, 0, "pending").stdout, "AGE", "2h0m")
	mustContain(t, c.want(t, 0, "counts").stdout, "The oldest of the pending ones was enqueued 2h0m")
	if doc := document[countsDoc](t, c, 0, "counts"); doc.OldestPending < 7200 || doc.OldestDue > 60 {
		t.Errorf("%+v", doc)
	}
	store := openTestStore(t, db.DSN())
	var x examination
	x.examine(t.Context(), store, desk)
	found := results(doctorDoc{Checks: x.checks})
	if age := found["oldest_pending"]; age.Result != checkWarn || !strings.Contains(age.Detail, "2h0m") ||
		found["lag"].Result != checkOK {
		t.Errorf("%+v, %+v", age, found["lag"])
	}
}
