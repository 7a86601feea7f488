// Package ledgerstub is an HTTP ledger of our own, for `fencerow dev` and for tests. It books by idempotency
// key, compares content, keeps balances, refuses fencing tokens that fall, can be told to fail in every way
// that a ledger can, and keeps a journal of every request: an idempotent ledger books once whatever it is
// sent, so the proof that nothing was sent twice is in the journal.
//
// It keeps everything in memory and forgets nothing. A million requests of 300 bytes take about a gigabyte.
package ledgerstub

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"hash/maphash"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// EntriesPath receives entries by POST; a GET of EntriesPath/<path-escaped idempotency key> reads one back.
	EntriesPath = "/v1/entries"
	// maxBody bounds a request's body; a payload at its limit fits with room to spare.
	maxBody = 1 << 20
	shards  = 64 // a power of two
)

// Options configure a [Stub].
type Options struct {
	// Token, if not empty, is required as "Authorization: Bearer <token>". See [Stub.SetToken].
	Token string
	// Control serves the control endpoints under /control/. They need no token: listen on loopback only.
	Control bool
}

// Stub is the ledger. It is an http.Handler and safe for concurrent use.
type Stub struct {
	control http.Handler // nil without control endpoints
	started time.Time
	token   atomic.Pointer[string] // the whole header value; empty if none is required
	faults  faults
	seed    maphash.Seed
	shards  [shards]shard
	books   books
	refs    atomic.Int64

	readbacks atomic.Int64

	hanging struct {
		sync.Mutex
		released chan struct{} // closed by Release, then replaced
		ending   int           // how many servers are stopping: nothing may begin to hang
	}
}

// New returns an empty ledger.
func New(o Options) *Stub {
	s := &Stub{started: time.Now(), seed: maphash.MakeSeed()}
	s.hanging.released = make(chan struct{})
	s.books.accounts = map[accountKey]*account{}
	for i := range s.shards {
		s.shards[i].keys = map[string]*keyState{}
	}
	s.SetToken(o.Token)
	if o.Control {
		s.control = s.controlHandler()
	}
	return s
}

// SetToken rotates the token that requests must carry from now on; empty requires none.
func (s *Stub) SetToken(token string) {
	header := ""
	if token != "" {
		header = "Bearer " + token
	}
	s.token.Store(&header)
}

// Release ends every request that hangs now: their connections are cut.
func (s *Stub) Release() {
	s.hanging.Lock()
	defer s.hanging.Unlock()
	s.release()
}

func (s *Stub) release() {
	close(s.hanging.released)
	s.hanging.released = make(chan struct{})
}

// ending ends the requests that hang, and has none hang that is on its way there, until the function that it
// returns is called.
func (s *Stub) ending() func() {
	s.hanging.Lock()
	defer s.hanging.Unlock()
	s.hanging.ending++
	s.release()
	return func() {
		s.hanging.Lock()
		defer s.hanging.Unlock()
		s.hanging.ending--
	}
}

var atOnce = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (s *Stub) released() <-chan struct{} {
	s.hanging.Lock()
	defer s.hanging.Unlock()
	if s.hanging.ending > 0 {
		return atOnce
	}
	return s.hanging.released
}

// ServeHTTP serves the ledger and, if enabled, its control endpoints.
func (s *Stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	switch {
	case path == EntriesPath && r.Method == http.MethodPost:
		s.receive(w, r)
	case strings.HasPrefix(path, EntriesPath+"/") && r.Method == http.MethodGet:
		s.readBack(w, r, path[len(EntriesPath)+1:])
	case s.control != nil && strings.HasPrefix(path, "/control/"):
		s.control.ServeHTTP(w, r)
	default:
		writeProblem(w, http.StatusNotFound, "not-found")
	}
}

