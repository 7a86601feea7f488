package ledger

import (
	"encoding/binary"
	"fmt"
	"net/url"
	"regexp"
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

// The oracle reads digits as a number and a date by the three layouts of HTTP, and does its own arithmetic.
func FuzzRetryAfterIsBounded(f *testing.F) {
	for _, s := range []string{
		"", "-5", "soon", "315360000", "Fri, 31 Dec 9999 23:59:59 GMT", "0x10", "1e9", "0", "00090", "3599", "3600",
		"3601", "2.5", "+7", "7s", " 12 ", "12, 30", "18446744073709551616", strings.Repeat("9", 400),
		"\x00", "\xff9", "٣", "Sun, 01 Mar 2026 12:00:07 GMT", "Sunday, 01-Mar-26 12:00:07 GMT",
		"Sun Mar  1 12:00:07 2026",
		"Sun, 01 Mar 2026 12:00:07 PST", "Sun, 01 Mar 2026 12:00:07", "Mon, 01 Mar 2026 12:00:07 GMT",
		"Thu, 01 Jan 1970 00:00:00 GMT", "Mon, 01 Jan 0001 00:00:00 GMT", "Sun, 30 Feb 2026 12:00:00 GMT",
		"Sun, 01 Mar 2026 13:00:00 GMT", "2026-03-01T12:00:07Z", "Infinity", "NaN",
	} {
		f.Add(s, int64(1772366400), int64(0))
		f.Add(s, int64(1772366407), int64(1))
	}
	f.Fuzz(func(t *testing.T, value string, unix, nanoseconds int64) {
		now := time.Unix(unix%1e11, nanoseconds%1e9)
		got, want := retryAfter(value, now), plainRetryAfter(value, now)
		if got != want || got < 0 || got > time.Hour {
			t.Fatalf("%q at %s is %v, want %v", value, now, got, want)
		}
	})
}

func plainRetryAfter(value string, now time.Time) time.Duration {
	value = strings.Trim(value, " \t")
	if plainNumber.MatchString(value) {
		digits := strings.TrimLeft(value, "0")
		if len(digits) > 4 {
			return time.Hour
		}
		seconds, _ := strconv.Atoi("0" + digits)
		return min(time.Duration(seconds)*time.Second, time.Hour)
	}
	for _, layout := range []string{
		"Mon, 02 Jan 2006 15:04:05 GMT", "Monday, 02-Jan-06 15:04:05 MST", "Mon Jan _2 15:04:05 2006",
	} {
		at, err := time.Parse(layout, value)
		switch {
		case err != nil:
			continue
		case at.After(now.Add(time.Hour)):
			return time.Hour
		case at.Before(now):
			return 0
		}
		return at.Sub(now)
	}
	return 0
}

// A child is made of every trace context of version 00, and of nothing else; it differs in the span alone.
func FuzzChildTraceParent(f *testing.F) {
	for _, s := range []string{
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01",
		"01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
		"00-4bf92f3577b34da6a3ce929d0e0e47\r\n-00f067aa0ba902b7-01", "",
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-00F067AA0BA902B7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0\x00",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-ff",
		"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
	} {
		f.Add(s, uint64(0))
		f.Add(s, uint64(1<<63))
	}
	// The span is replaced, whatever it is; an enqueued one was checked before.
	form := regexp.MustCompile(`(?s)\A00-([0-9a-f]{32})-.*-[0-9a-f]{2}\z`)
	f.Fuzz(func(t *testing.T, parent string, n uint64) {
		var span [8]byte
		binary.BigEndian.PutUint64(span[:], n)
		want := ""
		m := form.FindStringSubmatch(parent)
		if len(parent) == 55 && parent[52] == '-' && m != nil && strings.Trim(m[1], "0") != "" {
			want = fmt.Sprintf("%s%016x%s", parent[:36], max(n, 1), parent[52:])
		}
		if child := childTraceParent(parent, span); child != want {
			t.Fatalf("the child of %q with the span %016x is %q, want %q", parent, n, child, want)
		}
	})
}

// Two entries have one key exactly if they are one entry. A key goes through headers and addresses as it is.
func FuzzIdempotencyKeys(f *testing.F) {
	for _, ids := range [][4]string{
		{"desk", "fill-1", "desk", "fill-1"}, {"a", "b:c", "a:b", "c"}, {"sha256", "x", "a", "y"},
		{`a"`, "b", "a", `"b`}, {`a\`, "b", "a", `\b`},
		{"a", "%2f/../?x=1#", "a", "%2F/../?x=1#"}, {"a", ".", "a", ".."},
		{strings.Repeat("i", 128), strings.Repeat("c", 126), strings.Repeat("i", 128), strings.Repeat("c", 127)},
		{strings.Repeat("i", 128), strings.Repeat("c", 200), strings.Repeat("i", 127), strings.Repeat("c", 200)},
		{"a b", "c", "a", "b\x00"}, {"ü", "c", "u", "\xff"},
		{"sha256", "8b8b5d4ed6a9b2b4a5bb1d2ff8ef7c7ec0a3e2ee6a5d5d5f0f3a5e4f3c2b1a09", "sha", "256"},
	} {
		f.Add(ids[0], ids[1], ids[2], ids[3])
	}
	h, err := New(Config{URL: "https://ledger.example/", ReadbackURL: "https://ledger.example/entries/"})
	if err != nil {
		f.Fatal(err)
	}
	form := regexp.MustCompile(`\A[!#-\[\]-~]{1,255}\z`)
	f.Fuzz(func(t *testing.T, instanceA, idA, instanceB, idB string) {
		a := &fencerow.Entry{Instance: fencerow.InstanceKey(instanceA), CorrelationID: fencerow.CorrelationID(idA)}
		b := &fencerow.Entry{Instance: fencerow.InstanceKey(instanceB), CorrelationID: fencerow.CorrelationID(idB)}
		for _, e := range []*fencerow.Entry{a, b} {
			if e.Instance.Validate() != nil || e.CorrelationID.Validate() != nil {
				return
			}
			key := IdempotencyKey(e.Instance, e.CorrelationID)
			address, err := url.Parse(h.readbackURL(e).String())
			if !form.MatchString(key) || err != nil || address.Host != "ledger.example" ||
				address.Path != "/entries/"+key || address.RawQuery != "" || address.Fragment != "" {
				t.Fatalf("the key of %q, %q is %q, read back at %v, %v", e.Instance, e.CorrelationID, key, address, err)
			}
		}
		one := instanceA == instanceB && idA == idB
		same := IdempotencyKey(a.Instance, a.CorrelationID) == IdempotencyKey(b.Instance, b.CorrelationID)
		if same != one {
			t.Fatalf("%q, %q and %q, %q have one key: %v", instanceA, idA, instanceB, idB, same)
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
