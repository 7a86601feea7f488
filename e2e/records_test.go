package e2e

import (
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
)

var (
	recordTime = regexp.MustCompile(`^\{"time":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z",`)
	ownWords   = regexp.MustCompile(`"(worker|version|ops_listen)":"[^"]+"`)
)

// text returns each record so far as it stands in the log, without its time, and with the values that differ
// from run to run left out.
func (d *daemon) text() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var lines []string
	for _, r := range d.records {
		if !recordTime.MatchString(r.line) {
			d.t.Errorf("a record that does not begin with its time in UTC: %s", r.line)
		}
		lines = append(lines, ownWords.ReplaceAllString(recordTime.ReplaceAllString(r.line, "{"), `"$1":"..."`))
	}
	return lines
}

// wantText fails the test unless the log consists of these records, each with exactly its attributes.
func (d *daemon) wantText(want string) {
	d.t.Helper()
	got := d.text()
	lines := strings.Split(strings.TrimSpace(want), "\n")
	for i := range max(len(got), len(lines)) {
		switch {
		case i >= len(got):
			d.t.Errorf("record %d is missing: %s", i+1, lines[i])
		case i >= len(lines):
			d.t.Errorf("record %d is not expected: %s", i+1, got[i])
		case got[i] != lines[i]:
			d.t.Errorf("record %d:\n got %s\nwant %s", i+1, got[i], lines[i])
		}
	}
}

// A daemon that is asked for one thing after the other writes these records, at these levels, in this order,
// and no other. Its own counters say the same.
func TestEachClaimAndOutcomeIsARecordWithExactlyItsAttributes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.startAsked(map[string]string{
		"MAX_ATTEMPTS": "2", "BACKOFF_BASE": "1h", "BACKOFF_CAP": "2h", "LOG_LEVEL": "debug",
	})
	byDaemon := actor{args: []string{"--force-due", "--ops-url", d.opsURL()}}
	for _, id := range []string{"good", "cut", "differs", "refused", "last", "held", "after", "lost"} {
		w.enqueueOne("desk-1", id)
	}
	w.enqueueOne("desk-2", "foreign")
	w.fail("cut", 1, ledgerstub.Fault{Mode: ledgerstub.ModeCut, Commit: true})
	w.fail("differs", 0, ledgerstub.Fault{Mode: ledgerstub.ModeStatus, Status: http.StatusUnprocessableEntity,
		Body: `{"type":"https://ledger.example/idempotency-mismatch"}`})
	w.fail("refused", 0, answers(http.StatusUnprocessableEntity))
	w.fail("last", 0, answers(http.StatusTooEarly))
	w.fail("held", 1, answers(http.StatusServiceUnavailable))
	for _, step := range []struct {
		id     string
		status int
	}{
		{"good", 0}, {"good", 2}, {"nowhere", 2}, {"foreign", 3}, {"cut", 5}, {"cut", 0}, {"differs", 5},
		{"refused", 5}, {"last", 5}, {"last", 5}, {"held", 5}, {"after", 0},
	} {
		want(t, w.process(byDaemon, step.id), step.status)
	}
	w.lose(byDaemon, "lost")
	d.stop()
	records, err := os.ReadFile("testdata/records.jsonl")
	check(t, err)
	d.wantText(string(records))
}

// lose has the daemon deliver an entry that another finishes meanwhile.
func (w *world) lose(a actor, id string) {
	w.t.Helper()
	w.fail(id, 1, ledgerstub.Fault{Mode: ledgerstub.ModeSlow, Stall: ledgerstub.Millis(time.Second)})
	processing := w.spawn("desk-1", nil, append([]string{"process", "--json", id}, a.args...)...)
	until(w.t, patience, "the delivery", func() bool { return len(w.stub.Sends("desk-1:"+id)) > 0 })
	w.db.Exec(w.t, `
WITH done AS (
    DELETE FROM fencerow.ledger_pending
    WHERE outbox_id = (SELECT outbox_id FROM fencerow.ledger_outbox WHERE correlation_id = $1)
    RETURNING *
), released AS (
    DELETE FROM fencerow.ledger_claim
)
INSERT INTO fencerow.ledger_outcome (
    outbox_id, life, instance_key, status, outcome, attempt_count, claim_epoch, outcome_at
)
SELECT outbox_id, life, instance_key, 'completed', 'completed', 1, 1, now()
FROM done`, id)
	want(w.t, processing.wait(), 4)
}

