package daemon

import (
	"net"
	"sync"
	"time"
)

// noRoom is what a connection is told that would be one too many, before it asks.
const noRoom = "HTTP/1.1 429 Too Many Requests\r\n" +
	"Content-Type: application/json\r\nConnection: close\r\n\r\n" +
	`{"error":"` + codeTooMany + `"}` + "\n"

// roomy is a listener with room for so many connections at once. The others are refused and closed, so that
// those who connect and do nothing use up neither memory nor files that the daemon needs for its own work.
type roomy struct {
	net.Listener
	room chan struct{}
}

// Accept returns the next connection for which there is room.
func (l *roomy) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.room <- struct{}{}:
			return &guest{Conn: conn, leave: sync.OnceFunc(func() { <-l.room })}, nil
		default:
			_ = conn.SetDeadline(time.Now().Add(time.Second)) // what was just opened has room for a few words
			_, _ = conn.Write([]byte(noRoom))
			_ = conn.Close()
		}
	}
}

// guest is a connection that has room.
type guest struct {
	net.Conn
	leave func()
}

// Close ends it, also again, and makes room.
func (g *guest) Close() error {
	defer g.leave()
	return g.Conn.Close()
}
