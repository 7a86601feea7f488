package e2e

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
)

const (
	// pollEvery is the daemons' interval in these tests.
	pollEvery = 100 * time.Millisecond
	// unanswered is their delivery timeout where the ledger hangs; elsewhere nothing may time out.
	unanswered = 1500 * time.Millisecond
	// fewAttempts and longestPause make all retries of an entry together short: where the ledger hangs,
	// fewAttempts * unanswered + longestPause, and otherwise next to nothing.
	fewAttempts  = 2
	longestPause = 50 * time.Millisecond
	// outage is longer than that.
	outage = 5 * time.Second
)

// impatient are settings of a daemon that soon has tried everything.
func impatient(worker string) map[string]string {
	return map[string]string{
		"WORKER": worker, "LEDGER_INTERVAL_SEC": strconv.FormatFloat(pollEvery.Seconds(), 'f', -1, 64),
		"MAX_ATTEMPTS": strconv.Itoa(fewAttempts), "BACKOFF_BASE": "20ms", "BACKOFF_CAP": longestPause.String(),
	}
}

// fills returns n lines of entries named prefix-1 and so on.
func fills(prefix string, n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, `{"correlation_id":"%s-%d","entry_kind":"fill","slot_id":"slot-%d","cash_delta":"-%d.25",`+
			`"currency":"EUR","payload":{"n":%d}}`+"\n", prefix, i+1, i%7, i%100, i+1)
	}
	return b.Bytes()
}

func TestAnOutageOfTheLedgerDeadLettersNothing(t *testing.T) {
	t.Parallel()
	fail := func(fault ledgerstub.Fault) func(*testing.T, *gate) {
		return func(t *testing.T, g *gate) {
			_, err := g.stub.AddRule(ledgerstub.Rule{Fault: fault})
			check(t, err)
		}
	}
	mend := func(_ *testing.T, g *gate) {
		g.stub.ClearRules()
		g.stub.Release()
	}
	for _, kind := range []struct {
		name       string
		begin, end func(*testing.T, *gate)
		reason     fencerow.ReasonCode
	}{
		{
			"RefusingConnections", func(_ *testing.T, g *gate) { g.close() }, func(_ *testing.T, g *gate) { g.open() },
			fencerow.ReasonConnectRefused,
		},
		{
			"Hanging", fail(ledgerstub.Fault{Mode: ledgerstub.ModeHang}), mend, fencerow.ReasonDeliveryTimeout,
		},
		{
			"CuttingConnections", fail(ledgerstub.Fault{Mode: ledgerstub.ModeCut}), mend,
			fencerow.ReasonConnectionCut,
		},
		{
			"Answering500ToAll", fail(ledgerstub.Fault{Mode: ledgerstub.ModeStatus, Status: 500}), mend,
			fencerow.ReasonLedgerError,
		},
	} {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			o := newOutage(t)
			if kind.reason == fencerow.ReasonDeliveryTimeout {
				o.timesOut = true
				o.settings["DELIVERY_TIMEOUT"] = unanswered.String()
			}
			kind.begin(t, o.gate)
			o.enqueueLines("desk-1", fills("e", o.entries))
			o.startBoth()
			o.watch(kind.reason)
			o.nothingLost()
			kind.end(t, o.gate)
			o.allDelivered()
			t.Log(o.summary)
		})
	}
}

// outageWorld is a world with two daemons of one instance and a ledger that goes down.
type outageWorld struct {
	*world
	gate    *gate
	daemons []*daemon
	entries int
	// timesOut says that the delivery timeout is short, so that a busy machine may repeat what it has delivered.
	timesOut bool
	summary  string
}

func newOutage(t *testing.T) *outageWorld {
	t.Helper()
	w := newWorld(t)
	o := &outageWorld{world: w, gate: newGate(t, w.stub), entries: size(t, 5000, 5000)}
	w.settings["LEDGER_URL"] = o.gate.url
	return o
}

func (o *outageWorld) startBoth() {
	for _, worker := range []string{"first", "second"} {
		o.daemons = append(o.daemons, o.start("desk-1", impatient(worker)))
	}
}

