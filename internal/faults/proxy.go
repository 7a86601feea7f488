package faults

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// mode is what a link does with what passes.
type mode int

const (
	pass  mode = iota
	cut        // connections are reset, new ones too
	stall      // nothing passes, nothing ends
	late       // each piece waits
	mute       // what a client asks passes; its connection ends with the first byte of the answer
)

// link is the way from one daemon to a server: a proxy on loopback that can fail.
type link struct {
	address  string // where clients connect
	server   string
	listener net.Listener
	wait     sync.WaitGroup

	mu      sync.Mutex
	mode    mode
	delay   time.Duration
	changed chan struct{} // closed and replaced with each change of mode
	conns   map[net.Conn]struct{}
	closed  bool
}

func newLink(server string) (*link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &link{
		address: listener.Addr().String(), server: server, listener: listener,
		changed: make(chan struct{}), conns: map[net.Conn]struct{}{},
	}
	l.wait.Go(l.accept)
	return l, nil
}

// close ends the link and waits for its goroutines.
func (l *link) close() {
	l.mu.Lock()
	l.closed = true
	l.setLocked(cut, 0)
	l.mu.Unlock()
	_ = l.listener.Close() // nothing is lost with it
	l.wait.Wait()
}

// set changes what the link does. The delay is for late only.
func (l *link) set(m mode, delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setLocked(m, delay)
}

func (l *link) setLocked(m mode, delay time.Duration) {
	l.mode, l.delay = m, delay
	close(l.changed)
	l.changed = make(chan struct{})
	if m != cut {
		return
	}
	for conn := range l.conns {
		reset(conn)
	}
}

func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // then it is closed without a reset
	}
	_ = conn.Close() // it may be closed already
}

func (l *link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return // closed
		}
		if !l.keep(client) {
			reset(client)
			continue
		}
		l.wait.Go(func() { l.relay(client) })
	}
}

// keep remembers an open connection, unless connections are cut.
func (l *link) keep(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mode == cut || l.closed {
		return false
	}
	l.conns[conn] = struct{}{}
	return true
}

func (l *link) forget(conn net.Conn) {
	_ = conn.Close() // the end of one direction is the end of both
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, conn)
}

func (l *link) relay(client net.Conn) {
	defer l.forget(client)
	server, err := net.Dial("tcp", l.server)
	if err != nil || !l.keep(server) {
		if err == nil {
			reset(server)
		}
		return
	}
	defer l.forget(server)
	done := make(chan struct{})
	l.wait.Go(func() {
		defer close(done)
		l.copy(server, client, false)
		_ = client.Close() // wakes the other direction
	})
	l.copy(client, server, true)
	_ = server.Close() // wakes the other direction
	<-done
}

var errMuted = errors.New("muted")

// copy moves bytes until either end is gone. upward is from client to server.
func (l *link) copy(from io.Reader, to io.Writer, upward bool) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && (l.pause(upward) != nil || writeAll(to, buffer[:n]) != nil) {
			return
		}
		if err != nil {
			return
		}
	}
}

func writeAll(to io.Writer, b []byte) error {
	_, err := to.Write(b)
	return err
}

// pause waits as the mode says before a piece goes on.
func (l *link) pause(upward bool) error {
	var alarm <-chan time.Time
	for {
		l.mu.Lock()
		m, delay, changed := l.mode, l.delay, l.changed
		l.mu.Unlock()
		switch {
		case m == cut, m == mute && !upward:
			return errMuted
		case m == late && upward:
			if alarm == nil {
				alarm = time.After(delay)
			}
		case m == stall:
			alarm = nil
		default:
			return nil
		}
		select {
		case <-alarm:
			return nil
		case <-changed:
		}
	}
}

// sleep passes time, or less if ctx ends. It reports whether it passed.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
