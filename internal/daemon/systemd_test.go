package daemon

import (
	"context"
	"crypto/rand"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// manager is the socket of a service manager.
type manager struct {
	t    *testing.T
	conn *net.UnixConn
}

func newManager(t *testing.T, name string) *manager {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	check(t, err)
	t.Cleanup(func() { check(t, conn.Close()) })
	t.Setenv("NOTIFY_SOCKET", name)
	return &manager{t: t, conn: conn}
}

// next returns the next state that was sent.
func (m *manager) next() string {
	m.t.Helper()
	check(m.t, m.conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	b := make([]byte, 256)
	n, err := m.conn.Read(b)
	check(m.t, err)
	return string(b[:n])
}

func TestTheServiceManagerIsTold(t *testing.T) {
	names := map[string]string{
		"OnAPath":                filepath.Join(t.TempDir(), "notify"),
		"InTheAbstractNamespace": "@fencerow-test-" + rand.Text(),
	}
	for name, socket := range names {
		t.Run(name, func(t *testing.T) {
			m := newManager(t, socket)
			b := newBench(t, newScripted(idle), func(cfg *Config) { cfg.Interval = 10 * time.Millisecond })
			b.store.fail(storeDown())
			stop := b.start()
			if got := m.next(); !strings.HasPrefix(got, "EXTEND_TIMEOUT_USEC=") {
				t.Errorf("while the database is down: got %s", got)
			}
			b.store.fail(nil)
			got := m.next()
			for strings.HasPrefix(got, "EXTEND_TIMEOUT_USEC=") {
				got = m.next()
			}
			equal(t, "once it is there", got, "READY=1")
			check(t, stop())
			equal(t, "when it stops", m.next(), "STOPPING=1")
		})
	}
}

func TestTheWatchdogIsFedWhileTheLoopIsAlive(t *testing.T) {
	m := newManager(t, filepath.Join(t.TempDir(), "notify"))
	t.Setenv("WATCHDOG_USEC", "20000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	n := newNotifier()
	equal(t, "watchdog", n.watchdog, 20*time.Millisecond)
	asked := 0
	alive := func() bool { // dead at the second time
		asked++
		return asked != 2
	}
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		n.watch(ctx, alive)
	}()
	equal(t, "first", m.next(), "WATCHDOG=1")
	equal(t, "second", m.next(), "WATCHDOG=1")
	cancel()
	<-ended
	if asked < 3 {
		t.Errorf("two signs of life for %d looks, of which one failed", asked)
	}
}

func TestWhoIsNotSupervisedSaysNothing(t *testing.T) {
	tests := []struct {
		name, socket, usec, pid string
		watchdog                time.Duration
	}{
		{"NoSocket", "", "20000", "", 0},
		{"SocketOfAnotherKind", "vsock:2:1234", "20000", "", 0},
		{"WatchdogOfAnotherProcess", "/run/notify", "20000", "1", 0},
		{"NoWatchdog", "/run/notify", "", "", 0},
		{"WatchdogIsNoNumber", "/run/notify", "soon", "", 0},
		{"WatchdogIsNegative", "/run/notify", "-1", "", 0},
		{"WatchdogOfAnyProcess", "/run/notify", "20000", "", 20 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("NOTIFY_SOCKET", tt.socket)
			t.Setenv("WATCHDOG_USEC", tt.usec)
			t.Setenv("WATCHDOG_PID", tt.pid)
			n := newNotifier()
			equal(t, "watchdog", n.watchdog, tt.watchdog)
			n.send("READY=1") // nobody listens: no error, no wait
		})
	}
}
