package ledger

import (
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/badinput"
)

// flips is how many versions of a document with one byte changed are tried.
const flips = 2000

// cutAnswer is an answer, whole or cut.
type cutAnswer struct {
	status      int
	whole, body string
	// framed has a cut answer end in order, as if it were whole; otherwise the connection ends within it.
	framed bool
}

// cutLedger gives one answer to whatever is asked.
type cutLedger struct{ answer atomic.Pointer[cutAnswer] }

func (c *cutLedger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // what was sent is not the point here
	a := c.answer.Load()
	length := len(a.whole)
	if a.framed {
		length = len(a.body)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(length))
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.body)
	if length > len(a.body) {
		_ = http.NewResponseController(w).Flush() // else nothing of it would be sent
		panic(http.ErrAbortHandler)
	}
}

// serveCut returns the ledger, and an adapter that delivers to it and reads back from it.
func serveCut(t *testing.T, set func(*Config)) (*cutLedger, *HTTP) {
	t.Helper()
	c := &cutLedger{}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	config := Config{URL: server.URL, ReadbackURL: server.URL}
	set(&config)
	h, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return c, h
}

// cutsOf yields each cut of an answer, in both ways.
func cutsOf(status int, whole string) iter.Seq[*cutAnswer] {
	return func(yield func(*cutAnswer) bool) {
		for body := range badinput.Cuts(whole) {
			for _, framed := range []bool{false, true} {
				if !yield(&cutAnswer{status, whole, body, framed}) {
					return
				}
			}
		}
	}
}

// digestFor is the digest of an entry's document.
func digestFor(e *fencerow.Entry) string { return contentDigest(e.AppendDocument(nil)) }

// wholeAnswers are answers that prove a booking, with all that an answer may hold.
func wholeAnswers(digest string) []string {
	rest := `","correlation_id":"a","ledger_ref":"bk-77120","content_digest":"` + digest +
		`","snapshot":{"slot_id":"s","currency":"USD","cash_balance":"12.25","version":7}}`
	return []string{`{"result":"CREATED` + rest, `{"result":"DUPLICATE_OK` + rest}
}

func TestAnAnswerCutAtAnyByteProvesNothing(t *testing.T) {
	t.Parallel()
	e := answeredEntry()
	d := fencerow.Delivery{Entry: e}
	cuts, empty := 0, 0
	for _, strict := range []bool{false, true} {
		ledger, h := serveCut(t, func(c *Config) { c.RequireEcho, c.AcceptedIsDuplicate = strict, true })
		for _, whole := range wholeAnswers(digestFor(e)) {
			for _, status := range []int{200, 202} {
				ledger.answer.Store(&cutAnswer{status, whole, whole, true})
				if a := h.Deliver(t.Context(), d); !booked(a) || a.Snapshot == nil {
					t.Fatalf("the whole answer is %+v", a)
				}
				for cut := range cutsOf(status, whole) {
					if cut.body == "" && cut.framed && !strict {
						empty++ // a success without a body is one, unless an echo is demanded
						continue
					}
					cuts++
					ledger.answer.Store(cut)
					a := h.Deliver(t.Context(), d)
					if a.Class != fencerow.AnswerRetryable || a.Certainty != fencerow.Unknown || !a.Resolve ||
						a.LedgerRef != "" || a.Snapshot != nil || a.RetryAfter != 0 {
						t.Errorf("%d %.300q, framed %v: %+v", status, cut.body, cut.framed, a)
					}
				}
			}
		}
	}
	t.Logf("%d cut successes, none of them proves anything; %d without a body, where no echo is demanded, "+
		"left out", cuts, empty)
}

func TestAReadBackCutAtAnyByteProvesNothing(t *testing.T) {
	t.Parallel()
	e := answeredEntry()
	ledger, h := serveCut(t, func(*Config) {})
	whole := wholeAnswers(digestFor(e))[0]
	ledger.answer.Store(&cutAnswer{http.StatusOK, whole, whole, true})
	if r := h.Resolve(t.Context(), e); r.Result != fencerow.ResolvedEqual {
		t.Fatalf("the whole answer is %+v", r)
	}
	for cut := range cutsOf(http.StatusOK, whole) {
		ledger.answer.Store(cut)
		r := h.Resolve(t.Context(), e)
		if r.Result != fencerow.ResolveFailed || r.LedgerRef != "" || r.Snapshot != nil {
			t.Errorf("%.300q, framed %v: %+v", cut.body, cut.framed, r)
		}
	}
	t.Logf("%d cut read-backs, none of them proves anything", 2*len(whole))
}

// A cut refusal is worth what its status alone is: no word of it counts before all of it is there.
func TestARefusalCutAtAnyByteIsItsStatus(t *testing.T) {
	t.Parallel()
	ledger, h := serveCut(t, func(*Config) {})
	d := fencerow.Delivery{Entry: answeredEntry()}
	cuts := 0
	for _, whole := range []string{
		`{"type":"https://ledger.example/problems/stale-fencing-token","title":"stale","status":409}`,
		`{"type":"about:blank","code":"idempotency_key_reused","detail":"other content"}`,
		`{"error":{"type":"idempotency_error","code":"idempotency_key_in_use"}}`,
		`{"result":"CONFLICT","correlation_id":"a"}`,
	} {
		for _, status := range []int{400, 409, 422, 500} {
			ledger.answer.Store(&cutAnswer{status, whole, "", true})
			want := h.Deliver(t.Context(), d)
			for cut := range cutsOf(status, whole) {
				cuts++
				ledger.answer.Store(cut)
				if a := h.Deliver(t.Context(), d); a != want || booked(a) {
					t.Errorf("%d %q, framed %v: %+v, want %+v", status, cut.body, cut.framed, a, want)
				}
			}
		}
	}
	t.Logf("%d cut refusals, each worth its status", cuts)
}

// An answer with one byte changed means what a plain reading says it means, and nothing else is kept of it.
func TestAnAnswerWithAnyByteChangedIsJudgedByWhatItSays(t *testing.T) {
	t.Parallel()
	e := answeredEntry()
	counts := map[string]int{}
	for _, strict := range []bool{false, true} {
		h, err := New(Config{URL: "https://ledger.example", RequireEcho: strict})
		if err != nil {
			t.Fatal(err)
		}
		digest := digestFor(e)
		for i, whole := range wholeAnswers(digest) {
			for body := range badinput.Flips(whole, uint64(i), flips) {
				r := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, ContentLength: int64(len(body))}
				read := readPlainly([]byte(body), "")
				a := h.success(t.Context(), e, digest, &reply{Response: r, body: []byte(body), sentWhole: true})
				if want := read.success(e, digest, http.StatusOK, false, strict); !sameBut(a, want) {
					t.Errorf("%q is %+v, want %+v", body, a, want)
				}
				read.keeps(t, e, booked(a), a.LedgerRef, a.Snapshot)
				counts[string(a.Class)]++
			}
		}
	}
	t.Logf("answers with one byte changed: %s", fmt.Sprint(counts))
}
