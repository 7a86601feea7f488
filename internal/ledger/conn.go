package ledger

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"
)

const (
	// atOnce is how long a request may be to be written before the answer is read, in bytes: the buffers of a
	// socket take it whole. A ledger may answer a longer one before it has read all of it.
	atOnce = 16 << 10
	// lastLook is how long an answer is waited for once the rest of a long request cannot be written.
	lastLook = time.Second
	// lastBytes is how long the rest of a long request may take to be written once its answer is there.
	lastBytes = 50 * time.Millisecond
)

var (
	// errTooLate keeps a request from being written after its context has ended.
	errTooLate = errors.New("too late to send")
	// errTooLong says that an answer's head or body is over the limit.
	errTooLong = errors.New("answer too long")
	// errUnasked says that an answer came although nothing could be asked.
	errUnasked = errors.New("answered before it was asked")
)

// conn is a connection to the ledger. It counts the bytes of one exchange. Over TLS they are those within it,
// so that neither handshake nor closing alert counts.
type conn struct {
	net.Conn
	in        *bufio.Reader
	idleSince time.Time

	written, read int
	room          int  // what may still be read
	ended         bool // nothing more can be read
	spent         bool // not fit for another exchange: a request is half written, or what follows is no HTTP

	below   net.Conn        // what TLS runs on, or the connection itself
	records *records        // nil without TLS
	socket  syscall.RawConn // nil where there is none
	look    func(fd uintptr) bool
	seen    bool // what look saw: that the socket is quiet
}

func newConn(c net.Conn) *conn {
	n := &conn{Conn: c, below: c}
	n.in = bufio.NewReader(reading{n})
	if s, ok := c.(*tls.Conn); ok {
		n.records = s.NetConn().(*records) //nolint:errcheck // the dialer makes no other kind
		n.below = n.records.Conn
	}
	if s, ok := n.below.(syscall.Conn); ok {
		n.socket, _ = s.SyscallConn() // nil if there is none
		n.look = func(fd uintptr) bool {
			n.seen = peek(fd)
			return true
		}
	}
	return n
}

// quiet reports whether nothing has come in on an idle connection: no byte, and not its end.
func (n *conn) quiet() bool {
	if n.socket != nil && (n.socket.Read(n.look) != nil || !n.seen) {
		return false
	}
	return n.records == nil || n.quietWithin()
}

// quietWithin reports whether TLS has not read more than it has given out: neither a whole record, which a
// read whose time is over finds without harm to the connection, nor a part of one.
func (n *conn) quietWithin() bool {
	var one [1]byte
	if !n.records.whole() {
		return false
	}
	n.interrupt()
	_, err := n.Read(one[:])
	return errors.Is(err, os.ErrDeadlineExceeded) && n.SetDeadline(time.Time{}) == nil
}

// giveUp closes a connection at once. TLS is not told: it would wait for its last word to be taken, for
// seconds.
func (n *conn) giveUp() { n.below.Close() } //nolint:errcheck // there is nobody to tell

// interrupt ends what is under way.
func (n *conn) interrupt() { n.SetDeadline(time.Unix(1, 0)) } //nolint:errcheck // a closed one has ended

// reading is how answers are read: it counts, and keeps to the limit.
type reading struct{ n *conn }

func (r reading) Read(b []byte) (int, error) {
	n := r.n
	if n.room <= 0 {
		return 0, errTooLong
	}
	got, err := n.Read(b[:min(len(b), n.room)])
	n.read += got
	n.room -= got
	n.ended = n.ended || err != nil
	return got, err
}

func (n *conn) send(request []byte) error {
	sent, err := n.Write(request)
	n.written += sent
	return err
}

// exchange makes one exchange. The answer's body is appended to body.
func (n *conn) exchange(ctx context.Context, request, body []byte) reply {
	r := reply{connected: true, body: body}
	n.written, n.read, n.room = 0, 0, maxAnswer
	switch {
	case ctx.Err() != nil: // Connecting takes its time; it is looked at just before the first byte.
		r.err = errTooLate
	case len(request) <= atOnce:
		if r.err = n.send(request); r.err == nil {
			n.receive(&r)
		}
	default:
		n.receiveWhile(ctx, request, &r)
	}
	r.sent, r.answered, r.ended = n.written > 0, n.read > 0, n.ended
	r.sentWhole = n.written == len(request)
	if !r.sent && r.err == nil {
		r.Response, r.err = nil, errUnasked
	}
	return r
}

// receiveWhile reads the answer while the request is written. What is not written soon after the answer is
// there is given up, and the connection with it.
func (n *conn) receiveWhile(ctx context.Context, request []byte, r *reply) {
	written := make(chan struct{})
	go func() {
		defer close(written)
		if n.send(request) != nil {
			n.SetReadDeadline(time.Now().Add(lastLook)) //nolint:errcheck // a closed one has ended
			if ctx.Err() != nil {
				n.interrupt() // again: the deadline above has taken the place of the first
			}
		}
	}()
	n.receive(r)
	patience := time.NewTimer(lastBytes)
	defer patience.Stop()
	select {
	case <-written:
	case <-patience.C:
		n.giveUp()
		<-written
	}
	n.spent = n.spent || n.written < len(request)
}

// asked is what http.ReadResponse wants to know of a request: that it was no HEAD.
var asked = &http.Request{Method: http.MethodPost}

// receive reads an answer.
func (n *conn) receive(r *reply) {
	for {
		//nolint:bodyclose // closing would read an endless body to its end; the connection is what is closed
		response, err := http.ReadResponse(n.in, asked)
		if err != nil {
			r.err = err
			return
		}
		status := response.StatusCode
		if status == http.StatusSwitchingProtocols { // What follows is no body and does not end.
			r.Response = response
			n.spent = true
			return
		}
		if status < 100 || status > 199 {
			r.Response = response
			break
		}
	}
	n.room = math.MaxInt
	r.body, r.err = readBody(r.Response, r.body)
}

// reusable reports whether the next exchange can be made on n after r.
func (n *conn) reusable(r *reply) bool {
	return r.err == nil && !n.spent && !r.Close && n.in.Buffered() == 0
}

// readBody appends an answer's body to b, to its end so that the connection can be used again, or up to the
// limit.
func readBody(response *http.Response, b []byte) ([]byte, error) {
	if response.ContentLength > maxAnswer {
		return b, errTooLong
	}
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := response.Body.Read(b[len(b):min(cap(b), maxAnswer+1)])
		b = b[:len(b)+n]
		switch {
		case len(b) > maxAnswer:
			return b, errTooLong
		case err == io.EOF:
			return b, nil
		case err != nil:
			return b, err
		}
	}
}
