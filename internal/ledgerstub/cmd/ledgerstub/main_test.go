package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
)

func TestServesWhereItSaysUntilItIsStopped(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, in, "127.0.0.1:0", token) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	client := ledgerstub.Client{Base: strings.TrimSpace(line), HTTP: &http.Client{Transport: &http.Transport{}}}
	response, err := client.HTTP.Post(client.Base+ledgerstub.EntriesPath, "application/json",
		strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("status %d without the token", response.StatusCode)
	}
	if counters, err := client.Counters(ctx); err != nil || counters.Refused != 1 {
		t.Errorf("counters are %+v (%v)", counters, err)
	}
	client.HTTP.CloseIdleConnections()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestOnlyLoopbackIsServed(t *testing.T) {
	if err := run(t.Context(), io.Discard, "0.0.0.0:0", ""); err == nil {
		t.Error("the control endpoints are open to the network")
	}
}
