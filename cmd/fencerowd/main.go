// Command fencerowd delivers one instance's ledger entries: it polls the outbox, posts what is due to the ledger and records what the
// ledger said, until it is told to stop.
//
// The first SIGTERM or SIGINT stops it in order, with status 0; a second one ends it at once. It writes its log to standard error and
// nothing to standard output. Exit status: 0 stopped, 1 failure, 80 usage.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// Once stopping has begun signals do again what they do by default: end the process.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// say writes one line for people.
func say(w io.Writer, text string) { fmt.Fprintf(w, "fencerowd: %s\n", text) }
