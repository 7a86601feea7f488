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

// serve gives a test binary a server until the input ends, which it also does when the test binary is killed.
func serve(private bool, settings map[string]string) int {
	ctx, cancel := signal.NotifyContext(context.Background(), stopSignals...)
	defer cancel()
	answers := json.NewEncoder(os.Stdout)
	commands := readCommands(os.Stdin)

	var cluster *pgserver.Cluster
	var server *pgserver.Server
	var err error
	greeting := wire.Answer{}
	if private {
		if cluster, err = pgserver.StartCluster(ctx, settings); err == nil {
			greeting.DSN = cluster.DSN()
		}
	} else {
		if server, err = pgserver.Start(ctx, logf); err == nil {
			greeting.DSN, greeting.Source = server.DSN, server.Source
		}
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
			return closeServer(server, cluster)
		case command, ok := <-commands:
			if !ok {
				return closeServer(server, cluster)
			}
			_ = answers.Encode(carryOut(ctx, cluster, command))
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

func carryOut(ctx context.Context, cluster *pgserver.Cluster, command wire.Command) wire.Answer {
	if cluster == nil {
		return wire.Answer{Error: "only a private server is started and stopped"}
	}
	var err error
	switch command {
	case wire.Start:
		err = cluster.Start(ctx)
	case wire.Stop:
		err = cluster.Stop(syscall.SIGINT)
	case wire.Crash:
		err = cluster.Stop(syscall.SIGQUIT)
	default:
		err = fmt.Errorf("unknown command %q", command)
	}
	if err != nil {
		return wire.Answer{Error: err.Error()}
	}
	return wire.Answer{}
}

func closeServer(server *pgserver.Server, cluster *pgserver.Cluster) int {
	var err error
	if cluster != nil {
		err = cluster.Close()
	} else {
		err = server.Close()
	}
	if err != nil {
		logf("%v", err)
		return exitFailure
	}
	return 0
}
