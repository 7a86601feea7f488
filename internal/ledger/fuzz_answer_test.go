package ledger

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/shopspring/decimal"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/jsonwalk"
	"github.com/fourblocks2020/fencerow/internal/jsonwalk/walktest"
)

// answeredEntry is what the answers of the fuzz targets are about.
func answeredEntry() *fencerow.Entry {
	e := testEntry()
	e.SlotID, e.Currency = "s", "USD"
	return e
}

// answerBodies are seeds: what ledgers answer, and what they should not.
func answerBodies(digest string) []string {
	own := `"correlation_id":"a","content_digest":"` + digest + `"`
	with := func(more string) string { return `{` + own + more + `}` }
	snapshot := func(members string) string { return with(`,"snapshot":{"slot_id":"s",` + members + `}`) }
	return []string{
		with(`,"result":"CREATED","ledger_ref":"x:1"`), with(`,"result":"DUPLICATE_OK"`),
		with(`,"result":"CONFLICT"`), with(`,"result":"created"`), with(`,"result":null,"ledger_ref":7`),
		``, `{}`, `[]`, `null`, with(``),
		`{"result":"CREATED","correlation_id":"a","ledger_ref":"x","content_digest":"sha-256=:A:"}`,
		`{"correlation_id":"b","content_digest":"` + digest + `"}`, `{"correlation_id":"\u0061"}`,
		`{"content_digest":"sha-512=:A:, ` + digest + ` ,sha-256=:B:"}`,
		`{"correlation_id":"a","content_digest":"md5=:A:"}`,
		snapshot(`"currency":"USD","cash_balance":"1.50","version":3`),
		snapshot(`"currency":"USD","cash_balance":"-0.10","version":9223372036854775807`),
		snapshot(`"currency":"USD","cash_balance":"0","version":9223372036854775808`),
		snapshot(`"currency":"EUR","cash_balance":"1","version":3`),
		snapshot(`"currency":"USD","cash_balance":"1","cash_balance":"2","version":3`),
		snapshot(`"currency":"USD","cash_balance":1.5,"version":1`),
		snapshot(`"currency":"USD","cash_balance":"0","version":-0,"more":[]`),
		snapshot(`"currency":"USD","cash_balance":"1e999999999","version":1e3`),
		with(`,"snapshot":null,"ledger_ref":"two words"`), with(`,"snapshot":[]`), with(`,` + own),
		with(`,"content_digest":"` + digest + `"`), with(`,"result":"CREATED","result":"DUPLICATE_OK"`),
		with(`,"ledger_ref":"x","ledger_ref":"y"`), with(`,"snapshot":null,"snapshot":null`),
		`{"correlation_id":"a","correlation_id":"b"}`, `{"Result":"CONFLICT"}`,
		"{\"correlation_id\":\"\xff\"}", `{"correlation_id":"a` + "\x00" + `"}`, `{"correlation_id":"\ud800"}`,
		`{"error":{"type":"idempotency_error","code":"idempotency_key_in_use"}}`,
		`{"type":"urn:x#stale-fencing-token"}`, `<html>sign in</html>`, `{` + own, with(``) + with(``),
		"\ufeff{}", "\x1f\x8b\b",
		with(`,"more":` + strings.Repeat("[", jsonwalk.MaxDepth) + strings.Repeat("]", jsonwalk.MaxDepth)),
	}
}

