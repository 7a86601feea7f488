package e2e

import (
	"strings"
	"testing"
	"time"
)

// Between its start and its stop a daemon with nothing to do writes nothing, however often it polls.
// That takes a minute on any machine, hence the name of the file: of the tests that wait for their turn in
// parallel, go test begins with the last, and the others pass in the meantime.
func TestAMinuteOfIdlePollsWritesNoRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := newMeter(t, w.db)
	minute := time.Duration(size(t, 60, 60)) * time.Second
	d := w.start("desk-1", map[string]string{
		"DSN": m.dsn, "LEDGER_INTERVAL_SEC": "0.01", "LOG_LEVEL": "debug", "LOG_FORMAT": "json",
	})
	d.awaitRecord("started")
	until(t, patience, "the first polls", func() bool { return m.read().RoundTrips > 20 })
	before := m.read()
	<-time.After(minute) // how long it has nothing to do
	used := m.read().since(before)
	equal(t, "records after a minute", len(d.log()), 1)
	polls := int64(minute / (10 * time.Millisecond))
	if used.RoundTrips > polls+polls/100+1 || used.RoundTrips < polls/10 {
		t.Errorf("%d round trips in %s at an interval of 10 ms", used.RoundTrips, minute)
	}
	d.stop()
	d.wantText(strings.ReplaceAll(`
{"level":"INFO","msg":"started",@,"worker":"...","version":"...","ops_listen":"..."}
{"level":"INFO","msg":"stopping",@,"worker":"..."}
{"level":"INFO","msg":"stopped",@,"worker":"..."}
`, "@", `"instance_key":"desk-1"`))
	t.Logf("%d round trips in %s at an interval of 10 ms, and not one record", used.RoundTrips, minute)
}
