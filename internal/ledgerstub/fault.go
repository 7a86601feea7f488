package ledgerstub

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Mode is a way to fail.
type Mode string

// The modes. Where a mode answers with a document, it is the one that a healthy ledger would have given;
// without Commit that of a booking which was not made.
const (
	// ModeSlow answers as a healthy ledger does, late: give Delay or Stall.
	ModeSlow Mode = "slow"
	// ModeStatus answers with Status, Body and ContentType.
	ModeStatus Mode = "status"
	// ModeHang does not answer until the client goes away or [Stub.Release] cuts the connection.
	ModeHang Mode = "hang"
	// ModeCut closes the connection without an answer.
	ModeCut Mode = "cut"
	// ModeReset resets the connection.
	ModeReset Mode = "reset"
	// ModeGarbage answers with bytes that are not HTTP, and closes.
	ModeGarbage Mode = "garbage"
	// ModeTruncated announces a longer body than it sends, and closes.
	ModeTruncated Mode = "truncated"
	// ModeEmpty answers 200 without a body.
	ModeEmpty Mode = "empty"
	// ModeHTML answers 200 with a page, as a captive portal does.
	ModeHTML Mode = "html"
	// ModeOversized answers 200 with a document of more than 64 KiB.
	ModeOversized Mode = "oversized"
	// ModeOversizedHeaders answers with more than 64 KiB of headers.
	ModeOversizedHeaders Mode = "oversized_headers"
	// ModeRedirect answers 307 to another path of this ledger.
	ModeRedirect Mode = "redirect"
	// ModeWrongID echoes another correlation id.
	ModeWrongID Mode = "wrong_id"
	// ModeWrongDigest echoes another content digest.
	ModeWrongDigest Mode = "wrong_digest"
)

// Modes lists every mode.
func Modes() []Mode {
	return []Mode{
		ModeSlow, ModeStatus, ModeHang, ModeCut, ModeReset, ModeGarbage, ModeTruncated, ModeEmpty, ModeHTML,
		ModeOversized, ModeOversizedHeaders, ModeRedirect, ModeWrongID, ModeWrongDigest,
	}
}

// Fault says how one request fails. It must not be changed once it is in use.
type Fault struct {
	Mode Mode `json:"mode"`
	// Commit processes the request first, as a healthy ledger would: an answer is then lost, not a booking.
	// ModeSlow always does.
	Commit bool `json:"commit,omitempty"`
	// Delay passes before the request is processed, Stall between processing and answering.
	Delay Millis `json:"delay_ms,omitempty"`
	Stall Millis `json:"stall_ms,omitempty"`
	// Status is for ModeStatus.
	Status int `json:"status,omitempty"`
	// Header is added to whatever is answered over HTTP, Retry-After for one.
	Header map[string]string `json:"header,omitempty"`
	// Body and ContentType are for ModeStatus; the type defaults to application/json.
	Body        string `json:"body,omitempty"`
	ContentType string `json:"content_type,omitempty"`
}

// Millis is a duration that is a whole number of milliseconds in JSON.
type Millis time.Duration

// MarshalJSON returns milliseconds.
func (m Millis) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Duration(m).Milliseconds())
}

// UnmarshalJSON reads milliseconds.
func (m *Millis) UnmarshalJSON(b []byte) error {
	var n int64
	err := json.Unmarshal(b, &n)
	*m = Millis(time.Duration(n) * time.Millisecond)
	return err
}

// Rule applies a fault to the requests that it matches.
type Rule struct {
	// Key or KeyPrefix select idempotency keys; both empty select all.
	Key       string `json:"key,omitempty"`
	KeyPrefix string `json:"key_prefix,omitempty"`
	// Readback selects read-backs instead of deliveries.
	Readback bool `json:"readback,omitempty"`
	// Skip lets that many matching requests pass first; Count is how many then fail, 0 for all until the rules
	// are cleared.
	Skip  int64 `json:"skip,omitempty"`
	Count int64 `json:"count,omitempty"`
	Fault Fault `json:"fault"`
}

// RuleState is a rule in force and how many requests it has matched, those it let pass included.
type RuleState struct {
	ID   int64 `json:"id"`
	Hits int64 `json:"hits"`
	Rule
}

// Request is what a function given to [Stub.Fail] sees.
type Request struct {
	Key      string
	Epoch    int64
	Attempt  int
	Readback bool
}

type faults struct {
	armed atomic.Bool // false while there is nothing to look at
	mu    sync.Mutex
	rules []*RuleState
	last  int64
	fail  func(Request) *Fault
}

// AddRule puts a rule in force and returns its number. Of several rules that match, the first added applies.
func (s *Stub) AddRule(r Rule) (int64, error) {
	switch {
	case !slices.Contains(Modes(), r.Fault.Mode):
		return 0, fmt.Errorf("unknown mode %q", r.Fault.Mode)
	case r.Fault.Mode == ModeStatus && (r.Fault.Status < 200 || r.Fault.Status > 999):
		return 0, fmt.Errorf("status %d cannot be answered", r.Fault.Status)
	case r.Skip < 0 || r.Count < 0 || r.Fault.Delay < 0 || r.Fault.Stall < 0:
		return 0, fmt.Errorf("a number is negative")
	}
	f := &s.faults
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	f.rules = append(f.rules, &RuleState{ID: f.last, Rule: r})
	f.armed.Store(true)
	return f.last, nil
}

// Rules returns the rules in force.
func (s *Stub) Rules() []RuleState {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	out := make([]RuleState, 0, len(s.faults.rules))
	for _, r := range s.faults.rules {
		out = append(out, *r)
	}
	return out
}

// Fail has f decide the fate of each request, before any rule; nil lets it pass. It is called from many
// goroutines at once. Fail(nil) takes it away.
func (s *Stub) Fail(f func(Request) *Fault) {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.fail = f
	s.faults.armed.Store(f != nil || len(s.faults.rules) > 0)
}

// ClearRules takes all rules away: the ledger is healthy again. Requests that hang go on hanging; see
// [Stub.Release].
func (s *Stub) ClearRules() {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.rules = nil
	s.faults.armed.Store(s.faults.fail != nil)
}

// match returns the fault of a request, or nil.
func (f *faults) match(q *request, readback bool) *Fault {
	if !f.armed.Load() {
		return nil
	}
	f.mu.Lock()
	fail := f.fail
	f.mu.Unlock()
	if fail != nil {
		if fault := fail(Request{q.key, q.epoch, q.attempt, readback}); fault != nil {
			return fault
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rules {
		if r.Readback != readback || r.Key != "" && r.Key != q.key || !strings.HasPrefix(q.key, r.KeyPrefix) {
			continue
		}
		r.Hits++
		if r.Hits > r.Skip && (r.Count == 0 || r.Hits <= r.Skip+r.Count) {
			return &r.Fault
		}
	}
	return nil
}