// A success and a read-back mean what a reading by encoding/json, member by member, says they mean: booked
// only where the answer proves it, a conflict only where it contradicts, in doubt otherwise. Of an answer
// nothing else is kept than a well-formed reference and the entry's own snapshot.
func FuzzAnswerIsAlwaysJudged(f *testing.F) {
	adapters := map[bool]*HTTP{}
	for _, strict := range []bool{false, true} {
		h, err := New(Config{URL: "https://ledger.example", RequireEcho: strict})
		if err != nil {
			f.Fatal(err)
		}
		adapters[strict] = h
	}
	e := answeredEntry()
	digest := digestFor(e)
	for _, body := range answerBodies(digest) {
		f.Add([]byte(body), "application/json", 200, true)
		f.Add([]byte(body), "application/problem+json; charset=utf-8", 201, false)
	}
	good := []byte(answerBodies(digest)[0])
	f.Add(good, "text/html", 200, true)
	f.Add(good, "", 202, true)
	f.Add(good, "Application/JSON", 299, false)
	f.Fuzz(func(t *testing.T, body []byte, contentType string, status int, strict bool) {
		h := adapters[strict]
		r := &http.Response{
			StatusCode: status, Header: http.Header{"Content-Type": {contentType}}, ContentLength: int64(len(body)),
		}
		read := readPlainly(body, contentType)
		if status >= 200 && status < 300 {
			a := h.success(t.Context(), e, digest, &reply{Response: r, body: body, sentWhole: true})
			if want := read.success(e, digest, status, len(body) == 0, strict); !sameBut(a, want) {
				t.Fatalf("%q is %+v, want %+v", body, a, want)
			}
			read.keeps(t, e, booked(a), a.LedgerRef, a.Snapshot)
		} else if a := h.refusal(r, body); booked(a) || !a.Reason.Valid() || a.LedgerRef != "" ||
			a.Snapshot != nil {
			t.Fatalf("%d is %+v", status, a)
		}
		found := h.compare(e, &reply{Response: r, body: body})
		if want := read.readBack(e, digest, strict); found.Result != want {
			t.Fatalf("%q read back is %+v, want %v", body, found, want)
		}
		read.keeps(t, e, found.Result == fencerow.ResolvedEqual, found.LedgerRef, found.Snapshot)
	})
}

func booked(a fencerow.Answer) bool {
	return a.Class == fencerow.AnswerDelivered || a.Class == fencerow.AnswerDuplicate
}

// sameBut compares all that is said about an outcome, and nothing of what is kept.
func sameBut(a, b fencerow.Answer) bool {
	a.LedgerRef, a.Snapshot = "", nil
	return a == b
}

// plainAnswer is an answer document as encoding/json reads it.
type plainAnswer struct {
	ok       bool // a document that may be read as JSON
	texts    map[string]string
	snapshot json.RawMessage // nil if absent or null
}

var plainMedia = regexp.MustCompile(`(?s)\A[ \t]*(application/(json|[^;]*\+json))?[ \t]*(;.*)?\z`)

func readPlainly(body []byte, contentType string) plainAnswer {
	none := plainAnswer{}
	members, ok := walktest.Members(body, jsonwalk.MaxDepth)
	if !ok || !plainMedia.MatchString(strings.ToLower(contentType)) {
		return none
	}
	a := plainAnswer{ok: true, texts: map[string]string{}}
	seen := map[string]bool{}
	for _, m := range members {
		if !slices.Contains(
			[]string{"result", "correlation_id", "content_digest", "ledger_ref", "snapshot"}, m.Name) {
			continue
		}
		if seen[m.Name] {
			return none
		}
		seen[m.Name] = true
		text, isText := plainText(m.Value)
		switch {
		case m.Name == "snapshot":
			if string(m.Value) != "null" {
				a.snapshot = m.Value
			}
		case isText:
			a.texts[m.Name] = text
		case m.Name != "ledger_ref":
			return none
		}
	}
	if !slices.Contains([]string{"", "CREATED", "DUPLICATE_OK", "CONFLICT"}, a.texts["result"]) {
		return none
	}
	return a
}

// plainText reads a string, or null as none.
func plainText(value json.RawMessage) (string, bool) {
	var s *string
	if !utf8.Valid(value) || json.Unmarshal(value, &s) != nil {
		return "", false
	}
	if s == nil {
		return "", true
	}
	return *s, true
}

var plainDigest = regexp.MustCompile(`(?s)(?:\A|,)[ \t]*(sha-256=[^,]*?)[ \t]*(?:,|\z)`)

