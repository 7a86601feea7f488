// Command fencerow is the operator's side of the ledger outbox: it migrates the schema, enqueues, delivers
// single entries or a backlog, shows what is where, and finishes what was parked. The daemon is fencerowd.
// docs/interfaces.md is the contract of what this command prints and of its exit statuses.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"

	"github.com/alecthomas/kong"

	"github.com/fourblocks2020/fencerow/internal/config"
)

const description = `A ledger outbox on PostgreSQL: entries are enqueued with your own data, delivered to an
external ledger at least once, and finished exactly once.

Data goes to standard output, everything else to standard error. Settings come from flags or from the
variables in parentheses; secrets come from variables and files only. Exit status: 0 done, 1 failure, 2
nothing done, 3 refused because the entry is another instance's or nobody's, 4 the claim was lost, 5 tried
and not completed, 80 wrong usage.`

// commands is the command line.
//
//nolint:lll // a struct tag cannot be wrapped
type commands struct {
	JSON    bool             `name:"json" env:"FENCEROW_JSON" help:"Print data as one JSON document instead of a table."`
	Version kong.VersionFlag `name:"version" help:"Print the version and exit."`

	Dev     devCmd     `cmd:"" group:"Begin" help:"Run the whole job on this machine: store, stub ledger, sample entries, daemon."`
	Migrate migrateCmd `cmd:"" group:"Begin" help:"Bring the database's schema to this version, or look at it."`
	Doctor  doctorCmd  `cmd:"" group:"Begin" help:"Check the database and its settings, and advise."`

	Enqueue  enqueueCmd  `cmd:"" group:"Entries" help:"Enqueue one entry from flags, or many from a file of JSON lines."`
	Process  processCmd  `cmd:"" group:"Entries" help:"Claim, deliver and record one entry now."`
	Backfill backfillCmd `cmd:"" group:"Entries" help:"Deliver the instance's own backlog in the foreground."`
	Requeue  requeueCmd  `cmd:"" group:"Entries" help:"Put one blocked entry back to pending."`
	Prune    pruneCmd    `cmd:"" group:"Entries" help:"Delete own entries that were completed long ago."`

	Pending   pendingCmd   `cmd:"" group:"Views" help:"List pending entries that no worker holds."`
	Blocked   blockedCmd   `cmd:"" group:"Views" help:"List entries that wait for an operator, with why."`
	CashDelta cashDeltaCmd `cmd:"" group:"Views" help:"Sum the cash that is not in the ledger yet."`
	Show      showCmd      `cmd:"" group:"Views" help:"Show everything about one entry."`
	Counts    countsCmd    `cmd:"" group:"Views" help:"Count the entries by status."`
	Claims    claimsCmd    `cmd:"" group:"Views" help:"List the claims that stand."`
	Slots     slotsCmd     `cmd:"" group:"Views" help:"Ask the running daemon for the strategy slots, and for its counters."`
	Legacy    legacyCmd    `cmd:"" group:"Views" help:"Count or export entries from before ownership."`

	Hold   holdCmd   `cmd:"" group:"Instance" help:"Pause the instance: nothing is claimed until it is resumed."`
	Resume resumeCmd `cmd:"" group:"Instance" help:"End the pause."`
	Slot   slotCmd   `cmd:"" group:"Instance" help:"Name a slot's strategy."`
}

func main() {
	// Libraries print through the standard logger: net/http, for one, what comes unasked on a connection, and
	// it offers no other place.
	log.SetOutput(io.Discard)
	ctx, stop := signal.NotifyContext(context.Background(), config.StopSignals()...)
	context.AfterFunc(ctx, stop) // A second signal ends the process at once.
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run does what the arguments say and returns the exit status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return newProgram(stdout, stderr).run(ctx, args, stdin)
}

// program is a command line that was read into cli, and where its commands write.
type program struct {
	cli            commands
	parser         *kong.Kong
	stdout, stderr io.Writer
}

func newProgram(stdout, stderr io.Writer) *program {
	p := &program{stdout: stdout, stderr: stderr}
	var err error
	p.parser, err = config.NewParser(&p.cli, "fencerow", description, kong.Writers(stdout, stderr))
	if err != nil {
		panic(fmt.Sprintf("fencerow: the command line is malformed: %v", err))
	}
	return p
}

func (p *program) run(ctx context.Context, args []string, stdin io.Reader) int {
	parsed, err := p.parser.Parse(args)
	for _, warning := range config.Warnings(os.Environ()) {
		fmt.Fprintf(p.stderr, "fencerow: %s\n", warning)
	}
	if err != nil {
		chosen := "fencerow"
		if parse, ok := errors.AsType[*kong.ParseError](err); ok && parse.Context != nil {
			chosen, err = commandOf(parse.Context), withVariable(parse.Context, err)
		}
		text, _ := config.UsageText(err)
		fmt.Fprintf(p.stderr, "fencerow: %s\nRun %q for what can be given.\n", text, chosen+" --help")
		return config.ExitUsage
	}
	a := &app{stdin: stdin, stdout: p.stdout, stderr: p.stderr, json: p.cli.JSON}
	parsed.BindTo(ctx, (*context.Context)(nil))
	return a.exitStatus(withVariable(parsed, parsed.Run(a)))
}

// commandOf returns the command that was chosen, if one was.
func commandOf(parsed *kong.Context) string {
	if selected := parsed.Selected(); selected != nil {
		return selected.FullPath()
	}
	return "fencerow"
}
