package e2e

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
	"github.com/fourblocks2020/fencerow/internal/slots/natstest"
)

// askNATS asks for the slots of an instance as any program may; nothing is returned if nobody answers in
// time.
func askNATS(t testing.TB, bus *nats.Conn, instance, spy string, within time.Duration) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	answer, err := bus.RequestWithContext(ctx, "trex.slots.req",
		[]byte(`{"instance_key":"`+instance+`","spy":`+spy+`}`))
	if err != nil {
		return ""
	}
	return string(answer.Data)
}

func getBody(t testing.TB, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	check(t, err)
	response, err := http.DefaultClient.Do(request)
	check(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	check(t, err)
	return string(body)
}

// everyWay asks a daemon of desk-1 for its slots over NATS, by HTTP and by the command over either, and
// returns the answer, which must be the same bytes each time.
func (w *world) everyWay(bus *nats.Conn, natsURL, opsURL, spy string) string {
	w.t.Helper()
	answer := askNATS(w.t, bus, "desk-1", spy, patience)
	args := []string{"slots", "--json", "--spy=" + spy}
	for way, got := range map[string]string{
		"by HTTP":                  getBody(w.t, opsURL+"/v1/slots?spy="+spy),
		"by the command":           w.mustRun("desk-1", append(args, "--ops-url", opsURL)...).stdout,
		"by the command over NATS": w.mustRun("desk-1", append(args, "--nats-url", natsURL)...).stdout,
	} {
		if got != answer {
			w.t.Errorf("%s: %s\nover NATS: %s", way, got, answer)
		}
	}
	return answer
}

// Each outcome once, one claim of each result: then the counters say exactly that, whatever way they are
// asked for.
func TestCountersOfAScriptedRunAreWhatHappened(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server := natstest.Start(t)
	bus, err := nats.Connect(server.URL())
	check(t, err)
	t.Cleanup(bus.Close)
	// A claim that was full is followed by a poll at once, which finds nothing: one batch and one empty poll.
	d := w.startAsked(map[string]string{
		"NATS_URL": server.URL(), "MAX_ATTEMPTS": "2", "BACKOFF_BASE": "1h", "BACKOFF_CAP": "1h",
		"BATCH_LIMIT": "1",
	})
	d.awaitRecord("nats connected")
	ops := d.opsURL()
	until(t, patience, "the poll after the first", func() bool {
		return strings.Contains(askNATS(t, bus, "desk-1", "true", patience), `"empty_polls_total":1,`)
	})
	process := func(status int, want processed, more ...string) {
		t.Helper()
		a := actor{args: []string{"--ops-url", ops}}
		wantProcessed(t, w.process(a, want.CorrelationID, more...), status, want)
	}
	const claimed, foreign = "claimed", "foreign_instance"
	for _, id := range []string{"before", "different", "refused", "dying", "lost"} {
		w.enqueueOne("desk-1", id)
	}
	w.enqueueOne("desk-2", "foreign")

	// completed_total is the entry of the first poll.
	w.bookBefore("before")
	process(0, processed{"before", claimed, "duplicate_completed", ""})
	mismatch := answers(422)
	mismatch.ContentType, mismatch.Body = "application/problem+json", `{"type":"urn:x:idempotency-key-reuse"}`
	w.fail("different", 0, mismatch)
	process(5, processed{"different", claimed, "conflict_blocked", "content_conflict"})
	w.fail("refused", 0, answers(400))
	process(5, processed{"refused", claimed, "permanent_failure", "bad_request"})
	w.fail("dying", 0, answers(425))
	process(5, processed{"dying", claimed, "retryable_failure", "not_ready"})
	process(5, processed{"dying", claimed, "dead_lettered", "not_ready"}, "--force-due")
	process(2, processed{"unknown", "unavailable", "", "unknown"})
	process(3, processed{"foreign", foreign, "", foreign})
	w.loseClaim("lost", ops)

	metrics := `"ledger_outbox_metrics":{"available":true,"scope":"process_lifetime","instance_key":"desk-1",` +
		`"claims":{"empty_polls_total":1,"claimed_batches_total":1,"unavailable_total":1,"lost_total":1,` +
		`"foreign_instance_total":1},"outcomes":{"completed_total":1,"duplicate_completed_total":1,` +
		`"retryable_failure_total":1,"conflict_blocked_total":1,"permanent_failure_total":1,` +
		`"dead_lettered_total":1}}}` + "\n"
	// Three booked entries of 1 EUR each are the slot's balance; three are parked, and their skips are open.
	slot := `{"instance_key":"desk-1","slots":[{"slot_id":"slot-1","strategy":null,"currency":"EUR",` +
		`"cash_balance":"3","ledger_version":3,"pending_cash_delta":[{"currency":"EUR","pending":"0",` +
		`"pending_count":0,"blocked":"3","blocked_count":3}],"open_skips":3,"updated_at":"`
	before, after, _ := strings.Cut(w.everyWay(bus, server.URL(), ops, "true"), `"updated_at":"`)
	equal(t, "the slot", before+`"updated_at":"`, slot)
	_, after, _ = strings.Cut(after, `"}],`)
	// The host's name and the process are the worker's.
	worker, after, _ := strings.Cut(after, `,"oldest`)
	if !strings.HasPrefix(worker, `"worker":"`) || worker == `"worker":""` {
		t.Errorf("the worker that answered: %s", worker)
	}
	equal(t, "what an operator is told", `"oldest`+after, `"oldest_due_age_sec":0,`+metrics)
	plain := w.everyWay(bus, server.URL(), ops, "false")
	if strings.Contains(plain, "metrics") || strings.Contains(plain, "oldest_due") {
		t.Errorf("without spy: %s", plain)
	}
	d.stop()
	if got := askNATS(t, bus, "desk-1", "true", patience); got != "" {
		t.Errorf("after the daemon's end somebody answers: %s", got)
	}
	t.Log("one run with each outcome once, one claim lost, one foreign, one unavailable: eleven counters, " +
		"each 1, the same bytes over NATS, by HTTP and by the command")
}

// bookBefore has the ledger book an entry of desk-1, as if an earlier answer had been lost.
func (w *world) bookBefore(correlationID string) {
	w.t.Helper()
	body := `{"instance_key":"desk-1","correlation_id":"` + correlationID + `","entry_kind":"fill",` +
		`"slot_id":"slot-1","currency":"EUR","cash_delta":"1","payload":{}}`
	request, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.ledgerURL,
		strings.NewReader(body))
	check(w.t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", "desk-1:"+correlationID)
	request.Header.Set("Fencerow-Fencing-Token", "1")
	response, err := http.DefaultClient.Do(request)
	check(w.t, err)
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		answer, _ := io.ReadAll(response.Body)
		w.t.Fatalf("the ledger does not book: %d %s", response.StatusCode, answer)
	}
}

