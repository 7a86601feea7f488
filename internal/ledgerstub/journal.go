package ledgerstub

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Verdict is what the ledger did with a request.
type Verdict uint8

// The verdicts.
const (
	// VerdictOpen: no verdict yet, or none reached because of a fault.
	VerdictOpen Verdict = iota
	VerdictBooked
	VerdictDuplicate
	// VerdictConflict: other content under a booked key.
	VerdictConflict
	// VerdictStale: a fencing token lower than the highest seen for the key.
	VerdictStale
	VerdictUnauthorized
	// VerdictRefused: not a request that this ledger understands.
	VerdictRefused
	// VerdictAborted: the client went away before its body was complete.
	VerdictAborted
	verdicts
)

var verdictNames = [verdicts]string{
	"open", "booked", "duplicate", "conflict", "stale", "unauthorized", "refused", "aborted",
}

// String returns the verdict's name.
func (v Verdict) String() string { return verdictNames[v] }

// MarshalText returns the verdict's name.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads a verdict's name.
func (v *Verdict) UnmarshalText(b []byte) error {
	i := slices.Index(verdictNames[:], string(b))
	if i < 0 {
		return fmt.Errorf("unknown verdict %q", b)
	}
	*v = Verdict(i)
	return nil
}

// Digest is the SHA-256 of a body. Its text is hexadecimal.
type Digest [32]byte

// MarshalText returns the digest in hexadecimal.
func (d Digest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

// UnmarshalText reads a digest in hexadecimal.
func (d *Digest) UnmarshalText(b []byte) error {
	if len(b) != hex.EncodedLen(len(d)) {
		return fmt.Errorf("a digest of %d characters", len(b))
	}
	_, err := hex.Decode(d[:], b)
	return err
}

// Record is one request in the journal.
type Record struct {
	Key     string `json:"key"`
	Epoch   int64  `json:"fencing_token"`
	Attempt int    `json:"attempt"`
	// Arrival and End are monotonic, in nanoseconds since the ledger's start. End is the moment just before the
	// answer left or the connection was cut; 0 while the request is open.
	Arrival time.Duration `json:"arrival_ns"`
	End     time.Duration `json:"end_ns"`
	// ArrivedAt and EndedAt are the same moments by the wall clock.
	ArrivedAt time.Time `json:"arrived_at"`
	EndedAt   time.Time `json:"ended_at"`
	Verdict   Verdict   `json:"verdict"`
	// Fault is the fault that was applied; empty if none was.
	Fault Mode `json:"fault"`
	// Status is what was answered, 0 if nothing was.
	Status int    `json:"status"`
	Digest Digest `json:"digest"`
}

// keyState is what the ledger knows of one idempotency key. Its shard's lock guards it.
type keyState struct {
	key            string
	epoch          int64 // the highest seen
	booked         bool
	digest         Digest
	body           []byte
	ref            int64
	bookedEpoch    int64
	account        *account // nil for an entry without slot or currency
	slot, currency string
}

// record is a Record as kept: about 120 bytes.
type record struct {
	key                *keyState
	fault              *Fault
	arrival, end       time.Duration
	arrivedAt, endedAt int64 // Unix nanoseconds
	epoch              int64
	attempt            int32
	status             uint16
	verdict            Verdict
	digest             Digest
}

const (
	recordChunk = 1024
	bodyChunk   = 64 << 10
)

// shard holds the keys that hash to it, and their part of the journal, in chunks that are never moved.
type shard struct {
	mu      sync.Mutex
	keys    map[string]*keyState
	journal [][]record
	counts  [verdicts]int64
	bodies  []byte   // what is left of the current chunk
	_       [64]byte // keeps neighbours off this cache line
}

// open begins the record of a request.
func (s *shard) open(q *request, at time.Time, since time.Duration) *record {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.keys[q.key]
	if k == nil {
		k = &keyState{key: q.key}
		s.keys[q.key] = k
	}
	last := len(s.journal) - 1
	if last < 0 || len(s.journal[last]) == cap(s.journal[last]) {
		s.journal = append(s.journal, make([]record, 0, recordChunk))
		last++
	}
	s.journal[last] = append(s.journal[last], record{
		key: k, arrival: since, arrivedAt: at.UnixNano(), epoch: q.epoch, attempt: int32(q.attempt),
	})
	return &s.journal[last][len(s.journal[last])-1]
}

// close ends the record of a request.
func (s *shard) close(q *request, at time.Time, since time.Duration, digest Digest, status int,
	fault *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := q.record
	r.end, r.endedAt, r.digest = since, at.UnixNano(), digest
	r.status, r.verdict, r.fault = uint16(status), q.verdict, fault
	s.counts[q.verdict]++
}

// keep returns a copy of body that lives as long as the ledger.
func (s *shard) keep(body []byte) []byte {
	if len(body) > bodyChunk/4 {
		return slices.Clone(body)
	}
	if len(body) > len(s.bodies) {
		s.bodies = make([]byte, bodyChunk)
	}
	n := copy(s.bodies, body)
	kept := s.bodies[:n:n]
	s.bodies = s.bodies[n:]
	return kept
}

// Journal returns the record of every request so far, by arrival.
func (s *Stub) Journal() []Record {
	var out []Record
	for i := range s.shards {
		out = s.shards[i].appendRecords(out, "")
	}
	slices.SortFunc(out, byArrival)
	return out
}

// Sends returns the records of one key, by arrival.
func (s *Stub) Sends(key string) []Record {
	out := s.shard(key).appendRecords(nil, key)
	slices.SortFunc(out, byArrival)
	return out
}

func byArrival(a, b Record) int {
	return cmp.Or(cmp.Compare(a.Arrival, b.Arrival), cmp.Compare(a.Epoch, b.Epoch))
}

// appendRecords appends the records of a key, or of all if it is empty.
func (s *shard) appendRecords(out []Record, key string) []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, chunk := range s.journal {
		for i := range chunk {
			if r := &chunk[i]; key == "" || r.key.key == key {
				out = append(out, r.public())
			}
		}
	}
	return out
}