// about says whether the answer repeats the entry's id, its content, or contradicts either.
func (a plainAnswer) about(e *fencerow.Entry, digest string) (id, content, contradicts bool) {
	if said := a.texts["correlation_id"]; said != "" {
		id = said == string(e.CorrelationID)
		contradicts = !id
	}
	if said := plainDigest.FindStringSubmatch(a.texts["content_digest"]); said != nil {
		content = said[1] == digest
		contradicts = contradicts || !content
	}
	return id, content, contradicts
}

func (a plainAnswer) success(
	e *fencerow.Entry, digest string, status int, empty, strict bool,
) fencerow.Answer {
	id, content, contradicts := a.about(e, digest)
	final := status == 200 || status == 201 || status == 204
	doubt := func(reason fencerow.ReasonCode) fencerow.Answer {
		return fencerow.Answer{
			Class: fencerow.AnswerRetryable, Certainty: fencerow.Unknown, Scope: fencerow.ScopeEntry,
			Reason: reason, Resolve: true,
		}
	}
	settled := fencerow.Answer{
		Class: fencerow.AnswerDelivered, Certainty: fencerow.Answered, Scope: fencerow.ScopeEntry,
	}
	switch {
	case a.ok && (contradicts || a.texts["result"] == "CONFLICT"):
		settled.Class, settled.Reason, settled.Resolve = fencerow.AnswerConflict, fencerow.ReasonEchoConflict, true
		return settled
	case status == 202:
		return doubt(fencerow.ReasonAcceptedNotBooked)
	case !final:
		return doubt(fencerow.ReasonUnexpectedSuccess)
	case !empty && !a.ok:
		return doubt(fencerow.ReasonAnswerUnreadable)
	case strict && (!id || !content):
		return doubt(fencerow.ReasonAnswerIncomplete)
	case a.texts["result"] == "DUPLICATE_OK":
		settled.Class = fencerow.AnswerDuplicate
	}
	return settled
}

func (a plainAnswer) readBack(e *fencerow.Entry, digest string, strict bool) fencerow.ResolveResult {
	id, content, contradicts := a.about(e, digest)
	switch {
	case !a.ok || a.texts["result"] == "CONFLICT":
		return fencerow.ResolveFailed
	case contradicts:
		return fencerow.ResolvedDifferent
	case id && content, !strict && (id || content):
		return fencerow.ResolvedEqual
	}
	return fencerow.ResolveFailed
}

var plainRef = regexp.MustCompile(`\A[A-Za-z0-9._:-]{1,64}\z`)

// keeps compares what was taken over from an answer with what there was to take, which is nothing unless it
// proves a booking.
func (a plainAnswer) keeps(t *testing.T, e *fencerow.Entry, proven bool, ref string, s *fencerow.Snapshot) {
	t.Helper()
	if !proven {
		a = plainAnswer{}
	}
	wantRef := a.texts["ledger_ref"]
	if !plainRef.MatchString(wantRef) {
		wantRef = ""
	}
	if ref != wantRef {
		t.Fatalf("the reference is %q, want %q", ref, wantRef)
	}
	if (s != nil) != (a.snapshot != nil) {
		t.Fatalf("the snapshot of %s is %+v", a.snapshot, s)
	}
	if s == nil {
		return
	}
	want, ok := plainSnapshot(a.snapshot, e)
	if !ok {
		want = fencerow.Snapshot{Version: -1}
	}
	if s.SlotID != want.SlotID || s.Currency != want.Currency || s.Version != want.Version ||
		!s.CashBalance.Equal(want.CashBalance) {
		t.Fatalf("the snapshot of %s is %+v, want %+v", a.snapshot, s, want)
	}
}

var (
	plainBalance = regexp.MustCompile(`\A[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)\z`)
	plainNumber  = regexp.MustCompile(`\A[0-9]+\z`)
)

