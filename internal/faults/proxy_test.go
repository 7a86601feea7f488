package faults

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// echo answers each line with itself, and says on heard that it has read one.
func echo(t testing.TB) (address string, heard chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	heard = make(chan string, 10)
	t.Cleanup(func() { check(t, listener.Close()) })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // closed
			}
			go func() {
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					heard <- lines.Text()
					if _, err := io.WriteString(conn, lines.Text()+"\n"); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String(), heard
}

type caller struct {
	t     testing.TB
	conn  net.Conn
	lines *bufio.Reader
}

func dial(t testing.TB, l *link) *caller {
	t.Helper()
	conn, err := net.Dial("tcp", l.address)
	check(t, err)
	t.Cleanup(func() { _ = conn.Close() }) // it may be closed already
	return &caller{t, conn, bufio.NewReader(conn)}
}

func (c *caller) say(line string) {
	c.t.Helper()
	_, err := io.WriteString(c.conn, line+"\n")
	check(c.t, err)
}

// hear returns what comes within a time, and the error that ends the wait.
func (c *caller) hear(within time.Duration) (string, error) {
	c.t.Helper()
	check(c.t, c.conn.SetReadDeadline(time.Now().Add(within)))
	return c.lines.ReadString('\n')
}

const long = 10 * time.Second

func TestALinkFailsAsItIsTold(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T) (*link, *caller, chan string) {
		t.Helper()
		t.Parallel()
		address, heard := echo(t)
		l, err := newLink(address)
		check(t, err)
		t.Cleanup(l.close)
		c := dial(t, l)
		c.say("first")
		if line, err := c.hear(long); line != "first\n" {
			t.Fatalf("heard %q, %v", line, err)
		}
		<-heard
		return l, c, heard
	}
	t.Run("CutEndsConnectionsAndRefusesNewOnes", func(t *testing.T) {
		l, c, _ := open(t)
		l.set(cut, 0)
		if line, err := c.hear(long); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("heard %q, %v", line, err)
		}
		if conn, err := net.Dial("tcp", l.address); err == nil { // It may be reset as early as that.
			other := &caller{t, conn, bufio.NewReader(conn)}
			if line, err := other.hear(long); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("a new connection heard %q, %v", line, err)
			}
			check(t, conn.Close())
		}
		l.set(pass, 0)
		again := dial(t, l)
		again.say("again")
		if line, err := again.hear(long); line != "again\n" {
			t.Errorf("after the cut: heard %q, %v", line, err)
		}
	})
	t.Run("StallHoldsEverythingAndLosesNothing", func(t *testing.T) {
		l, c, heard := open(t)
		l.set(stall, 0)
		c.say("held")
		if line, err := c.hear(100 * time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("heard %q, %v", line, err)
		}
		if len(heard) > 0 {
			t.Error("the server heard it")
		}
		l.set(pass, 0)
		if line, err := c.hear(long); line != "held\n" {
			t.Errorf("after the stall: heard %q, %v", line, err)
		}
	})
	t.Run("LateWaits", func(t *testing.T) {
		l, c, _ := open(t)
		const delay = 150 * time.Millisecond
		l.set(late, delay)
		began := time.Now()
		c.say("late")
		if line, err := c.hear(long); line != "late\n" || time.Since(began) < delay {
			t.Errorf("heard %q after %s, %v", line, time.Since(began), err)
		}
	})
	t.Run("MutePassesTheRequestAndCutsTheAnswer", func(t *testing.T) {
		l, c, heard := open(t)
		l.set(mute, 0)
		c.say("done")
		if line := <-heard; line != "done" {
			t.Errorf("the server heard %q", line)
		}
		if line, err := c.hear(long); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("heard %q, %v", line, err)
		}
	})
}