// watch lets the outage last once both daemons have found out, and counts what they do meanwhile.
func (o *outageWorld) watch(reason fencerow.ReasonCode) {
	o.t.Helper()
	for _, d := range o.daemons {
		equal(o.t, "reason of the hold", d.awaitRecord("target held").Reason, string(reason))
	}
	// What was claimed before they found out is on its way back.
	until(o.t, patience, "the end of the claims of many rows", func() bool {
		return one[int](o.world, `
SELECT coalesce(max(cardinality(outbox_ids)), 0)
FROM fencerow.ledger_claim`) <= 1
	})
	sentBefore := len(o.stub.Journal())
	began := time.Now()
	<-time.After(outage) // how long the outage lasts, known to both
	ended := time.Now()
	polls := int(ended.Sub(began)/pollEvery) + 2
	sent, probes, tried := 0, 0, 0
	// By the time that each record bears: a busy machine delivers them late, and looks late itself.
	tokens := map[int64]bool{}
	for _, r := range o.stub.Journal()[sentBefore:] {
		if !r.ArrivedAt.Before(began) && !r.ArrivedAt.After(ended) {
			sent++
			tokens[r.Epoch] = true
		}
	}
	equal(o.t, "probes that the ledger saw, by their fencing tokens", len(tokens), sent)
	meanwhile := func(records []record) []record {
		return slices.DeleteFunc(records, func(r record) bool {
			return r.Time.Before(began) || r.Time.After(ended)
		})
	}
	for _, d := range o.daemons {
		for _, failure := range meanwhile(d.log("outcome recorded")) {
			equal(o.t, "reason of a failed probe", failure.Reason, string(reason))
			tried++
		}
		claims := meanwhile(d.log("batch claimed"))
		for _, claim := range claims {
			equal(o.t, "rows of a probe", claim.Count, 1)
		}
		if len(claims) > polls || len(claims) < polls/4 {
			o.t.Errorf("%d probes in a time of at most %d polls", len(claims), polls)
		}
		probes += len(claims)
		equal(o.t, "alerts of the hold", len(d.log("target held")), 1)
	}
	// When counting began, a daemon may have had probes on their way that it had claimed before: as many as
	// there are polls in the time that one takes.
	onTheirWay := len(o.daemons) * int(unanswered/pollEvery+1)
	if sent > probes+onTheirWay || tried > probes+onTheirWay {
		o.t.Errorf("%d requests arrived and %d failed for %d probes", sent, tried, probes)
	}
	o.summary = fmt.Sprintf("%d entries, 2 daemons, %s down once known: %d requests before it was known, then "+
		"%d polls at most each; of both together %d probes, %d requests seen by the ledger, %d failures recorded",
		o.entries, outage, sentBefore, polls, probes, sent, tried)
}

// nothingLost is called while the ledger is down.
func (o *outageWorld) nothingLost() {
	o.t.Helper()
	// What was charged before the outage was known for one is given back, by a poll each.
	until(o.t, patience, "attempts all given back", func() bool {
		return one[int](o.world, `SELECT sum(attempt_count)::int FROM fencerow.ledger_pending`) == 0
	})
	equal(o.t, "pending", o.pendingOf("desk-1"), o.entries)
	equal(o.t, "outcomes", one[int](o.world, `SELECT count(*) FROM fencerow.ledger_outcome`), 0)
	equal(o.t, "booked", int(o.stub.Counters().Booked), 0)
}

// allDelivered is called once the ledger is back.
func (o *outageWorld) allDelivered() {
	o.t.Helper()
	began := time.Now()
	o.awaitDrained(patience, "desk-1")
	took := time.Since(began).Round(100 * time.Millisecond)
	o.summary += fmt.Sprintf("; all delivered %s after it was back", took)
	resumed := 0
	for _, d := range o.daemons {
		resumed += len(d.log("target resumed"))
		d.stop()
		for _, r := range d.log() {
			if r.Level == "ERROR" {
				o.t.Errorf("an error in the log: %+v", r)
			}
		}
	}
	if resumed == 0 {
		o.t.Error("no daemon has said that the ledger is back")
	}
	type counts struct{ Statuses map[string]int }
	shown := document[counts](o.t, o.mustRun("desk-1", "counts", "--json"))
	equal(o.t, "completed", shown.Statuses["completed"], o.entries)
	if !o.timesOut {
		equal(o.t, "entries that needed more than one attempt", one[int](o.world, `
SELECT count(*)
FROM fencerow.ledger_outcome
WHERE attempt_count <> 1`), 0)
	}
	report := ledgerstub.Check(o.stub.Journal(), ledgerstub.CheckOptions{Slack: time.Second})
	equal(o.t, "booked", report.Booked, o.entries)
	if len(report.BookedTwice)+len(report.Changed)+len(report.Falls)+len(report.Overlaps) > 0 {
		o.t.Errorf("the journal: %d booked twice, %d changed, %d tokens fell, %d overlap",
			len(report.BookedTwice), len(report.Changed), len(report.Falls), len(report.Overlaps))
	}
}
