package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// freezer passes on the bytes between clients and a server until it is frozen: then the connections stay, and
// nothing is answered any more.
type freezer struct {
	listener net.Listener
	server   string
	thaw     sync.RWMutex // locked for writing while frozen
	passing  sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

// newFreezer returns a freezer before the server of a DSN, and the DSN that goes through it. It is frozen at
// most once and until the test ends.
func newFreezer(t *testing.T, dsn string) (f *freezer, through string) {
	t.Helper()
	u, err := url.Parse(dsn)
	check(t, err)
	f = &freezer{server: u.Host}
	f.listener, err = net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	f.passing.Go(func() {
		for {
			client, err := f.listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", f.server)
			if err != nil {
				_ = client.Close() // it sees that the server is not there
				continue
			}
			f.mu.Lock()
			f.conns = append(f.conns, client, server)
			f.mu.Unlock()
			f.passing.Go(func() { f.pass(client, server) })
			f.passing.Go(func() { f.pass(server, client) })
		}
	})
	t.Cleanup(func() {
		_ = f.listener.Close() // nothing more comes
		f.mu.Lock()
		for _, c := range f.conns {
			_ = c.Close() // it may be closed
		}
		f.mu.Unlock()
		f.passing.Wait()
	})
	u.Host = f.listener.Addr().String()
	return f, u.String()
}

func (f *freezer) pass(from, to net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		f.thaw.RLock()
		if err == nil {
			_, err = to.Write(buffer[:n])
		}
		f.thaw.RUnlock()
		if err != nil {
			_ = to.Close() // the other end is gone
			return
		}
	}
}

func (f *freezer) freeze(t *testing.T) {
	t.Helper()
	f.thaw.Lock()
	t.Cleanup(f.thaw.Unlock)
}

func TestStoppingEndsWithinTheGraceAlsoWhenTheDatabaseAnswersNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	f, dsn := newFreezer(t, s.settings["DSN"])
	s.settings["DSN"] = dsn
	s.enqueue(self, "own", 1)
	p := s.start()
	p.awaitCompleted(1)
	f.freeze(t)
	p.awaitEvents("poll failed", 1)
	began := time.Now()
	p.signal(syscall.SIGTERM)
	p.wait()
	if took := time.Since(began); took > 5*time.Second { // the grace
		t.Errorf("stopping took %v", took)
	}
}

// A pipe holds 64 KiB, and nobody reads it.
func TestALogThatNobodyReadsHoldsUpNeitherTheWorkNorTheEnd(t *testing.T) {
	t.Parallel()
	const entries = 5000
	s := newScene(t)
	s.enqueue(self, strings.Repeat("long", 10), entries)
	cmd := exec.Command(binary)
	for name, value := range s.settings {
		cmd.Env = append(cmd.Env, "FENCEROW_"+name+"="+value)
	}
	stderr, err := cmd.StderrPipe()
	check(t, err)
	check(t, cmd.Start())
	ended := make(chan error, 1)
	kill := time.AfterFunc(2*patience, func() { _ = cmd.Process.Kill() }) // then the status tells
	defer kill.Stop()

	for range retries(t) {
		if s.stub.Counters().Booked == entries {
			break
		}
	}
	equal(t, "booked", int(s.stub.Counters().Booked), entries)
	began := time.Now()
	check(t, cmd.Process.Signal(syscall.SIGTERM))
	go func() {
		_, err := cmd.Process.Wait() // not Cmd.Wait, which closes what nobody has read yet
		ended <- err
	}()
	check(t, <-ended)
	if took := time.Since(began); took > 5*time.Second { // the grace
		t.Errorf("stopping took %v", took)
	}
	equal(t, "pending at the end", s.atRest(), 0)
	left, err := io.ReadAll(stderr)
	check(t, err)
	if len(left) == 0 || len(left) > 1<<20 {
		t.Errorf("%d bytes of the log were written", len(left))
	}
}

func TestStoppingThatDoesNotEndIsLeft(t *testing.T) {
	t.Parallel()
	stuck := make(chan struct{})
	defer close(stuck)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := runWithin(ctx, time.Millisecond, func(context.Context) error {
		<-stuck
		return nil
	}, func() {})
	if !errors.Is(err, errOverdue) {
		t.Errorf("got %v", err)
	}
}
