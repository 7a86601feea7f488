// Package natstest runs a NATS server inside a test. It is imported from tests only.
package natstest

import (
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// patience bounds starting a server.
const patience = 30 * time.Second

// Server is a NATS server on a port of loopback that it keeps over a restart.
type Server struct {
	t       testing.TB
	options server.Options
	running *server.Server
}

// Start runs a server until the test ends. The options may be changed before.
func Start(t testing.TB, change ...func(*server.Options)) *Server {
	t.Helper()
	s := New(t, change...)
	s.Start()
	return s
}

// New returns a server that does not run yet, at an address of its own.
func New(t testing.TB, change ...func(*server.Options)) *Server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address, ok := listener.Addr().(*net.TCPAddr)
	_ = listener.Close() // for the server to bind
	if !ok {
		t.Fatal("a TCP listener has no TCP address")
	}
	s := &Server{t: t, options: server.Options{Host: "127.0.0.1", Port: address.Port, NoLog: true, NoSigs: true}}
	for _, c := range change {
		c(&s.options)
	}
	t.Cleanup(s.Stop)
	return s
}

// Start runs it, also again.
func (s *Server) Start() {
	s.t.Helper()
	options := s.options // the server writes into its own
	running, err := server.NewServer(&options)
	if err != nil {
		s.t.Fatal(err)
	}
	go running.Start()
	if !running.ReadyForConnections(patience) {
		s.t.Fatal("the NATS server does not start")
	}
	s.running = running
}

// Stop ends it and cuts its connections. One that does not run is left alone.
func (s *Server) Stop() {
	if s.running == nil {
		return
	}
	s.running.Shutdown()
	s.running.WaitForShutdown()
	s.running = nil
}

// Change changes the options of the server while it runs.
func (s *Server) Change(change func(*server.Options)) {
	s.t.Helper()
	change(&s.options)
	if err := s.running.ReloadOptions(s.options.Clone()); err != nil {
		s.t.Fatal(err)
	}
}

// Address returns HOST:PORT.
func (s *Server) Address() string {
	return net.JoinHostPort(s.options.Host, strconv.Itoa(s.options.Port))
}

// URL returns the address for a client.
func (s *Server) URL() string { return "nats://" + s.Address() }