// plainSnapshot reads a snapshot that e can accept.
func plainSnapshot(value json.RawMessage, e *fencerow.Entry) (fencerow.Snapshot, bool) {
	members, ok := walktest.Members(value, jsonwalk.MaxDepth)
	given := map[string]string{}
	for _, m := range members {
		if !slices.Contains([]string{"slot_id", "currency", "cash_balance", "version"}, m.Name) {
			continue
		}
		text, isText := plainText(m.Value)
		if m.Name == "version" {
			text, isText = string(m.Value), plainNumber.Match(m.Value)
		}
		if _, twice := given[m.Name]; twice || !isText {
			return fencerow.Snapshot{}, false
		}
		given[m.Name] = text
	}
	version, err := strconv.ParseInt(given["version"], 10, 64)
	if !ok || len(given) != 4 || err != nil || !plainBalance.MatchString(given["cash_balance"]) ||
		len(given["cash_balance"]) > 64 {
		return fencerow.Snapshot{}, false
	}
	s := fencerow.Snapshot{
		SlotID: fencerow.SlotID(given["slot_id"]), Currency: given["currency"], Version: version,
		CashBalance: decimal.RequireFromString(given["cash_balance"]),
	}
	return s, s.SlotID == e.SlotID && s.Currency == e.Currency && e.CheckSnapshot(&s)
}

// A body says no more about a refusal than its words do, and only where words can: 400, 409 and 422.
func FuzzProblemBodies(f *testing.F) {
	for _, s := range append(answerBodies("sha-256=:A:"),
		`{"type":"https://x/stale-fencing-token"}`, `{"code":"IDEMPOTENCY_KEY_REUSED"}`, `{"error":"in_flight"}`,
		`{"type":1,"error":[]}`, `{"type":"///"}`, `{"type":"about:blank","code":"content_mismatch"}`,
		`{"type":"https://docs.example/errors#request-in-progress//","status":409}`,
		`{"type":"idempotency_error","error":{"code":"in-flight","code":"x","type":"idempotency_error"}}`,
		`{"code":"stale-fencing-token","type":"idempotency-mismatch"}`, `{"code":"idempotency_\u006bey_conflict"}`,
		`{"code":"in_flight","result":"CONFLICT"}`,
		`{"code":"idempotency-mismatch\u0000"}`, `{"error":{"error":{"code":"in-flight"}}}`,
	) {
		for _, status := range []int{400, 409, 422, 500} {
			f.Add([]byte(s), status)
		}
	}
	h, err := New(Config{URL: "https://ledger.example"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte, status int) {
		r := &http.Response{StatusCode: status, Header: http.Header{}}
		kind := plainProblem(body)
		if got := problemOf(r, body); got != kind {
			t.Fatalf("%q is %v, want %v", body, got, kind)
		}
		want := h.refusal(r, nil)
		switch canSay := status == 400 || status == 409 || status == 422; {
		case canSay && kind == problemMismatch:
			want.Class, want.Reason = fencerow.AnswerConflict, fencerow.ReasonContentConflict
		case status == 409 && kind == problemStaleToken:
			want.Reason, want.Resolve = fencerow.ReasonStaleFencingToken, false
		}
		if got := h.refusal(r, body); got != want {
			t.Fatalf("%d with %q is %+v, want %+v", status, body, got, want)
		}
	})
}

func plainProblem(body []byte) problemKind {
	members, _ := walktest.Members(body, jsonwalk.MaxDepth)
	kind := problemUnknown
	for _, m := range members {
		switch m.Name {
		case "result":
			if text, _ := plainText(m.Value); text == "CONFLICT" {
				kind = max(kind, problemMismatch)
			}
		case "type", "code":
			kind = max(kind, plainWord(m.Value))
		case "error":
			kind = max(kind, plainWord(m.Value))
			inner, _ := walktest.Members(m.Value, jsonwalk.MaxDepth)
			for _, m := range inner {
				if m.Name == "type" || m.Name == "code" {
					kind = max(kind, plainWord(m.Value))
				}
			}
		}
	}
	return kind
}

// plainWord looks up the last part of an address or a code.
func plainWord(value json.RawMessage) problemKind {
	text, _ := plainText(value)
	parts := strings.Split(strings.NewReplacer("#", "/", ":", "/").Replace(strings.TrimRight(text, "/")), "/")
	return problemWords[strings.Join(strings.Split(strings.ToLower(parts[len(parts)-1]), "_"), "-")]
}