func (r *record) public() Record {
	out := Record{
		Key: r.key.key, Epoch: r.epoch, Attempt: int(r.attempt), Arrival: r.arrival, End: r.end,
		ArrivedAt: time.Unix(0, r.arrivedAt), Verdict: r.verdict, Status: int(r.status), Digest: r.digest,
	}
	if r.endedAt != 0 {
		out.EndedAt = time.Unix(0, r.endedAt)
	}
	if r.fault != nil {
		out.Fault = r.fault.Mode
	}
	return out
}

// Booking is what is booked under one key.
type Booking struct {
	Key    string `json:"key"`
	Epoch  int64  `json:"fencing_token"` // of the request that booked it
	Ref    string `json:"ledger_ref"`
	Digest Digest `json:"digest"`
	// Body is the request's body, byte for byte. In JSON it is base64.
	Body []byte `json:"body"`
}

// Bookings returns everything that is booked, in no order. The bodies must not be changed.
func (s *Stub) Bookings() []Booking {
	var out []Booking
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		for _, k := range sh.keys {
			if k.booked {
				out = append(out, k.booking())
			}
		}
		sh.mu.Unlock()
	}
	return out
}

// Booking returns what is booked under a key, if anything is.
func (s *Stub) Booking(key string) (Booking, bool) {
	sh := s.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	k := sh.keys[key]
	if k == nil || !k.booked {
		return Booking{}, false
	}
	return k.booking(), true
}

func (k *keyState) booking() Booking {
	return Booking{Key: k.key, Epoch: k.bookedEpoch, Ref: fmt.Sprintf("stub-%d", k.ref), Digest: k.digest,
		Body: k.body}
}

// Counters count requests since the start. Requests that are still open are only in Requests.
type Counters struct {
	Requests   int64 `json:"requests"`
	Booked     int64 `json:"booked"`
	Duplicates int64 `json:"duplicates"`
	// Refused are conflicts, stale tokens, refused credentials and requests not understood.
	Refused int64 `json:"refused"`
	// Faulted are requests that ended without a verdict, by a fault or by the client.
	Faulted   int64 `json:"faulted"`
	Readbacks int64 `json:"readbacks"`
}

// Counters returns the counters now.
func (s *Stub) Counters() Counters {
	c := Counters{Readbacks: s.readbacks.Load()}
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		for _, chunk := range sh.journal {
			c.Requests += int64(len(chunk))
		}
		n := &sh.counts
		c.Booked += n[VerdictBooked]
		c.Duplicates += n[VerdictDuplicate]
		c.Refused += n[VerdictConflict] + n[VerdictStale] + n[VerdictUnauthorized] + n[VerdictRefused]
		c.Faulted += n[VerdictOpen] + n[VerdictAborted]
		sh.mu.Unlock()
	}
	return c
}

// appendQuoted appends s as a JSON string.
func appendQuoted(b []byte, s string) []byte {
	quoted, err := json.Marshal(s)
	if err != nil {
		panic("ledgerstub: a string cannot be marshalled")
	}
	return append(b, quoted...)
}
