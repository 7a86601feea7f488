// Command pgtest-server provides a PostgreSQL server for tests for as long as it runs.
//
//	pgtest-server [--] COMMAND [ARG...]         runs COMMAND with the address in TREX_POSTGRESQL_TEST_DSN
//	pgtest-server -serve KIND [-set N=V]        serves a test binary by the protocol of package wire
//
// KIND is shared, private, standby or pooler; the last two are made for the server whose address, a
// superuser's, is in FENCEROW_PGTEST_TARGET.
//
// It ends the server when the command has ended or the input has, whatever they died of, and exits as the
// command did.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/fourblocks2020/fencerow/internal/pgtest/pgserver"
)

// stopSignals end the server in order.
var stopSignals = []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}

const (
	exitFailure = 1
	exitUsage   = 2
	// exitSignal is added to the number of the signal that ended the command, as shells do.
	exitSignal = 128
)

func main() {
	var (
		serveKind = flag.String("serve", "", "serve a test binary on standard input and output with a server of "+
			"this `kind`: shared, private, standby or pooler; all but shared can be stopped and started")
		settings = settingsFlag{}
	)
	flag.Var(settings, "set", "with -serve, but for shared: configuration `parameter=value` of the server")
	flag.Parse()
	switch {
	case *serveKind != "" && flag.NArg() == 0:
		os.Exit(serve(kind(*serveKind), settings))
	case *serveKind == "" && flag.NArg() > 0:
		os.Exit(wrap(flag.Args()))
	default:
		flag.Usage()
		os.Exit(exitUsage)
	}
}

// wrap runs the command with a server beside it.
func wrap(command []string) int {
	// From here on a signal does not end this process: while the server starts it cancels that, later it goes to
	// the command, which the server outlives.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, stopSignals...)
	server, err := startUnlessSignalled(signals)
	if err != nil {
		logf("%v", err)
		return exitFailure
	}
	logf("PostgreSQL: %s", server.Source)
	code := run(command, server.DSN, signals)
	if err := server.Close(); err != nil {
		logf("%v", err)
		return max(code, exitFailure)
	}
	return code
}

func startUnlessSignalled(signals <-chan os.Signal) (*pgserver.Server, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	started := make(chan struct{})
	watcher := make(chan struct{})
	go func() {
		defer close(watcher)
		select {
		case <-signals:
			cancel()
		case <-started:
		}
	}()
	server, err := pgserver.Start(ctx, logf)
	close(started)
	<-watcher
	if err == nil && ctx.Err() != nil {
		return nil, errors.Join(ctx.Err(), server.Close())
	}
	return server, err
}

// run runs the command, passes signals on to it, and returns its exit status.
func run(command []string, dsn string, signals <-chan os.Signal) int {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), pgserver.EnvDSN+"="+dsn)
	if err := cmd.Start(); err != nil {
		logf("%v", err)
		return exitFailure
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			_ = cmd.Process.Signal(s) // an error means that it has just ended
		case err := <-done:
			return exitStatus(err)
		}
	}
}

func exitStatus(err error) int {
	exit, ok := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return 0
	case !ok:
		logf("%v", err)
		return exitFailure
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignal + int(status.Signal())
	}
	return exit.ExitCode()
}

func logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "pgtest-server: "+format+"\n", args...)
}

// settingsFlag collects -set name=value.
type settingsFlag map[string]string

func (f settingsFlag) String() string { return "" }

func (f settingsFlag) Set(s string) error {
	name, value, ok := strings.Cut(s, "=")
	if !ok || name == "" {
		return errors.New("want parameter=value")
	}
	f[name] = value
	return nil
}
