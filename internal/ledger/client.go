package ledger

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// idleTimeout closes idle connections before common servers do (5 s and more): a request that meets a
// connection being closed has an unknown outcome.
const idleTimeout = 4 * time.Second

// client exchanges requests and answers with one host over HTTP/1.1, one at a time on each connection. It is
// safe for concurrent use.
type client struct {
	dial func(context.Context) (net.Conn, error)
	keep int // idle connections kept at most

	mu     sync.Mutex
	idle   []*conn // the one used last at the end
	sweep  *time.Timer
	closed bool
}

// reply is what came of a request.
type reply struct {
	*http.Response // nil unless the head of an answer was read; its Body is of no use
	body           []byte
	err            error // why there is no head, or why the body is not whole

	connected bool // there was a connection
	sent      bool // at least one byte of the request was written
	sentWhole bool // and all others
	answered  bool // at least one byte was read
	ended     bool // and the connection was read to its end, or to its failure
}

// exchange sends a request and reads the answer whole, appending its body to body. ctx bounds it: nothing is
// written once ctx is over, and what is under way then fails. When exchange has returned, nothing reads the
// request any more.
//
// It is sent once. Where not one byte of it could be written on a connection that had been used before, which
// the ledger has closed while it was idle, it goes out once more on a fresh one.
func (c *client) exchange(ctx context.Context, request, body []byte) reply {
	if used := c.take(); used != nil {
		r := c.over(ctx, used, request, body)
		if r.err == nil || r.sent || r.answered || ctx.Err() != nil {
			return r
		}
	}
	fresh, err := c.dial(ctx)
	if err != nil {
		return reply{err: err, body: body}
	}
	return c.over(ctx, newConn(fresh), request, body)
}

// over makes the exchange on a connection, and keeps it if it can be used again.
func (c *client) over(ctx context.Context, n *conn, request, body []byte) reply {
	stop := context.AfterFunc(ctx, n.interrupt)
	r := n.exchange(ctx, request, body)
	if stop() && n.reusable(&r) {
		c.put(n)
	} else {
		n.giveUp()
	}
	return r
}

// take returns the idle connection that was used last, nil if there is none. One on which anything has come
// in since is closed instead: the ledger has ended it, or sent what might be taken for the next answer.
func (c *client) take() *conn {
	for {
		c.mu.Lock()
		last := len(c.idle) - 1
		if last < 0 {
			c.mu.Unlock()
			return nil
		}
		n := c.idle[last]
		c.idle[last] = nil
		c.idle = c.idle[:last]
		c.mu.Unlock()
		if time.Since(n.idleSince) < idleTimeout && n.quiet() {
			return n
		}
		n.giveUp()
	}
}

func (c *client) put(n *conn) {
	n.idleSince = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.idle) >= c.keep {
		n.giveUp()
		return
	}
	c.idle = append(c.idle, n)
	if c.sweep == nil {
		c.sweep = time.AfterFunc(idleTimeout, c.closeExpired)
	}
}

// closeExpired closes connections that have been idle for too long, and comes again while others are left.
func (c *client) closeExpired() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, young := time.Now(), 0
	for young < len(c.idle) && now.Sub(c.idle[young].idleSince) >= idleTimeout {
		c.idle[young].giveUp()
		young++
	}
	c.idle = append(c.idle[:0], c.idle[young:]...)
	clear(c.idle[len(c.idle):cap(c.idle)])
	if len(c.idle) == 0 {
		c.sweep = nil
		return
	}
	c.sweep.Reset(idleTimeout - now.Sub(c.idle[0].idleSince))
}

// close closes idle connections. Exchanges under way go on, and keep none.
func (c *client) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, n := range c.idle {
		n.giveUp()
	}
	c.idle = nil
	if c.sweep != nil {
		c.sweep.Stop()
	}
}
