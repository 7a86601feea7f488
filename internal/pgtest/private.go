package pgtest

import (
	"context"
	"testing"

	"github.com/fourblocks2020/fencerow/internal/pgtest/wire"
)

// Private is a server of the test's own: a cluster made from the machine's PostgreSQL binaries, whatever the
// shared server is. It keeps its address and its data when it is stopped and started. Its methods are safe
// for concurrent use.
type Private struct {
	process *process
	server  *server
}

// StartPrivate starts a server that ends with the test. Settings are configuration parameters of it.
func StartPrivate(t testing.TB, settings map[string]string) *Private {
	t.Helper()
	return startOwn(t, "private", settings, "")
}

func startOwn(t testing.TB, kind string, settings map[string]string, target string) *Private {
	t.Helper()
	process, err := startProcess(kind, settings, target)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	t.Cleanup(func() {
		if err := process.close(); err != nil {
			t.Errorf("pgtest: end the %s server: %v", kind, err)
		}
	})
	return &Private{process: process, server: &server{dsn: process.dsn}}
}

// NewDatabase returns a fresh database on the private server, filled by template unless that is nil. It goes
// when the server does.
func (p *Private) NewDatabase(t testing.TB, template *Template) *Database {
	t.Helper()
	d := &Database{Name: p.server.newName(), server: p.server}
	if err := p.server.exec(createEmpty(d.Name)); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	if template != nil {
		ctx, cancel := context.WithTimeout(t.Context(), adminTimeout)
		defer cancel()
		if err := template.build(ctx, d.DSN()); err != nil {
			t.Fatalf("pgtest: build the database: %v", err)
		}
	}
	return d
}

// Stop shuts the server down in order and waits for its end.
func (p *Private) Stop(t testing.TB) { t.Helper(); p.ask(t, wire.Stop) }

// Crash ends the server as a crash of it does, and waits for its end.
func (p *Private) Crash(t testing.TB) { t.Helper(); p.ask(t, wire.Crash) }

// Start starts the stopped server and waits until it accepts connections.
func (p *Private) Start(t testing.TB) { t.Helper(); p.ask(t, wire.Start) }

// Restart crashes the server and starts it again.
func (p *Private) Restart(t testing.TB) {
	t.Helper()
	p.Crash(t)
	p.Start(t)
}

func (p *Private) ask(t testing.TB, command wire.Command) {
	t.Helper()
	if err := p.process.ask(command); err != nil {
		t.Fatalf("pgtest: %s the private server: %v", command, err)
	}
}
