// Package pgserver finds or starts the PostgreSQL server that tests run against.
//
// Tests use it through the pgtest-server command only: a process of its own can outlive a test binary that
// was killed, and so can always end what it started; and test binaries need not link a container client.
package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Environment variables that choose the server.
const (
	// EnvDSN is the connection string of a server to use as it is. Its role must be a superuser, or may create
	// databases and roles.
	EnvDSN = "TREX_POSTGRESQL_TEST_DSN"
	// EnvImage is the container image to run where a container engine answers. When it is set, an image that
	// cannot be had is an error; the default image gives way to the machine's own binaries.
	EnvImage = "FENCEROW_TEST_POSTGRES_IMAGE"
	// EnvBin is the folder that has initdb and postgres, where they are not to be searched for.
	EnvBin = "FENCEROW_TEST_POSTGRES_BIN"
	// EnvFsync set to "1" makes a server started here write durably, as a server in use does. Otherwise fsync is
	// off: it saves most of the time of a test, and only a crash of the whole machine could show the difference.
	EnvFsync = "FENCEROW_TEST_FSYNC"
)

// ErrNone is returned when none of the ways to a server is open on this machine.
var ErrNone = errors.New("no PostgreSQL to test against: " +
	"run `make setup` to install the server's binaries, or set " + EnvDSN + ", or start a container engine")

// Server is a server that tests may use.
type Server struct {
	// DSN connects to the server's maintenance database.
	DSN string
	// Source says in words for a person where the server comes from. It never holds the DSN.
	Source string
	close  func() error
}

// Close ends what Start began. A server named by the environment goes on.
func (s *Server) Close() error {
	return s.close()
}

// Start returns the server named by the environment, else one in a container, else a private cluster made
// from the binaries on this machine. logf is told what was tried in vain.
func Start(ctx context.Context, logf func(format string, args ...any)) (*Server, error) {
	if dsn := os.Getenv(EnvDSN); dsn != "" {
		return &Server{DSN: dsn, Source: EnvDSN, close: func() error { return nil }}, nil
	}
	server, err := startContainer(ctx, logf)
	if !errors.Is(err, errNoContainer) {
		return server, err
	}
	cluster, err := StartCluster(ctx, nil)
	if err != nil {
		return nil, err
	}
	source := fmt.Sprintf("a private cluster, binaries of %s", cluster.bin)
	return &Server{DSN: cluster.DSN(), Source: source, close: cluster.Close}, nil
}

// settings are what every server started here runs with. Connections are generous because the packages of one
// `go test` run share the server. synchronous_commit stays on: the product depends on it.
func settings() map[string]string {
	s := map[string]string{
		"max_connections":    "300",
		"timezone":           "UTC",
		"fsync":              "off",
		"full_page_writes":   "off",
		"synchronous_commit": "on",
	}
	if os.Getenv(EnvFsync) == "1" {
		s["fsync"], s["full_page_writes"] = "on", "on"
	}
	return s
}
