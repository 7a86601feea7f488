package e2e

import (
	"bytes"
	"fmt"
	"maps"
	"syscall"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
)

// backfilled is the document of `fencerow backfill`.
type backfilled struct {
	Claimed  int            `json:"claimed"`
	Lost     int            `json:"lost"`
	Outcomes map[string]int `json:"outcomes"`
}

// down are settings of a database that is not there.
var down = map[string]string{"DSN": "postgres://nobody@127.0.0.1:1/none?connect_timeout=5"}

func TestBackfillEndsWithTheStatusOfWhatItCameTo(t *testing.T) {
	t.Parallel()
	w := newLegacyWorld(t, `
    ('unowned-1', 'fill', NULL, 0, NULL, '{}'),
    ('unowned-2', 'fill', NULL, 0, NULL, '{}')`)
	w.settings["BACKOFF_BASE"], w.settings["BACKOFF_CAP"] = "1h", "1h"
	w.enqueueLines("desk-2", fills("foreign", 50))
	others := func() string {
		return one[string](w, `
SELECT md5(
    (SELECT string_agg(o::text, chr(10) ORDER BY outbox_id) FROM fencerow.ledger_outbox o
     WHERE instance_key IS DISTINCT FROM 'desk-1')
    || (SELECT string_agg(p::text, chr(10) ORDER BY outbox_id) FROM fencerow.ledger_pending p
        WHERE instance_key <> 'desk-1')
    || (SELECT string_agg(l::text, chr(10) ORDER BY outbox_id) FROM fencerow.ledger_legacy l)
)`)
	}
	before := others()
	backfill := func(status int, doc backfilled, says string, args ...string) {
		t.Helper()
		r := want(t, w.run("desk-1", append([]string{"backfill", "--json"}, args...)...), status, says)
		got := document[backfilled](t, r)
		equal(t, "kinds of outcomes", len(got.Outcomes), len(fencerow.OutcomeKinds()))
		maps.DeleteFunc(got.Outcomes, func(_ string, n int) bool { return n == 0 })
		if fmt.Sprint(got) != fmt.Sprint(doc) {
			t.Errorf("backfill came to %+v, want %+v", got, doc)
		}
	}
	none := map[string]int{}

	// 0: nothing to do, part of it, and all of it.
	backfill(0, backfilled{0, 0, none}, "")
	n := size(t, 2000, 500)
	w.enqueueLines("desk-1", fills("own", n))
	backfill(0, backfilled{7, 0, map[string]int{"completed": 7}}, "", "--limit", "7")
	backfill(0, backfilled{n - 7, 0, map[string]int{"completed": n - 7}}, "")
	// 2: on hold.
	w.enqueueLines("desk-1", fills("more", 10))
	w.mustRun("desk-1", "hold")
	backfill(2, backfilled{0, 0, none}, "on hold")
	w.mustRun("desk-1", "resume")
	// 5: some did not complete.
	w.fail("more-3", 0, answers(400))
	w.fail("more-4", 0, answers(500))
	some := map[string]int{"completed": 8, "permanent_failure": 1, "retryable_failure": 1}
	backfill(5, backfilled{10, 0, some}, "2 entries were tried and are not completed")
	// 5: the ledger fails as a whole; no attempt is used up for it.
	w.stub.ClearRules()
	_, err := w.stub.AddRule(ledgerstub.Rule{Fault: answers(401)})
	check(t, err)
	w.enqueueLines("desk-1", fills("refused", 10))
	want(t, w.run("desk-1", "backfill", "--json"), 5, "the ledger as a whole fails", "credentials_refused")
	equal(t, "attempts used up", one[int](w, `
SELECT sum(p.attempt_count)::int
FROM fencerow.ledger_pending p
JOIN fencerow.ledger_outbox o ON o.outbox_id = p.outbox_id
WHERE o.correlation_id LIKE 'refused-%'`), 0)
	w.stub.ClearRules()

	// 1: interrupted in mid-delivery; what was claimed is recorded or given back.
	late := ledgerstub.Fault{Mode: ledgerstub.ModeSlow, Delay: ledgerstub.Millis(300 * time.Millisecond)}
	_, err = w.stub.AddRule(ledgerstub.Rule{Fault: late})
	check(t, err)
	w.enqueueLines("desk-1", fills("slow", 200))
	began := len(w.stub.Journal())
	s := w.spawn("desk-1", map[string]string{"CONCURRENCY": "2"}, "backfill", "--json")
	until(t, patience, "a delivery", func() bool { return len(w.stub.Journal()) > began })
	s.signal(syscall.SIGTERM)
	interrupted := document[backfilled](t, want(t, s.wait(), 1, "interrupted"))
	equal(t, "completed before it ended", interrupted.Outcomes["completed"], len(w.stub.Journal())-began)
	equal(t, "claims left", one[int](w, `SELECT count(*) FROM fencerow.ledger_claim`), 0)
	// 1: the database is not there.
	want(t, w.runWith("desk-1", down, nil, "backfill"), 1, "store_unavailable")
	// 80: a limit that is none.
	want(t, w.run("desk-1", "backfill", "--limit=-1"), 80, "--limit")

	equal(t, "the digest of what is not desk-1's", others(), before)
	for _, b := range w.stub.Journal() {
		if !bytes.HasPrefix([]byte(b.Key), []byte("desk-1:")) {
			t.Errorf("%s was sent", b.Key)
		}
	}
	t.Logf("backfill: status 0 nothing, %d with a limit, %d without; 2 on hold; 5 entries or the ledger "+
		"failed; 1 interrupted, no database; 80; 50 foreign and 2 unowned rows untouched", 7, n-7)
}

