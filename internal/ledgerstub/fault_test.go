package ledgerstub_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
)

func rule(t *testing.T, s *running, r ledgerstub.Rule) {
	t.Helper()
	if _, err := s.AddRule(r); err != nil {
		t.Fatal(err)
	}
}

func TestEveryModeFailsAsItSays(t *testing.T) {
	entry := body("a", "slot", "1")
	cut := func(r reply) bool { return errors.Is(r.err, io.EOF) }
	status := func(status int, part string) func(reply) bool {
		return func(r reply) bool { return r.err == nil && r.status == status && strings.Contains(r.body, part) }
	}
	for mode, ok := range map[ledgerstub.Mode]func(reply) bool{
		ledgerstub.ModeSlow:   status(201, "CREATED"),
		ledgerstub.ModeStatus: status(503, "text"),
		ledgerstub.ModeCut:    cut,
		ledgerstub.ModeReset: func(r reply) bool {
			return errors.Is(r.err, syscall.ECONNRESET) ||
				cut(r)
		},
		ledgerstub.ModeGarbage: func(r reply) bool {
			return r.err != nil &&
				strings.Contains(r.err.Error(), "malformed")
		},
		ledgerstub.ModeTruncated: func(r reply) bool {
			return errors.Is(r.err, io.ErrUnexpectedEOF) &&
				r.status == 201
		},
		ledgerstub.ModeEmpty: func(r reply) bool {
			return r.err == nil && r.status == 200 &&
				r.body == ""
		},
		ledgerstub.ModeHTML:             status(200, "<title>"),
		ledgerstub.ModeOversized:        func(r reply) bool { return r.status == 200 && len(r.body) > 64<<10 },
		ledgerstub.ModeOversizedHeaders: func(r reply) bool { return len(r.header.Get("X-Padding")) > 64<<10 },
		ledgerstub.ModeRedirect: func(r reply) bool {
			return r.status == 307 &&
				r.header.Get("Location") != ""
		},
		ledgerstub.ModeWrongID:     status(201, `"correlation_id":"not-a"`),
		ledgerstub.ModeWrongDigest: status(201, "sha-256=:AAAA"),
		ledgerstub.ModeHang:        cut, // once it is released
	} {
		for _, commit := range []bool{false, true} {
			name := string(mode) + map[bool]string{false: "/before commit", true: "/after commit"}[commit]
			t.Run(name, func(t *testing.T) {
				s := start(t, ledgerstub.Options{})
				rule(t, s, ledgerstub.Rule{Fault: ledgerstub.Fault{
					Mode: mode, Commit: commit, Status: 503, Body: `"text"`, Header: map[string]string{"Retry-After": "7"},
				}})
				if mode == ledgerstub.ModeHang {
					go func() {
						s.await(func() bool { return s.Counters().Requests == 1 })
						s.stop()
					}()
				}
				got := s.send("k", 3, entry)
				if !ok(got) {
					t.Errorf("got %d, %.80q (%v)", got.status, got.body, got.err)
				}
				if got.status == 503 && got.header.Get("Retry-After") != "7" {
					t.Error("the header of the fault is missing")
				}
				s.end()
				_, booked := s.Booking("k")
				if booked != (commit || mode == ledgerstub.ModeSlow) {
					t.Errorf("booked is %v", booked)
				}
				record := s.Journal()[0]
				if record.Fault != mode || record.End < record.Arrival || record.Epoch != 3 || record.Key != "k" {
					t.Errorf("record is %+v", record)
				}
				if booked != (record.Verdict == ledgerstub.VerdictBooked) {
					t.Errorf("verdict is %s", record.Verdict)
				}
				if got.err == nil && mode != ledgerstub.ModeOversizedHeaders && record.Status != got.status {
					t.Errorf("status in the journal is %d, on the wire %d", record.Status, got.status)
				}
			})
		}
	}
}

func TestRulesSkipAndCountAndSelect(t *testing.T) {
	s := start(t, ledgerstub.Options{})
	entry := body("a", "slot", "1")
	down := ledgerstub.Fault{Mode: ledgerstub.ModeStatus, Status: 503}
	rule(t, s, ledgerstub.Rule{KeyPrefix: "desk:", Skip: 1, Count: 2, Fault: down})
	rule(t, s, ledgerstub.Rule{Key: "other", Fault: ledgerstub.Fault{Mode: ledgerstub.ModeStatus, Status: 418}})
	for i, want := range []int{201, 503, 503, 200} {
		if got := s.send("desk:a", 1, entry); got.status != want {
			t.Errorf("request %d: %d, want %d", i, got.status, want)
		}
	}
	for range 2 {
		if got := s.send("other", 1, entry); got.status != 418 {
			t.Errorf("got %d", got.status)
		}
	}
	if got := s.send("others", 1, entry); got.status != 201 {
		t.Errorf("got %d", got.status)
	}
	if rules := s.Rules(); len(rules) != 2 || rules[0].Hits != 4 || rules[1].Hits != 2 || rules[1].ID != 2 {
		t.Errorf("rules are %+v", rules)
	}
	s.ClearRules()
	if got := s.send("other", 1, entry); got.status != 201 {
		t.Errorf("got %d after the rules were cleared", got.status)
	}
}

