package ledgerstub_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
)

func TestControlSaysWhatTheStubSays(t *testing.T) {
	s := start(t, ledgerstub.Options{Control: true})
	c := ledgerstub.Client{Base: s.url, HTTP: s.client}
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	fault := ledgerstub.Fault{
		Mode: ledgerstub.ModeStatus, Status: 503, Commit: true, Stall: ledgerstub.Millis(2 * time.Millisecond),
		Header: map[string]string{"Retry-After": "1"},
	}
	id, err := c.AddRule(ctx, ledgerstub.Rule{Key: "desk:a", Count: 1, Fault: fault})
	must(err)
	entry := body("a", "slot", "1")
	s.expect(s.send("desk:a", 1, entry), 503, "")
	s.expect(s.send("desk:a", 2, entry), 200, "DUPLICATE_OK")
	s.expect(s.send("desk:b", 2, body("b", "", "0")), 201, "CREATED")

	rules, err := c.Rules(ctx)
	must(err)
	if len(rules) != 1 || rules[0].ID != id || rules[0].Hits != 2 || !reflect.DeepEqual(rules[0].Fault, fault) {
		t.Errorf("rules are %+v", rules)
	}
	must(c.ClearRules(ctx))
	if len(s.Rules()) != 0 {
		t.Error("the rules are still there")
	}
	counters, err := c.Counters(ctx)
	must(err)
	if counters != s.Counters() || counters.Booked != 2 {
		t.Errorf("counters are %+v", counters)
	}
	balances, err := c.Balances(ctx)
	must(err)
	if len(balances) != 1 || balances[0].Balance.String() != "1" {
		t.Errorf("balances are %+v", balances)
	}
	journal, err := c.Journal(ctx)
	must(err)
	same := func(a, b []ledgerstub.Record) bool {
		for i := range a {
			if i >= len(b) || !a[i].ArrivedAt.Equal(b[i].ArrivedAt) || !a[i].EndedAt.Equal(b[i].EndedAt) {
				return false
			}
			a[i].ArrivedAt, a[i].EndedAt = b[i].ArrivedAt, b[i].EndedAt
		}
		return reflect.DeepEqual(a, b)
	}
	if len(journal) != 3 || !same(journal, s.Journal()) {
		t.Errorf("journal is %+v, want %+v", journal, s.Journal())
	}
	sends, err := c.Sends(ctx, "desk:a")
	must(err)
	if len(sends) != 2 || !same(sends, s.Sends("desk:a")) {
		t.Errorf("sends are %+v", sends)
	}
	bookings, err := c.Bookings(ctx)
	must(err)
	if len(bookings) != 2 || bookings[0].Key != "desk:a" || string(bookings[0].Body) != entry {
		t.Errorf("bookings are %+v", bookings)
	}
	s.expect(s.get("/control/booking?key=desk:a"), 200, entry)
	s.expect(s.get("/control/booking?key=desk:z"), 404, "")
	s.expect(s.get("/control/bookings?key=desk:a"), 200, `"key":"desk:a"`)
	report, err := c.Check(ctx, ledgerstub.CheckOptions{Slack: time.Second, Zombies: []int64{9}})
	must(err)
	if report.Requests != 3 || report.Repeated["desk:a"] != 2 || len(report.Overlaps) != 0 {
		t.Errorf("report is %+v", report)
	}
	must(c.SetToken(ctx, "t"))
	s.expect(s.send("desk:b", 3, body("b", "", "0")), 401, "")
	must(c.Release(ctx))
}

func TestControlRefusesWhatItDoesNotUnderstand(t *testing.T) {
	s := start(t, ledgerstub.Options{Control: true})
	c := ledgerstub.Client{Base: s.url, HTTP: s.client}
	if _, err := c.AddRule(t.Context(), ledgerstub.Rule{Fault: ledgerstub.Fault{Mode: "explode"}}); err == nil {
		t.Error("an unknown mode is accepted")
	}
	s.expect(s.get("/control/check?slack_ms=x"), 400, "")
	s.expect(s.get("/control/check?zombie=x"), 400, "")
	s.expect(s.get("/control/elsewhere"), 404, "")
}

// A request that hangs over the control endpoint's release ends with its connection.
func TestReleaseEndsRequestsThatHang(t *testing.T) {
	s := start(t, ledgerstub.Options{Control: true})
	c := ledgerstub.Client{Base: s.url, HTTP: s.client}
	hanging := make(chan struct{})
	s.Fail(func(ledgerstub.Request) *ledgerstub.Fault {
		close(hanging)
		return &ledgerstub.Fault{Mode: ledgerstub.ModeHang, Commit: true}
	})
	answer := make(chan reply)
	go func() { answer <- s.send("k", 1, body("a", "slot", "1")) }()
	<-hanging
	for {
		if err := c.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-answer:
			if got.err == nil {
				t.Errorf("got %+v", got)
			}
			return
		default: // It was not yet hanging; try again.
		}
	}
}
