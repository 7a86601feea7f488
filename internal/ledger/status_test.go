package ledger_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/ledger"
)

const (
	delivered = fencerow.AnswerDelivered
	duplicate = fencerow.AnswerDuplicate
	retryable = fencerow.AnswerRetryable
	conflict  = fencerow.AnswerConflict
	permanent = fencerow.AnswerPermanent
	notSent   = fencerow.NotSent
	answered  = fencerow.Answered
	unknown   = fencerow.Unknown
	entry     = fencerow.ScopeEntry
	target    = fencerow.ScopeTarget
)

type header = map[string]string

// answerCase is one row: what the ledger answers, and what it means.
type answerCase struct {
	name   string
	status int
	header header
	body   string
	set    func(*ledger.Config)
	want   fencerow.Answer
}

func (c *answerCase) serve(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body) //nolint:errcheck // a test's request
	if c.body != "" {
		w.Header().Set("Content-Type", "application/json")
	}
	for name, value := range c.header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(c.status)
	io.WriteString(w, c.body) //nolint:errcheck // a test's answer
}

func runCases(t *testing.T, cases []answerCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := newHTTP(t, newServer(t, c.serve).URL, c.set)
			got := h.Deliver(withPatience(t), delivery())
			if !sameAnswer(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func sameAnswer(a, b fencerow.Answer) bool {
	if (a.Snapshot == nil) != (b.Snapshot == nil) {
		return false
	}
	if a.Snapshot != nil {
		if !a.Snapshot.CashBalance.Equal(b.Snapshot.CashBalance) {
			return false
		}
		x, y := *a.Snapshot, *b.Snapshot
		x.CashBalance, y.CashBalance = decimal.Decimal{}, decimal.Decimal{}
		if x != y {
			return false
		}
	}
	a.Snapshot, b.Snapshot = nil, nil
	return a == b
}

func answer(class fencerow.AnswerClass, c fencerow.Certainty, s fencerow.Scope,
	r fencerow.ReasonCode) fencerow.Answer {
	return fencerow.Answer{Class: class, Certainty: c, Scope: s, Reason: r}
}

func resolving(a fencerow.Answer) fencerow.Answer { a.Resolve = true; return a }

func waiting(a fencerow.Answer, d time.Duration) fencerow.Answer { a.RetryAfter = d; return a }

func TestSuccessTable(t *testing.T) {
	ok := answer(delivered, answered, entry, "")
	before := answer(duplicate, answered, entry, "")
	doubt := func(r fencerow.ReasonCode) fencerow.Answer {
		return resolving(answer(retryable, unknown, entry, r))
	}
	contradicts := resolving(answer(conflict, answered, entry, fencerow.ReasonEchoConflict))
	full := ok
	full.LedgerRef = "L-1"
	full.Snapshot = &fencerow.Snapshot{
		SlotID: "slot-a", Currency: "USD", CashBalance: decimal.RequireFromString("87.5"), Version: 12,
	}
	echoed := `"correlation_id":"fill-0001","content_digest":"` + ownDigest() + `"`
	requireEcho := func(c *ledger.Config) { c.RequireEcho = true }
	acceptedIsDuplicate := func(c *ledger.Config) { c.AcceptedIsDuplicate = true }
	snapshot := `{"slot_id":"slot-a","currency":"USD","cash_balance":"87.50","version":12}`
	big := `{"result":"CREATED","x":"` + strings.Repeat("x", 65<<10) + `"}`

	runCases(t, []answerCase{
		{name: "CreatedWithEverything", status: 201, want: full,
			body: `{"result":"CREATED",` + echoed + `,"ledger_ref":"L-1","snapshot":` + snapshot + `,"more":[{}]}`},
		{name: "AnEmptyObjectIsEnough", status: 200, body: "{}", want: ok},
		{name: "NullMembersAreAbsent", status: 200, want: ok,
			body: `{"result":null,"correlation_id":null,"content_digest":null,"ledger_ref":null,"snapshot":null}`},
		{name: "EmptyBody200", status: 200, want: ok},
		{name: "EmptyBody201", status: 201, want: ok},
		{name: "NoContent", status: 204, want: ok},
		{name: "EmptyBodyWithReplayHeader", status: 200, header: header{"Idempotent-Replayed": "true"},
			want: before},
		{name: "EmptyBodyIsNotEnoughWhereEchoIsRequired", status: 201, set: requireEcho,
			want: doubt(fencerow.ReasonAnswerIncomplete)},
		{name: "DuplicateByResult", status: 200, body: `{"result":"DUPLICATE_OK",` + echoed + `}`, want: before},
		{name: "DuplicateByIdempotencyHit", status: 200, header: header{"Idempotency-Hit": "true"}, body: "{}",
			want: before},
		{name: "DuplicateByIdempotentReplayed", status: 200, header: header{"Idempotent-Replayed": "true"},
			body: "{}", want: before},
		{name: "DuplicateByIdempotencyReplayed", status: 201, header: header{"Idempotency-Replayed": "True"},
			body: `{"result":"CREATED"}`, want: before},
		{name: "ReplayHeaderFalseIsNoDuplicate", status: 200, header: header{"Idempotency-Hit": "false"},
			body: "{}", want: ok},
		{name: "OtherCorrelationIDIsConflict", status: 200,
			body: `{"result":"CREATED","correlation_id":"fill-0002"}`,
			want: contradicts},
		{name: "OtherDigestIsConflict", status: 200,
			body: `{"result":"DUPLICATE_OK","content_digest":"sha-256=:AAAA:"}`, want: contradicts},
		{name: "ContradictionBeatsReplayHeader", status: 200, header: header{"Idempotency-Hit": "true"},
			body: `{"correlation_id":"other"}`, want: contradicts},
		{name: "ConflictAsResultOf200IsConflict", status: 200, body: `{"result":"CONFLICT"}`, want: contradicts},
		{name: "DigestOfAnotherKindSaysNothing", status: 200, body: `{"content_digest":"sha-512=:AAAA:"}`,
			want: ok},
		{name: "DigestIsFoundAmongOthers", status: 200, set: requireEcho, want: ok,
			body: `{"correlation_id":"fill-0001","content_digest":"sha-512=:AAAA:, ` + ownDigest() + `"}`},
		{name: "RequiredEchoGiven", status: 200, set: requireEcho, body: `{` + echoed + `}`, want: ok},
		{name: "RequiredEchoWithoutDigest", status: 200, set: requireEcho, body: `{"correlation_id":"fill-0001"}`,
			want: doubt(fencerow.ReasonAnswerIncomplete)},
		{name: "RequiredEchoWithoutID", status: 200, set: requireEcho,
			body: `{"content_digest":"` + ownDigest() + `"}`, want: doubt(fencerow.ReasonAnswerIncomplete)},

		{name: "CaptivePortal", status: 200, header: header{"Content-Type": "text/html"}, body: "<html>",
			want: doubt(fencerow.ReasonAnswerUnreadable)},
		{name: "WrongMediaTypeEvenWithADocument", status: 200, header: header{"Content-Type": "text/plain"},
			body: "{}",
			want: doubt(fencerow.ReasonAnswerUnreadable)},
		{name: "PlusJSONIsJSON", status: 200, header: header{"Content-Type": "application/vnd.ledger+json; v=1"},
			body: "{}", want: ok},
		{name: "Garbage", status: 200, body: "{", want: doubt(fencerow.ReasonAnswerUnreadable)},
		{name: "AnArrayIsNoDocument", status: 200, body: "[]", want: doubt(fencerow.ReasonAnswerUnreadable)},
		{name: "UnknownResult", status: 200, body: `{"result":"PENDING"}`,
			want: doubt(fencerow.ReasonAnswerUnreadable)},
		{name: "ResultOfWrongType", status: 200, body: `{"result":1}`,
			want: doubt(fencerow.ReasonAnswerUnreadable)},
		{name: "EchoOfWrongType", status: 200, body: `{"correlation_id":1}`,
			want: doubt(fencerow.ReasonAnswerUnreadable)},
		{name: "EchoGivenTwice", status: 200, body: `{"correlation_id":"fill-0001","correlation_id":"fill-0001"}`,
			want: doubt(fencerow.ReasonAnswerUnreadable)},
		{name: "NamesAreExact", status: 200, body: `{"Correlation_ID":"other","RESULT":"CONFLICT"}`, want: ok},
		{name: "OverTheLimit", status: 200, body: big, want: doubt(fencerow.ReasonAnswerUnreadable)},
		{name: "CompressedIsNotUnpacked", status: 200, header: header{"Content-Encoding": "gzip"}, body: "{}",
			want: doubt(fencerow.ReasonAnswerUnreadable)},

		{name: "AcceptedIsNotBooked", status: 202, body: "{}", want: doubt(fencerow.ReasonAcceptedNotBooked)},
		{name: "AcceptedWithPage", status: 202, header: header{"Content-Type": "text/html"}, body: "<p>",
			want: doubt(fencerow.ReasonAcceptedNotBooked)},
		{name: "AcceptedEmpty", status: 202, want: doubt(fencerow.ReasonAcceptedNotBooked)},
		{name: "AcceptedAsDuplicateByOption", status: 202, set: acceptedIsDuplicate, want: before},
		{name: "AcceptedAsDuplicateStillChecksTheEcho", status: 202, set: acceptedIsDuplicate,
			body: `{"correlation_id":"other"}`, want: contradicts},
		{name: "AcceptedThatContradicts", status: 202, body: `{"correlation_id":"other"}`, want: contradicts},
		{name: "NonAuthoritative", status: 203, body: "{}", want: doubt(fencerow.ReasonUnexpectedSuccess)},
		{name: "PartialContent", status: 206, body: "{}", want: doubt(fencerow.ReasonUnexpectedSuccess)},
		{name: "MultiStatusEmpty", status: 207, want: doubt(fencerow.ReasonUnexpectedSuccess)},

		{name: "ReferenceOfWrongFormIsDropped", status: 200, body: `{"ledger_ref":"<b> text of the provider"}`,
			want: ok},
		{name: "ReferenceOfWrongTypeIsDropped", status: 200, body: `{"ledger_ref":17}`, want: ok},
	})
}

func TestSnapshotsAreReadStrictly(t *testing.T) {
	refused := answer(delivered, answered, entry, "")
	refused.Snapshot = &fencerow.Snapshot{Version: -1}
	if newEntry().CheckSnapshot(refused.Snapshot) {
		t.Fatal("the snapshot that stands for an unreadable one is accepted")
	}
	var cases []answerCase
	for name, snapshot := range map[string]string{
		"FloatVersion":    `{"slot_id":"slot-a","currency":"USD","cash_balance":"1","version":1.0}`,
		"ExponentVersion": `{"slot_id":"slot-a","currency":"USD","cash_balance":"1","version":1e3}`,
		"NegativeVersion": `{"slot_id":"slot-a","currency":"USD","cash_balance":"1","version":-1}`,
		"HugeVersion":     `{"slot_id":"slot-a","currency":"USD","cash_balance":"1","version":9223372036854775808}`,
		"TextVersion":     `{"slot_id":"slot-a","currency":"USD","cash_balance":"1","version":"1"}`,
		"NumberBalance":   `{"slot_id":"slot-a","currency":"USD","cash_balance":1.5,"version":1}`,
		"ExponentBalance": `{"slot_id":"slot-a","currency":"USD","cash_balance":"1e9","version":1}`,
		"NaNBalance":      `{"slot_id":"slot-a","currency":"USD","cash_balance":"NaN","version":1}`,
		"TooManyDigits": `{"slot_id":"slot-a","currency":"USD","cash_balance":"` + strings.Repeat("9", 39) +
			`","version":1}`,
		"MissingSlot":      `{"currency":"USD","cash_balance":"1","version":1}`,
		"NullCurrency":     `{"slot_id":"slot-a","currency":null,"cash_balance":"1","version":1}`,
		"VersionTwice":     `{"slot_id":"slot-a","currency":"USD","cash_balance":"1","version":1,"version":2}`,
		"NotAnObject":      `"87.50"`,
		"AnArray":          `[1]`,
		"OfAnotherSlot":    `{"slot_id":"slot-b","currency":"USD","cash_balance":"1","version":1}`,
		"OfOtherCurrency":  `{"slot_id":"slot-a","currency":"EUR","cash_balance":"1","version":1}`,
		"SlotOfWrongType":  `{"slot_id":1,"currency":"USD","cash_balance":"1","version":1}`,
		"InvalidUTF8":      "{\"slot_id\":\"\xff\",\"currency\":\"USD\",\"cash_balance\":\"1\",\"version\":1}",
		"EmptyBalanceText": `{"slot_id":"slot-a","currency":"USD","cash_balance":"","version":1}`,
	} {
		cases = append(cases, answerCase{name: name, status: 200, body: `{"snapshot":` + snapshot + `}`,
			want: refused})
	}
	runCases(t, cases)
}

func TestRefusalTable(t *testing.T) {
	problem := func(kind string) string {
		return `{"type":"https://ledger.example/problems/` + kind + `","x":1}`
	}
	code := func(c string) string { return `{"code":"` + c + `"}` }
	stripe := func(kind, code string) string { return `{"error":{"type":"` + kind + `","code":"` + code + `"}}` }
	inFlight := resolving(answer(retryable, answered, entry, fencerow.ReasonInFlight))
	different := answer(conflict, answered, entry, fencerow.ReasonContentConflict)
	badRequest := answer(permanent, answered, entry, fencerow.ReasonBadRequest)
	refused := answer(permanent, answered, entry, fencerow.ReasonContentRefused)
	tooLarge := answer(permanent, answered, entry, fencerow.ReasonTooLarge)
	throttled := answer(retryable, answered, target, fencerow.ReasonThrottled)
	down := answer(retryable, answered, target, fencerow.ReasonLedgerUnavailable)
	retry := func(codes ...int) func(*ledger.Config) {
		return func(c *ledger.Config) { c.RetryableStatus = codes }
	}

	runCases(t, []answerCase{
		{name: "409WithoutAWord", status: 409, want: inFlight},
		{name: "409Exists", status: 409, body: `{"errorCode":"CONFLICT","code":"already_exists"}`, want: inFlight},
		{name: "409InFlight", status: 409, body: stripe("idempotency_error", "idempotency_key_in_use"),
			want: inFlight},
		{name: "409DifferentByResult", status: 409, body: `{"result":"CONFLICT"}`, want: resolving(different)},
		{name: "409DifferentByType", status: 409, body: problem("content-conflict"), want: resolving(different)},
		{name: "409DifferentByCode", status: 409, body: code("IDEMPOTENCY_KEY_REUSED"), want: resolving(different)},
		{name: "409StaleFencingToken", status: 409, header: header{"Content-Type": "application/problem+json"},
			body: problem("stale-fencing-token"), want: answer(retryable, answered, entry,
				fencerow.ReasonStaleFencingToken)},
		{name: "409OfWrongMediaType", status: 409, header: header{"Content-Type": "text/html"},
			body: problem("content-conflict"), want: inFlight},
		{name: "409CreatedIsStillTheStatus", status: 409, body: `{"result":"DUPLICATE_OK"}`, want: inFlight},
		{name: "400", status: 400, body: code("amount_missing"), want: badRequest},
		{name: "400Mismatch", status: 400, body: stripe("idempotency_error", ""), want: different},
		{name: "400StaleFencingTokenIsOnlyFor409", status: 400, body: problem("stale-fencing-token"),
			want: badRequest},
		{name: "422", status: 422, body: problem("insufficient-funds"), want: refused},
		{name: "422Mismatch", status: 422, body: problem("idempotency-key-reused/"), want: different},
		{name: "422MismatchByURN", status: 422, body: `{"type":"urn:ledger:idempotency_mismatch"}`,
			want: different},
		{name: "413", status: 413, want: tooLarge},
		{name: "413WithRetryAfter", status: 413, header: header{"Retry-After": "7"},
			want: waiting(answer(retryable, answered, entry, fencerow.ReasonTooLarge), 7*time.Second)},
		{name: "413WithJunkRetryAfter", status: 413, header: header{"Retry-After": "soon"}, want: tooLarge},
		{name: "408", status: 408, want: answer(retryable, unknown, entry, fencerow.ReasonRequestTimeout)},
		{name: "429WithRetryAfter", status: 429, header: header{"Retry-After": "30"},
			want: waiting(throttled, 30*time.Second)},
		{name: "429TenYears", status: 429, header: header{"Retry-After": "315360000"},
			want: waiting(throttled, time.Hour)},
		{name: "429Negative", status: 429, header: header{"Retry-After": "-5"}, want: throttled},
		{name: "429Soon", status: 429, header: header{"Retry-After": "soon"}, want: throttled},
		{name: "429DateInThePast", status: 429, header: header{"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"},
			want: throttled},
		{name: "429DateFarAhead", status: 429, header: header{"Retry-After": "Fri, 31 Dec 2199 23:59:59 GMT"},
			want: waiting(throttled, time.Hour)},
		{name: "503WithRetryAfter", status: 503, header: header{"Retry-After": "2"},
			want: waiting(down, 2*time.Second)},
		{name: "PermanentIgnoresRetryAfter", status: 400, header: header{"Retry-After": "2"}, want: badRequest},
		{name: "500", status: 500, want: answer(retryable, unknown, entry, fencerow.ReasonLedgerError)},
		{name: "418ConfiguredAsRetryable", status: 418, set: retry(418, 400),
			want: answer(retryable, answered, entry, fencerow.ReasonRetryableStatus)},
		{name: "400ConfiguredAsRetryable", status: 400, set: retry(418, 400),
			want: answer(retryable, answered, entry, fencerow.ReasonRetryableStatus)},
		{name: "MismatchStaysConflictThoughConfigured", status: 400, set: retry(400),
			body: code("idempotency_mismatch"), want: different},
		{name: "RefusalOverTheLimitIsJudgedByStatus", status: 400, body: code(strings.Repeat("x", 65<<10)),
			want: badRequest},
	})
}

// Every status that HTTP can carry has a row; the sets are those of the table, whole.
func TestEveryStatusHasItsRow(t *testing.T) {
	rows := []struct {
		statuses []int
		want     fencerow.Answer
	}{
		{[]int{401, 403, 407}, answer(retryable, answered, target, fencerow.ReasonCredentialsRefused)},
		{[]int{404, 405, 406, 410, 415, 501, 505}, answer(retryable, answered, target,
			fencerow.ReasonEndpointRefused)},
		{[]int{421, 424}, answer(retryable, unknown, target, fencerow.ReasonMisdirected)},
		{[]int{423, 425}, answer(retryable, answered, entry, fencerow.ReasonNotReady)},
		{[]int{429}, answer(retryable, answered, target, fencerow.ReasonThrottled)},
		{[]int{503}, answer(retryable, answered, target, fencerow.ReasonLedgerUnavailable)},
		{[]int{408}, answer(retryable, unknown, entry, fencerow.ReasonRequestTimeout)},
		{[]int{500}, answer(retryable, unknown, entry, fencerow.ReasonLedgerError)},
		{[]int{400}, answer(permanent, answered, entry, fencerow.ReasonBadRequest)},
		{[]int{413}, answer(permanent, answered, entry, fencerow.ReasonTooLarge)},
		{[]int{422}, answer(permanent, answered, entry, fencerow.ReasonContentRefused)},
		{[]int{409}, resolving(answer(retryable, answered, entry, fencerow.ReasonInFlight))},
	}
	server := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) //nolint:errcheck // a test's request
		status, err := strconv.Atoi(strings.Trim(r.URL.Path, "/"))
		if err != nil {
			t.Error(err)
		}
		w.WriteHeader(status)
	})
	for status := 300; status < 1000; status++ {
		want := answer(retryable, unknown, entry, fencerow.ReasonAnswerUnreadable)
		switch {
		case status < 400:
			want = answer(retryable, answered, target, fencerow.ReasonRedirected)
		case status < 500:
			want = answer(permanent, answered, entry, fencerow.ReasonRequestRefused)
		case status < 600:
			want = answer(retryable, unknown, target, fencerow.ReasonLedgerUnavailable)
		}
		for _, row := range rows {
			if slices.Contains(row.statuses, status) {
				want = row.want
			}
		}
		h, err := ledger.New(ledger.Config{URL: fmt.Sprintf("%s/%d", server.URL, status)})
		if err != nil {
			t.Fatal(err)
		}
		if got := h.Deliver(withPatience(t), delivery()); got != want {
			t.Errorf("%d: got %+v, want %+v", status, got, want)
		}
		h.Close()
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	requests := make(chan string, 8)
	var server string
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		requests <- r.URL.Path
		http.Redirect(w, r, server+"/elsewhere", http.StatusPermanentRedirect)
	})
	server = s.URL
	got := newHTTP(t, s.URL+"/entries", nil).Deliver(withPatience(t), delivery())
	if want := answer(retryable, answered, target, fencerow.ReasonRedirected); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if path := <-requests; path != "/entries" || len(requests) != 0 {
		t.Errorf("requested %q and %d more", path, len(requests))
	}
}