// loseClaim has the daemon process an entry, and lets its lease end and another finish the entry while the
// delivery hangs.
func (w *world) loseClaim(correlationID, ops string) {
	w.t.Helper()
	arrived, leave := make(chan struct{}), make(chan struct{})
	var sends atomic.Int64
	w.stub.Fail(func(ledgerstub.Request) *ledgerstub.Fault {
		if sends.Add(1) == 1 {
			close(arrived)
			<-leave
		}
		return nil
	})
	slow := w.spawn("desk-1", nil, "process", "--json", correlationID, "--ops-url", ops)
	<-arrived
	w.db.Exec(w.t, `UPDATE fencerow.ledger_claim
SET claimed_at = claimed_at - interval '1 hour', lease_expires_at = lease_expires_at - interval '1 hour'`)
	wantProcessed(w.t, w.run("desk-1", "process", "--json", correlationID), 0,
		processed{correlationID, "claimed", "completed", ""})
	close(leave)
	wantProcessed(w.t, slow.wait(), 4, processed{correlationID, "lost", "", "finished"})
}

// NATS comes late, goes and comes again, while entries are delivered as if it did not matter.
func TestNATSThatIsAwayHurtsNeitherDeliveryNorReadiness(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server := natstest.New(t)
	settings := map[string]string{"NATS_URL": server.URL()}
	d := w.start("desk-1", settings)
	entries := 0
	drained := func() {
		t.Helper()
		w.enqueueNumbered("desk-1", entries, entries+20)
		entries += 20
		w.awaitDrained(patience, "desk-1")
		until(t, patience, "readiness", func() bool {
			return strings.Contains(getBody(t, d.opsURL()+"/readyz"), `"ready":true,"reason":""`)
		})
	}
	answered := func() {
		t.Helper()
		want(t, w.runWith("desk-1", settings, nil, "slots", "--spy"), 0)
	}
	records := func(connected, disconnected int) {
		t.Helper()
		d.await("records of NATS", func() bool {
			return len(d.log("nats connected")) == connected && len(d.log("nats disconnected")) == disconnected
		})
	}
	records(0, 1)
	drained()
	want(t, w.runWith("desk-1", settings, nil, "slots"), 1,
		"nats_unreachable", "check that the NATS server runs")
	server.Start()
	records(1, 1)
	answered()
	server.Stop()
	records(1, 2)
	drained()
	server.Start()
	records(2, 2)
	answered()
	drained()
	// A second daemon takes over at once when the first stops.
	second := w.start("desk-1", settings)
	second.awaitRecord("nats connected")
	d.stop()
	answered()
	second.stop()
	want(t, w.runWith("desk-1", settings, nil, "slots"), 1, "nats_nobody_listens")
	for _, r := range append(d.trouble(), second.trouble()...) {
		if r.Msg != "nats disconnected" || r.Reason != "nats_unreachable" {
			t.Errorf("a record of trouble: %+v", r)
		}
	}
	equal(t, "entries booked", len(w.stub.Bookings()), entries)
}
