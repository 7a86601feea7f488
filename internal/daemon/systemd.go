package daemon

import (
	"context"
	"net"
	"os"
	"strconv"
	"time"
)

// notifier tells the service manager how the daemon is, by the protocol of sd_notify(3). Nothing is sent
// where nobody listens.
type notifier struct {
	socket   string
	watchdog time.Duration // within which a sign of life is expected; zero if none is
}

// newNotifier reads NOTIFY_SOCKET and the watchdog's variables. A name that begins with @ is in Linux's
// abstract namespace.
func newNotifier() notifier {
	n := notifier{socket: os.Getenv("NOTIFY_SOCKET")}
	if n.socket == "" || n.socket[0] != '/' && n.socket[0] != '@' {
		return notifier{}
	}
	if pid := os.Getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return n
	}
	const maxMicroseconds = int64(24 * time.Hour / time.Microsecond)
	if usec, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64); err == nil && usec > 0 {
		n.watchdog = time.Duration(min(usec, maxMicroseconds)) * time.Microsecond
	}
	return n
}

// send sends one state. A service manager that cannot be reached is not this daemon's trouble.
func (n notifier) send(state string) {
	if n.socket == "" {
		return
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return
	}
	defer conn.Close() //nolint:errcheck // a datagram is sent or not
	// A full queue of the receiver would block for ever.
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = conn.Write([]byte(state))
}

// extendStart asks for more time to start: the database is not there yet, and being killed for it would not
// help.
func (n notifier) extendStart(by time.Duration) {
	n.send("EXTEND_TIMEOUT_USEC=" + strconv.FormatInt(by.Microseconds(), 10))
}

// watch gives a sign of life twice in each watchdog time while alive says so, until ctx ends.
func (n notifier) watch(ctx context.Context, alive func() bool) {
	if n.watchdog == 0 {
		return
	}
	ticker := time.NewTicker(n.watchdog / 2)
	defer ticker.Stop()
	for {
		if alive() {
			n.send("WATCHDOG=1")
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