// request is one delivery on its way through the ledger.
type request struct {
	shard   *shard
	record  *record
	key     string
	epoch   int64
	attempt int
	body    []byte
	doc     entryDocument
	verdict Verdict
	answer  []byte // what a healthy ledger answers
	status  int
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// receive takes one delivery. The record is opened before the body is read and closed before the answer
// leaves: a client that has an answer and sends again never seems to overlap with itself.
func (s *Stub) receive(w http.ResponseWriter, r *http.Request) {
	arrived := time.Now()
	q := request{key: unquote(r.Header.Get("Idempotency-Key"))}
	q.epoch, _ = strconv.ParseInt(r.Header.Get("Fencerow-Fencing-Token"), 10, 64)
	q.attempt, _ = strconv.Atoi(r.Header.Get("Fencerow-Attempt"))
	q.shard = s.shard(q.key)
	q.record = q.shard.open(&q, arrived, arrived.Sub(s.started))

	buffer := buffers.Get().(*bytes.Buffer) //nolint:errcheck // the pool holds nothing else
	defer buffers.Put(buffer)
	buffer.Reset()
	_, err := buffer.ReadFrom(io.LimitReader(r.Body, maxBody+1))
	q.body = buffer.Bytes()
	digest := sha256.Sum256(q.body)

	var fault *Fault
	if err == nil {
		fault = s.faults.match(&q, false)
	}
	switch {
	case err != nil:
		q.verdict = VerdictAborted
	case fault != nil:
		s.misbehave(w, r, &q, digest, fault)
		return
	default:
		s.process(r, &q, digest)
	}
	s.finish(&q, digest, q.status, nil)
	if err == nil {
		q.write(w)
	}
}

// process does what a healthy ledger does with a request, but for writing its answer.
func (s *Stub) process(r *http.Request, q *request, digest [32]byte) {
	switch {
	case !s.authorized(r):
		q.refuse(VerdictUnauthorized, http.StatusUnauthorized, "unauthorized")
	case q.key == "":
		q.refuse(VerdictRefused, http.StatusBadRequest, "idempotency-key-missing")
	case len(q.body) > maxBody:
		q.refuse(VerdictRefused, http.StatusRequestEntityTooLarge, "too-large")
	case !digestAgrees(r.Header.Get("Content-Digest"), digest):
		q.refuse(VerdictRefused, http.StatusBadRequest, "content-digest-wrong")
	case !parseEntry(q.body, &q.doc):
		q.refuse(VerdictRefused, http.StatusBadRequest, "not-an-entry")
	default:
		s.book(q, digest)
	}
}

func (q *request) refuse(v Verdict, status int, problem string) {
	q.verdict, q.status, q.answer = v, status, problemBody(status, problem)
}

func (s *Stub) finish(q *request, digest [32]byte, status int, fault *Fault) {
	now := time.Now()
	q.shard.close(q, now, now.Sub(s.started), digest, status, fault)
}

var (
	jsonType    = []string{"application/json"}
	problemType = []string{"application/problem+json"}
)

func (q *request) write(w http.ResponseWriter) {
	w.Header()["Content-Type"] = jsonType
	if q.status >= 400 {
		w.Header()["Content-Type"] = problemType
	}
	w.WriteHeader(q.status)
	w.Write(q.answer) //nolint:errcheck // a client that has gone away is its own business
}

func writeProblem(w http.ResponseWriter, status int, problem string) {
	q := request{}
	q.refuse(VerdictRefused, status, problem)
	q.write(w)
}

// problemBody is an RFC 9457 document.
func problemBody(status int, problem string) []byte {
	return []byte(`{"type":"https://fencerow.example/problems/` + problem + `","status":` +
		strconv.Itoa(status) + `}`)
}

func (s *Stub) authorized(r *http.Request) bool {
	want := *s.token.Load()
	return want == "" || subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte(want)) == 1
}

// unquote reads a key that was sent as an RFC 8941 string; fencerow's keys hold nothing that is escaped
// there.
func unquote(key string) string {
	if len(key) >= 2 && key[0] == '"' && key[len(key)-1] == '"' {
		return key[1 : len(key)-1]
	}
	return key
}

func digestAgrees(header string, digest [32]byte) bool {
	if header == "" {
		return true
	}
	var b [64]byte
	return header == string(appendDigest(b[:0], digest))
}

func appendDigest(b []byte, digest [32]byte) []byte {
	b = append(b, "sha-256=:"...)
	b = base64.StdEncoding.AppendEncode(b, digest[:])
	return append(b, ':')
}

func (s *Stub) shard(key string) *shard {
	return &s.shards[maphash.String(s.seed, key)&(shards-1)]
}