func TestReadbackRulesLeaveDeliveriesAlone(t *testing.T) {
	s := start(t, ledgerstub.Options{})
	rule(t, s, ledgerstub.Rule{Readback: true, Fault: ledgerstub.Fault{Mode: ledgerstub.ModeStatus,
		Status: 500}})
	s.expect(s.send("k", 1, body("a", "slot", "1")), 201, "CREATED")
	s.expect(s.get(ledgerstub.EntriesPath+"/k"), 500, "")
	s.ClearRules()
	rule(t, s, ledgerstub.Rule{Readback: true, Fault: ledgerstub.Fault{Mode: ledgerstub.ModeWrongDigest}})
	s.expect(s.get(ledgerstub.EntriesPath+"/k"), 200, "sha-256=:AAAA")
}

func TestFunctionDecidesTheFateOfEachRequest(t *testing.T) {
	s := start(t, ledgerstub.Options{})
	seen := make(chan ledgerstub.Request, 4)
	s.Fail(func(r ledgerstub.Request) *ledgerstub.Fault {
		seen <- r
		if r.Epoch == 2 {
			return &ledgerstub.Fault{Mode: ledgerstub.ModeStatus, Status: 429}
		}
		return nil
	})
	entry := body("a", "slot", "1")
	s.expect(s.send("k", 1, entry), 201, "")
	s.expect(s.send("k", 2, entry), 429, "")
	want := ledgerstub.Request{Key: "k", Epoch: 1, Attempt: 1}
	if got := <-seen; got != want {
		t.Errorf("saw %+v, want %+v", got, want)
	}
	s.Fail(nil)
	s.expect(s.send("k", 2, entry), 200, "")
	if len(seen) != 1 {
		t.Error("the function is still asked")
	}
}

func TestDelayComesBeforeTheBookingAndStallAfterIt(t *testing.T) {
	s := start(t, ledgerstub.Options{})
	rule(t, s, ledgerstub.Rule{Key: "delay", Fault: ledgerstub.Fault{
		Mode: ledgerstub.ModeSlow, Delay: ledgerstub.Millis(time.Hour),
	}})
	rule(t, s, ledgerstub.Rule{Key: "stall", Fault: ledgerstub.Fault{
		Mode: ledgerstub.ModeSlow, Stall: ledgerstub.Millis(time.Hour),
	}})
	var wg sync.WaitGroup
	for _, key := range []string{"delay", "stall"} {
		wg.Go(func() { s.expect(s.send(key, 1, body("a", "slot", "1")), 201, "CREATED") })
	}
	booked := func(key string) bool { _, ok := s.Booking(key); return ok }
	s.await(func() bool { return s.Counters().Requests == 2 && booked("stall") })
	if booked("delay") {
		t.Error("booked before the delay")
	}
	s.end()
	wg.Wait()
	if !booked("delay") {
		t.Error("the delayed request was not booked when it was released")
	}
}

// A request that has not begun to hang when serving stops does not hang then: it is answered.
func TestRequestOnItsWayToHangIsAnsweredWhenServingStops(t *testing.T) {
	s := start(t, ledgerstub.Options{})
	s.Fail(func(ledgerstub.Request) *ledgerstub.Fault {
		s.stop()
		for err := error(nil); err == nil; { // The listener is closed after what hangs was released.
			var c net.Conn
			if c, err = net.Dial("tcp", strings.TrimPrefix(s.url, "http://")); err == nil {
				c.Close()
			}
		}
		return &ledgerstub.Fault{Mode: ledgerstub.ModeSlow, Delay: ledgerstub.Millis(time.Hour)}
	})
	s.expect(s.send("k", 1, body("a", "slot", "1")), 201, "CREATED")
}

func TestClientThatGoesAwayInItsBodyIsAborted(t *testing.T) {
	s := start(t, ledgerstub.Options{})
	reader, writer := io.Pipe()
	request, err := http.NewRequest(http.MethodPost, s.url+ledgerstub.EntriesPath, reader)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Idempotency-Key", "k")
	go func() {
		writer.Write([]byte("{")) //nolint:errcheck // a test's request
		writer.CloseWithError(errors.New("no"))
	}()
	if _, err := s.client.Do(request); err == nil { //nolint:bodyclose // there is none
		t.Error("the request succeeded")
	}
	s.end()
	if journal := s.Journal(); len(journal) > 1 || len(journal) == 1 &&
		journal[0].Verdict != ledgerstub.VerdictAborted {
		t.Errorf("journal is %+v", journal)
	}
}

func TestRulesThatCannotWorkAreRefused(t *testing.T) {
	s := ledgerstub.New(ledgerstub.Options{})
	for _, r := range []ledgerstub.Rule{
		{}, {Fault: ledgerstub.Fault{Mode: "explode"}}, {Fault: ledgerstub.Fault{Mode: ledgerstub.ModeStatus}},
		{Fault: ledgerstub.Fault{Mode: ledgerstub.ModeStatus, Status: 101}},
		{Fault: ledgerstub.Fault{Mode: ledgerstub.ModeCut}, Count: -1},
		{Fault: ledgerstub.Fault{Mode: ledgerstub.ModeCut, Delay: -1}},
	} {
		if _, err := s.AddRule(r); err == nil {
			t.Errorf("%+v is accepted", r)
		}
	}
}
