package e2e

import "testing"

func TestADaemonDeliversWhatTheCommandEnqueued(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const line = `{"correlation_id":"c-1","entry_kind":"fill","payload":{"b":1, "a":2}}` + "\n"
	w.enqueueLines("desk-1", []byte(line))
	d := w.start("desk-1", nil)
	w.awaitDrained(patience, "desk-1")
	d.stop()
	booking, ok := w.stub.Booking("desk-1:c-1")
	want := `{"instance_key":"desk-1","correlation_id":"c-1","entry_kind":"fill","slot_id":null,` +
		`"currency":null,"cash_delta":"0","payload":{"b":1, "a":2}}`
	if !ok || string(booking.Body) != want {
		t.Errorf("booked %s, want %s", booking.Body, want)
	}
	equal(t, "sends", len(w.stub.Journal()), 1)
	type counts struct{ Statuses map[string]int }
	shown := document[counts](t, w.mustRun("desk-1", "counts", "--json"))
	equal(t, "completed", shown.Statuses["completed"], 1)
	equal(t, "records of a completion", len(d.log("outcome recorded")), 1)
}
