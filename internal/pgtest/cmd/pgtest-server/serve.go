package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/fourblocks2020/fencerow/internal/pgtest/pgserver"
	"github.com/fourblocks2020/fencerow/internal/pgtest/wire"
)

// kind is what a test binary is served with.
type kind string

// The kinds. A standby and a pooler are made for the server that envTarget leads to.
const (
	shared  kind = "shared"
	private kind = "private"
	standby kind = "standby"
	pooler  kind = "pooler"
)

// envTarget is the DSN, a superuser's, of the server that a standby follows or a pooler stands before.
const envTarget = "FENCEROW_PGTEST_TARGET"

// startable is a server of the test binary's own.
type startable interface {
	DSN() string
	Start(ctx context.Context) error
	Stop(signal syscall.Signal) error
	Close() error
}

func startOwn(ctx context.Context, what kind, settings map[string]string) (startable, error) {
	switch what {
	case private:
		return pgserver.StartCluster(ctx, settings)
	case standby:
		return pgserver.StartStandby(ctx, os.Getenv(envTarget), settings)
	case pooler:
		return pgserver.StartPooler(ctx, os.Getenv(envTarget), settings)
	default:
		return nil, fmt.Errorf("no server of kind %q", what)
	}
}

// serve gives a test binary a server until the input ends, which it also does when the test binary is killed.
func serve(what kind, settings map[string]string) int {
	ctx, cancel := signal.NotifyContext(context.Background(), stopSignals...)
	defer cancel()
	answers := json.NewEncoder(os.Stdout)
	commands := readCommands(os.Stdin)

	var own startable
	var server *pgserver.Server
	var err error
	greeting := wire.Answer{}
	if what == shared {
		if server, err = pgserver.Start(ctx, logf); err == nil {
			greeting.DSN, greeting.Source = server.DSN, server.Source
		}
	} else if own, err = startOwn(ctx, what, settings); err == nil {
		greeting.DSN = own.DSN()
	}
	if err != nil {
		_ = answers.Encode(wire.Answer{Error: err.Error()})
		return exitFailure
	}
	// From here on a failed write means that the test binary is gone. Then the input ends, too.
	_ = answers.Encode(greeting)
	for {
		select {
		case <-ctx.Done():
			return closeServer(server, own)
		case command, ok := <-commands:
			if !ok {
				return closeServer(server, own)
			}
			_ = answers.Encode(carryOut(ctx, own, command))
		}
	}
}

func readCommands(r io.Reader) <-chan wire.Command {
	commands := make(chan wire.Command)
	go func() {
		defer close(commands)
		for lines := bufio.NewScanner(r); lines.Scan(); {
			commands <- wire.Command(lines.Text())
		}
	}()
	return commands
}

func carryOut(ctx context.Context, own startable, command wire.Command) wire.Answer {
	if own == nil {
		return wire.Answer{Error: "only a server of your own is started and stopped"}
	}
	var err error
	switch command {
	case wire.Start:
		err = own.Start(ctx)
	case wire.Stop:
		err = own.Stop(syscall.SIGINT)
	case wire.Crash:
		err = own.Stop(syscall.SIGQUIT)
	default:
		err = fmt.Errorf("unknown command %q", command)
	}
	if err != nil {
		return wire.Answer{Error: err.Error()}
	}
	return wire.Answer{}
}

func closeServer(server *pgserver.Server, own startable) int {
	var err error
	if own != nil {
		err = own.Close()
	} else {
		err = server.Close()
	}
	if err != nil {
		logf("%v", err)
		return exitFailure
	}
	return 0
}
