package ledgerstub_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
)

func TestBooksOnceAndComparesContent(t *testing.T) {
	s := start(t, ledgerstub.Options{})
	first := body("a", "slot", "1.50")
	got := s.send("desk:a", 5, first)
	s.expect(got, 201, `{"result":"CREATED","correlation_id":"a","ledger_ref":"stub-1","content_digest":"`+
		digest(first)+`","snapshot":{"slot_id":"slot","currency":"USD","cash_balance":"1.5","version":1}}`)
	s.expect(s.send("desk:b", 5, body("b", "slot", "-0.25")), 201, `"cash_balance":"1.25","version":2`)
	s.expect(s.send("desk:a", 6, first), 200,
		`{"result":"DUPLICATE_OK","correlation_id":"a","ledger_ref":"stub-1"`)
	s.expect(s.send("desk:a", 7, body("a", "slot", "2")), 409, "content-conflict")
	s.expect(s.send("desk:a", 6, first), 409, "stale-fencing-token")
	s.expect(s.send("desk:a", 7, first), 200, "DUPLICATE_OK")
	s.expect(s.send(`"desk:a"`, 7, first), 200, "DUPLICATE_OK")

	if b, ok := s.Booking("desk:a"); !ok || string(b.Body) != first || b.Epoch != 5 || b.Ref != "stub-1" {
		t.Errorf("booking is %+v", b)
	}
	want := ledgerstub.Counters{Requests: 7, Booked: 2, Duplicates: 3, Refused: 2}
	if got := s.Counters(); got != want {
		t.Errorf("counters are %+v, want %+v", got, want)
	}
	balances := s.Balances()
	if len(balances) != 1 || balances[0].Balance.String() != "1.25" || balances[0].Version != 2 {
		t.Errorf("balances are %+v", balances)
	}
}

func TestEntryWithoutSlotHasNoSnapshot(t *testing.T) {
	s := start(t, ledgerstub.Options{})
	entry := `{"instance_key":"desk","correlation_id":"a","slot_id":null,"currency":null,"cash_delta":"0",` +
		`"payload":{}}`
	if got := s.send("desk:a", 1, entry); got.status != 201 || strings.Contains(got.body, "snapshot") {
		t.Errorf("got %+v", got)
	}
}

func TestSlotsOfTwoInstancesAreKeptApart(t *testing.T) {
	s := start(t, ledgerstub.Options{})
	s.send("desk:a", 1, body("a", "slot", "1"))
	s.expect(s.send("bench:a", 1, strings.Replace(body("a", "slot", "1"), "desk", "bench", 1)), 201,
		`"version":1`)
}

func TestRequestsThatAreNotUnderstoodBookNothing(t *testing.T) {
	s := start(t, ledgerstub.Options{})
	good := body("a", "slot", "1")
	s.expect(s.send("", 1, good), 400, "idempotency-key-missing")
	s.expect(s.send("k", 1, good, "Content-Digest", "sha-256=:AAAA:"), 400, "content-digest-wrong")
	for _, bad := range []string{"", "[]", "{", `{"correlation_id":1}`, `{"instance_key":"x"}`,
		strings.Replace(good, `"1"`, `"1e9"`, 1), strings.Replace(good, `"1"`, `1`, 1)} {
		s.expect(s.send("k", 1, bad), 400, "not-an-entry")
	}
	s.expect(s.send("k", 1, `{"p":"`+strings.Repeat("x", 1<<20)+`"}`), 413, "too-large")
	s.expect(s.get("/v1/elsewhere"), 404, "not-found")
	s.expect(s.get("/control/counters"), 404, "not-found")
	if c := s.Counters(); c.Booked != 0 || c.Refused != 10 {
		t.Errorf("counters are %+v", c)
	}
}

func TestTokenIsRequiredAndCanBeRotated(t *testing.T) {
	s := start(t, ledgerstub.Options{Token: "one"})
	entry := body("a", "slot", "1")
	s.expect(s.send("k", 1, entry), 401, "unauthorized")
	s.expect(s.get(ledgerstub.EntriesPath+"/k"), 401, "unauthorized")
	s.expect(s.send("k", 1, entry, "Authorization", "Bearer one"), 201, "CREATED")
	s.SetToken("two")
	s.expect(s.send("k", 1, entry, "Authorization", "Bearer one"), 401, "unauthorized")
	s.expect(s.send("k", 1, entry, "Authorization", "Bearer two"), 200, "DUPLICATE_OK")
	s.SetToken("")
	s.expect(s.send("k", 1, entry), 200, "DUPLICATE_OK")
}

func TestReadBackTellsWhatIsBooked(t *testing.T) {
	s := start(t, ledgerstub.Options{})
	entry := body("a/b", "slot", "1")
	path := ledgerstub.EntriesPath + "/desk:a%2Fb"
	s.expect(s.get(path), 404, "not-found")
	s.send("desk:a/b", 1, entry)
	s.expect(s.get(path), 200,
		`{"correlation_id":"a/b","ledger_ref":"stub-1","content_digest":"`+digest(entry)+`"`)
	if c := s.Counters(); c.Readbacks != 2 || c.Requests != 1 {
		t.Errorf("counters are %+v", c)
	}
}

func TestConcurrentRequestsForOneKeyBookOnce(t *testing.T) {
	s := start(t, ledgerstub.Options{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 25 {
				id := fmt.Sprint("e", i)
				if got := s.send("desk:"+id, 1, body(id, "slot", "1")); got.status != 200 && got.status != 201 {
					t.Errorf("got %+v", got)
				}
			}
		})
	}
	wg.Wait()
	c := s.Counters()
	if c.Booked != 25 || c.Duplicates != 175 || s.Balances()[0].Balance.String() != "25" {
		t.Errorf("counters are %+v, balances %+v", c, s.Balances())
	}
	report := ledgerstub.Check(s.Journal(), ledgerstub.CheckOptions{})
	if report.Requests != 200 || report.Keys != 25 || report.Extra() != 175 || len(report.BookedTwice) != 0 {
		t.Errorf("report is %+v", report)
	}
}

// What a hundred thousand take, a million take ten times: under a gigabyte.
func TestRequestTakesLessThanAKibibyte(t *testing.T) {
	const workers, each = 2, 50_000
	s := ledgerstub.New(ledgerstub.Options{})
	before := heap()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { drive(t, s, w, each) })
	}
	wg.Wait()
	if used := (heap() - before) / (workers * each); used > 1<<10 {
		t.Errorf("%d bytes for each request", used)
	}
	if c := s.Counters(); c.Booked != workers*each || c.Requests != workers*each {
		t.Errorf("counters are %+v", c)
	}
	journal := s.Journal()
	for i := 1; i < len(journal); i++ {
		if journal[i].Arrival < journal[i-1].Arrival {
			t.Fatalf("record %d arrived before record %d", i, i-1)
		}
	}
	report := ledgerstub.Check(journal, ledgerstub.CheckOptions{})
	if report.Booked != workers*each || len(report.Repeated)+len(report.Falls)+len(report.Overlaps) != 0 {
		t.Errorf("report: %d booked, %d repeated", report.Booked, len(report.Repeated))
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