func TestTheOperatorsCommandsEndWithTheirStatus(t *testing.T) {
	t.Parallel()
	w := newLegacyWorld(t, `
    ('unowned', 'fill', NULL, 5, 'EUR', '{"a": 1}'),
    ('twice', 'fill', NULL, 0, NULL, '{}'),
    ('twice', 'fee', NULL, 0, NULL, '{}'),
    ('odd id', 'Fill!', NULL, 0, NULL, '[1]')`)
	w.enqueueOne("desk-2", "foreign")
	w.enqueueOne("desk-1", "parked")
	w.fail("parked", 1, answers(400))
	want(t, w.run("desk-1", "process", "parked"), 5)

	// requeue
	type requeued struct {
		CorrelationID string `json:"correlation_id"`
		Result        string `json:"result"`
		Status        string `json:"status"`
	}
	requeue := func(status int, doc requeued, from string) {
		t.Helper()
		r := want(t, w.run("desk-1", "requeue", "--json", doc.CorrelationID, "--from", from), status)
		equal(t, "requeue", document[requeued](t, r), doc)
	}
	requeue(2, requeued{"parked", "wrong_status", "permanent_failure"}, "dead_lettered")
	requeue(2, requeued{"unknown", "not_found", ""}, "dead_lettered")
	requeue(3, requeued{"foreign", "foreign_instance", ""}, "dead_lettered")
	requeue(3, requeued{"unowned", "foreign_instance", ""}, "dead_lettered")
	requeue(0, requeued{"parked", "requeued", "pending"}, "permanent_failure")
	requeue(2, requeued{"parked", "wrong_status", "pending"}, "permanent_failure")
	want(t, w.run("desk-1", "requeue", "parked", "--from", "completed"), 80, "--from")
	want(t, w.run("desk-1", "process", "parked"), 0)
	sends := w.stub.Sends("desk-1:parked")
	if len(sends) != 2 || sends[0].Digest != sends[1].Digest || sends[1].Epoch <= sends[0].Epoch ||
		sends[1].Attempt != 1 {
		t.Errorf("sends before and after the requeue: %+v", sends)
	}

	// show, and export of what has no owner
	want(t, w.run("desk-1", "show", "parked"), 0)
	want(t, w.run("desk-1", "show", "unknown"), 2, "not_found")
	want(t, w.run("desk-1", "show", "foreign"), 3, "another instance")
	want(t, w.run("desk-1", "show", "unowned"), 3, "another instance or under none")
	want(t, w.run("desk-1", "legacy", "export", "foreign"), 2, "no unowned entry")
	want(t, w.run("desk-1", "legacy", "export", "twice"), 2, "--outbox-id")
	want(t, w.run("desk-1", "legacy", "export", "odd id"), 0, "refuses this line")
	unowned := w.state("", "unowned")
	exported := want(t, w.run("desk-1", "legacy", "export", "unowned"), 0)
	w.enqueueLines("desk-1", []byte(exported.stdout))
	want(t, w.run("desk-1", "process", "unowned"), 0)
	equal(t, "the unowned entry", w.state("", "unowned"), unowned)
	booking, _ := w.stub.Booking("desk-1:unowned")
	if !bytes.HasSuffix(booking.Body, []byte(`"cash_delta":"5","payload":{"a": 1}}`)) {
		t.Errorf("booked %s", booking.Body)
	}
	type legacy struct {
		Count int `json:"legacy_count"`
	}
	equal(t, "unowned entries", document[legacy](t, want(t, w.run("desk-1", "legacy", "--json"), 0)).Count, 4)

	// the rest
	type pruned struct{ Deleted int }
	all := want(t, w.run("desk-1", "prune", "--json", "--older-than", "0s"), 0)
	equal(t, "pruned", document[pruned](t, all), pruned{2})
	want(t, w.run("desk-1", "prune"), 80, "--older-than")
	for _, command := range [][]string{
		{"pending"}, {"cash-delta"}, {"counts"}, {"claims"}, {"hold"}, {"hold"}, {"resume"}, {"resume"},
		{"slot", "slot-1", "--strategy", "momentum"}, {"migrate", "status"},
	} {
		want(t, w.run("desk-1", command...), 0)
		want(t, w.runWith("desk-1", down, nil, command...), 1, "store_unavailable")
	}
	// A test's server may run without fsync, of which doctor must warn.
	type report struct{ Result string }
	diagnosis := w.run("desk-1", "doctor", "--json")
	if failed := document[report](t, diagnosis).Result == "fail"; failed != (diagnosis.status == 1) {
		t.Errorf("doctor ends with %d and says %s", diagnosis.status, diagnosis.stdout)
	}
	diagnosis = want(t, w.runWith("desk-1", down, nil, "doctor", "--json"), 1)
	equal(t, "doctor's result", document[report](t, diagnosis), report{"fail"})
}
