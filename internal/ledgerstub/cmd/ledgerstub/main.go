// Command ledgerstub runs the stub ledger as a process of its own, for tests that drive real binaries. It
// prints the address it listens on and serves until it is interrupted.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "loopback address to listen on")
	tokenFile := flag.String("token-file", "", "file with the token that requests must carry")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, *listen, *tokenFile); err != nil {
		fmt.Fprintln(os.Stderr, "ledgerstub:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, listen, tokenFile string) error {
	options := ledgerstub.Options{Control: true}
	if tokenFile != "" {
		b, err := os.ReadFile(tokenFile)
		if err != nil {
			return err
		}
		options.Token = strings.TrimSpace(string(b))
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	if tcp, ok := l.Addr().(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		l.Close() //nolint:errcheck // never used
		return fmt.Errorf("the control endpoints need no token: listen on loopback")
	}
	if _, err := fmt.Fprintf(out, "http://%s\n", l.Addr()); err != nil {
		l.Close() //nolint:errcheck // never used
		return err
	}
	return ledgerstub.New(options).Serve(ctx, l)
}
