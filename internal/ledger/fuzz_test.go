package ledger

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
)

func TestRetryAfterForms(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 500e6, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "1": time.Second, " 90\t": 90 * time.Second, "007": 7 * time.Second,
		"3599": 3599 * time.Second,
		"3600": time.Hour, "315360000": time.Hour, "99999999999999999999999999": time.Hour,
		"-5": 0, "+5": 0, "1.5": 0, "1e3": 0, "soon": 0, "5 seconds": 0, "٣": 0,
		"Sun, 01 Mar 2026 12:00:30 GMT":  29500 * time.Millisecond,
		"Sunday, 01-Mar-26 12:00:30 GMT": 29500 * time.Millisecond,
		"Sun Mar  1 12:00:30 2026":       29500 * time.Millisecond,
		"Sun, 01 Mar 2026 12:00:00 GMT":  0,
		"Mon, 01 Jan 1900 00:00:00 GMT":  0,
		"Fri, 31 Dec 9999 23:59:59 GMT":  time.Hour,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("%q is %v, want %v", value, got, want)
		}
	}
}

func FuzzRetryAfterIsBounded(f *testing.F) {
	for _, s := range []string{"", "-5", "soon", "315360000", "Fri, 31 Dec 9999 23:59:59 GMT", "0x10", "1e9"} {
		f.Add(s, int64(1772366400))
	}
	f.Fuzz(func(t *testing.T, value string, unix int64) {
		got := retryAfter(value, time.Unix(unix%1e11, 0))
		if got < 0 || got > maxRetryAfter {
			t.Fatalf("%q is %v", value, got)
		}
		if n, err := strconv.ParseUint(value, 10, 16); err == nil &&
			got != min(time.Duration(n)*time.Second, time.Hour) {
			t.Fatalf("%d seconds are %v", n, got)
		}
	})
}

func FuzzAnswerIsAlwaysJudged(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `[]`, `{"result":"CREATED","correlation_id":"a","ledger_ref":"x","content_digest":"sha-256=:A:"}`,
		`{"snapshot":{"slot_id":"s","currency":"USD","cash_balance":"1.50","version":3}}`,
		`{"snapshot":{"slot_id":"s","currency":"USD","cash_balance":"1e999999999","version":1e3}}`,
		`{"correlation_id":"a","correlation_id":"b"}`, `{"Result":"CONFLICT"}`, "{\"correlation_id\":\"\xff\"}",
		`{"error":{"type":"idempotency_error","code":"idempotency_key_in_use"}}`,
		`{"type":"urn:x#stale-fencing-token"}`,
	} {
		f.Add([]byte(s), "application/json", 200)
	}
	h, err := New(Config{URL: "https://ledger.example", RequireEcho: true})
	if err != nil {
		f.Fatal(err)
	}
	e := testEntry()
	e.SlotID, e.Currency = "s", "USD"
	m := h.newMessage(fencerow.Delivery{Entry: e}, nil)
	f.Fuzz(func(t *testing.T, body []byte, contentType string, status int) {
		r := &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {contentType}}}
		var a fencerow.Answer
		if success := status >= 200 && status < 300; success {
			a = h.success(t.Context(), m, r, body, nil)
		} else {
			a = h.refusal(r, body)
		}
		booked := a.Class == fencerow.AnswerDelivered || a.Class == fencerow.AnswerDuplicate
		if booked && !strings.Contains(string(body), m.digest) {
			t.Fatalf("booked without the digest: %+v", a)
		}
		if booked != (a.Reason == "") || a.Reason != "" && !a.Reason.Valid() {
			t.Fatalf("reason %q with class %s", a.Reason, a.Class)
		}
		if a.LedgerRef != "" && !fencerow.ValidLedgerRef(a.LedgerRef) {
			t.Fatalf("reference %q", a.LedgerRef)
		}
		if s := a.Snapshot; s != nil && s.Version >= 0 && !e.CheckSnapshot(s) {
			t.Fatalf("snapshot %+v", s)
		}
	})
}

func FuzzProblemBodies(f *testing.F) {
	for _, s := range []string{
		`{"type":"https://x/stale-fencing-token"}`, `{"code":"IDEMPOTENCY_KEY_REUSED"}`, `{"error":"in_flight"}`,
		`{"error":{"type":"idempotency_error","code":"idempotency_key_in_use"}}`,
		`{"type":1,"error":[]}`, `{"type":"///"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		kind := problemOf(&http.Response{Header: http.Header{}}, body)
		lower := strings.ReplaceAll(strings.ToLower(string(body)), "_", "-")
		if kind == problemStaleToken && !strings.Contains(lower, `\`) &&
			!strings.Contains(lower, "stale-fencing-token") {
			t.Fatalf("%q is taken for a stale token", body)
		}
	})
}

func FuzzChildTraceParent(f *testing.F) {
	f.Add("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", uint64(0))
	f.Add("00-00000000000000000000000000000000-00f067aa0ba902b7-01", uint64(1))
	f.Add("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more", uint64(1))
	f.Add("00-4bf92f3577b34da6a3ce929d0e0e47\r\n-00f067aa0ba902b7-01", uint64(1))
	f.Fuzz(func(t *testing.T, parent string, n uint64) {
		var span [8]byte
		for i := range span {
			span[i] = byte(n >> (8 * i))
		}
		child := childTraceParent(parent, span)
		if child == "" {
			return
		}
		if len(child) != traceParentLen || child[:36] != parent[:36] || child[52:] != parent[52:] ||
			strings.Trim(child, "0123456789abcdef-") != "" || strings.Trim(child[36:52], "0") == "" {
			t.Fatalf("the child of %q is %q", parent, child)
		}
	})
}

func BenchmarkParseDocument(b *testing.B) {
	body := []byte(`{"result":"CREATED","correlation_id":"fill-0001","ledger_ref":"stub-1234567",` +
		`"content_digest":"sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:",` +
		`"snapshot":{"slot_id":"slot-a","currency":"USD","cash_balance":"12345.25","version":1234567}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := parseDocument(body); !ok {
			b.Fatal("not a document")
		}
	}
}
