// Command fencerowd delivers one instance's ledger entries: it polls the outbox, posts what is due to the
// ledger and records what the ledger said, until it is told to stop.
//
// The first SIGTERM, SIGINT or SIGHUP stops it in order, with status 0; a second one ends it at once, with
// status 1.
// It writes its log to standard error and nothing to standard output. Exit status: 0 stopped, 1 failure, 80
// usage.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"

	"github.com/fourblocks2020/fencerow/internal/config"
)

func main() {
	// Standard error holds the records of the log and lines of our own only. Libraries print through the
	// standard logger: net/http, for one, what comes unasked on a connection, and it offers no other place.
	log.SetOutput(io.Discard)
	config.CollectLessOften()
	ctx, stop := context.WithCancel(context.Background())
	// One channel takes all signals: giving the second back to the default action would lose one that comes
	// while that is being done.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, config.StopSignals()...)
	go func() {
		<-signals
		stop()
		<-signals
		os.Exit(config.ExitFailure)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// say writes one line for people.
func say(w io.Writer, text string) { fmt.Fprintf(w, "fencerowd: %s\n", text) }
