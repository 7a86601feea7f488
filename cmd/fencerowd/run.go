package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/alecthomas/kong"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/config"
	"github.com/fourblocks2020/fencerow/internal/daemon"
	"github.com/fourblocks2020/fencerow/internal/observe"
	"github.com/fourblocks2020/fencerow/internal/slots"
)

const description = `Deliver an instance's ledger entries from its outbox to the ledger.

Every setting can be given as a flag or as the variable shown beside it. The connection string of the
database is a secret and is given in FENCEROW_DSN, or in a file.

Exit status: 0 stopped, 1 failure, 80 usage.`

type commandLine struct {
	Instance config.Instance `embed:""`
	Database config.Database `embed:""`
	Ledger   config.Ledger   `embed:""`
	Writer   config.Writer   `embed:""`
	Daemon   config.Daemon   `embed:""`
	NATS     config.NATS     `embed:""`
	Log      config.Log      `embed:""`
	Alerts   config.Alerts   `embed:""`

	Version kong.VersionFlag `help:"Show the version."`
}

// exited carries the status with which kong wants to end the process, after --help and --version.
type exited int

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return newProgram(stdout, stderr).run(ctx, args)
}

// program is a command line that was read into line, and where its text goes.
type program struct {
	line   commandLine
	parser *kong.Kong
	stderr io.Writer
}

func newProgram(stdout, stderr io.Writer) *program {
	p := &program{stderr: stderr}
	var err error
	p.parser, err = config.NewParser(&p.line, "fencerowd", description,
		kong.Writers(stdout, stderr), kong.Exit(func(status int) { panic(exited(status)) }))
	if err != nil {
		panic("fencerowd: the definition of the command line is wrong: " + err.Error())
	}
	return p
}

func (p *program) run(ctx context.Context, args []string) (status int) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case exited:
			status = int(v)
		default:
			panic(v)
		}
	}()
	_, err := p.parser.Parse(args)
	for _, warning := range config.Warnings(os.Environ()) {
		say(p.stderr, warning)
	}
	if err == nil {
		err = serve(ctx, &p.line, p.stderr)
	}
	if err == nil {
		return config.ExitDone
	}
	if errors.Is(err, errUnread) {
		return config.ExitFailure
	}
	if text, ok := config.UsageText(err); ok {
		say(p.stderr, text)
		say(p.stderr, "see fencerowd --help")
		return config.ExitUsage
	}
	say(p.stderr, describe(err))
	return config.ExitFailure
}

// describe says what went wrong in words that are known to be safe.
func describe(err error) string {
	if errors.Is(err, errOverdue) {
		return "stopping did not end within the grace period; what is held comes back when its lease ends"
	}
	if schema, ok := errors.AsType[*daemon.SchemaError](err); ok {
		return schema.Error()
	}
	if errors.Is(err, daemon.ErrOpsListen) {
		return string(daemon.ErrOpsListen) + ": --ops-listen (FENCEROW_OPS_LISTEN) is taken by another process, " +
			"or is no address of this machine"
	}
	if own, ok := errors.AsType[*fencerow.Error](err); ok {
		if own.Code() == fencerow.ErrStoreSetting {
			return own.Error() + ": " + config.SettingRefused
		}
		return own.Error()
	}
	return "failed: " + fencerow.InnermostType(err)
}

// serve builds the parts, before any connection is opened, and runs the daemon. A reader of the log that does
// not read holds up nothing: neither the work nor the end.
func serve(ctx context.Context, line *commandLine, stderr io.Writer) (err error) {
	var observer *observe.Observer
	log := observe.NewQueue(stderr, func(dropped int64) { observer.RecordsDropped(dropped) })
	defer func() {
		if !log.Close(lastRecords(line.Writer.Grace)) && err != nil {
			err = errUnread
		}
	}()
	instance := line.Instance.Key()
	sender, err := line.Alerts.Webhook()
	if err != nil {
		return err
	}
	alerting := line.Alerts.Alerting(sender)
	alerting.Worker = line.Writer.WorkerID()
	if observer, err = line.Log.Observer(log, instance, alerting); err != nil {
		return err
	}
	forAlerts := lastAlerts(sender, line.Writer.Grace)
	closeAlerts := startAlerts(observer, sender, forAlerts)
	defer closeAlerts()
	ledger, err := line.Ledger.Open(line.Writer.Deliveries())
	if err != nil {
		return err
	}
	defer ledger.Close()
	store, err := line.Database.Within(line.Writer.Lease).Open("fencerowd")
	if err != nil {
		return err
	}
	if ledger.TokenFileExposed() {
		observer.FileNotice(observe.NoticeTokenFileReadable, "ledger_token_file")
	}
	made, err := line.Writer.New(store, ledger, observer, line.Daemon.Interval())
	if err != nil {
		return err
	}
	writers := make([]daemon.Writer, len(made))
	for i := range made {
		writers[i] = made[i]
	}
	builder := slots.NewBuilder(store, instance, line.Writer.WorkerID(), slots.CountersOf(observer))
	responder, err := newResponder(line, builder, observer)
	if err != nil {
		return err
	}
	d, err := daemon.New(line.Daemon.Config(daemon.Config{
		Store: store, Writers: writers, Observer: observer, Slots: builder, Responder: responder,
		Worker: line.Writer.WorkerID(), Grace: line.Writer.Grace - forAlerts,
	}))
	if err != nil {
		return err
	}
	err = runWithin(ctx, line.Writer.Grace-forAlerts-lastRecords(line.Writer.Grace), d.Run, store.Close)
	if errors.Is(err, errOverdue) {
		observer.Notify(observe.NoticeStopOverdue)
		return err
	}
	closeAlerts()
	observer.Stopped(line.Writer.WorkerID())
	return err
}