// A row of a claim that expired is counted in the record of the claim that takes it over.
func TestABatchClaimTellsItsRowsAndHowManyWereTakenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.enqueueOne("desk-1", "fresh")
	w.enqueueOne("desk-1", "taken-over")
	w.db.Exec(t, `
INSERT INTO fencerow.ledger_claim (
    claim_token, claim_epoch, instance_key, claimed_by, claimed_at, lease_expires_at, outbox_ids
)
SELECT
    gen_random_uuid(), 1, 'desk-1', 'gone', now() - interval '1 h', now() - interval '1 s', ARRAY[outbox_id]
FROM fencerow.ledger_outbox
WHERE correlation_id = 'taken-over'`)
	d := w.start("desk-1", map[string]string{"LEDGER_INTERVAL_SEC": "3600", "BATCH_LIMIT": "7"})
	w.awaitDrained(patience, "desk-1")
	d.stop()
	line := ""
	for _, text := range d.text() {
		if strings.Contains(text, `"reclaimed_count"`) {
			line = text
		}
	}
	equal(t, "the record of the claim", line, `{"level":"INFO","msg":"batch claimed","instance_key":"desk-1",`+
		`"claim_result":"claimed","count":2,"limit":7,"correlation_ids":["fresh","taken-over"],`+
		`"reclaimed_count":1}`)
}

// An unexpected error of a poll is one record with a reason, the instance and a type, and the loop goes on
// with the next poll.
func TestAFailedPollIsOneRecordAndTheLoopGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.enqueueOne("desk-1", "waits")
	w.db.Exec(t, `
CREATE FUNCTION fencerow.broken() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the text of the server';
END
$$`)
	w.db.Exec(t, `
CREATE TRIGGER broken BEFORE INSERT ON fencerow.ledger_claim FOR EACH ROW EXECUTE FUNCTION fencerow.broken()`)
	d := w.start("desk-1", map[string]string{"LEDGER_INTERVAL_SEC": "0.05", "LOG_LEVEL": "debug"})
	d.await("ten failed polls", func() bool { return len(d.log("poll failed")) >= 10 })
	w.db.Exec(t, `DROP FUNCTION fencerow.broken() CASCADE`)
	w.awaitDrained(patience, "desk-1")
	d.stop()
	const failed = `{"level":"ERROR","msg":"poll failed","instance_key":"desk-1",` +
		`"reason":"ledger_writer_run_once_failed","exc_type":"*pgconn.PgError"}`
	text := d.text()
	polls := len(d.log("poll failed"))
	want := slices.Repeat([]string{failed}, polls)
	want = slices.Insert(want, 3, // the third in a row is told besides, once
		`{"level":"WARN","msg":"store failing","instance_key":"desk-1","reason":"store_failed"}`,
		`{"level":"WARN","msg":"alert","instance_key":"desk-1","alert":"store_failing","worker":"...",`+
			`"reason":"store_failed","count":1}`)
	text = text[1:] // without that of its start
	for i, record := range want {
		equal(t, "record of a failed poll", text[i], record)
	}
	// The second may follow the first at once, by a tick that came while that one was at work; each of the
	// others waits for a tick of its own, and the first of those for one that is still to come.
	records := d.log("poll failed")
	const interval = 50 * time.Millisecond
	if took := records[polls-1].Time.Sub(records[0].Time); took < time.Duration(polls-3)*interval {
		t.Errorf("%d records of failed polls in %s: more than one a poll", polls, took)
	}
	if line := text[len(want)]; !strings.Contains(line, `"msg":"batch claimed"`) {
		t.Errorf("after the failed polls: %s", line)
	}
}
