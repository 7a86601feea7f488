package e2e

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// trailingLedger serves a ledger that sends more bytes after each answer, in the same packet, and returns
// where entries are posted.
func trailingLedger(t *testing.T, trailing string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { answerWith(conn, trailing) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close() // it was only listening
		serving.Wait()
	})
	return "http://" + listener.Addr().String() + "/entries"
}

func answerWith(conn net.Conn, trailing string) {
	defer conn.Close()
	for requests := bufio.NewReader(conn); ; {
		request, err := http.ReadRequest(requests)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, request.Body); err != nil {
			return
		}
		answer := "HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n" + trailing
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
	}
}

func TestWhatALedgerSendsAfterItsAnswerIsShownNowhere(t *testing.T) {
	t.Parallel()
	const trailing = "provider-text-s3cr3t"
	w := newWorld(t)
	w.settings["LEDGER_URL"] = trailingLedger(t, trailing)
	n := size(t, 1000, 100)

	d := w.start("desk-1", nil)
	w.enqueueLines("desk-1", fills("daemon", n))
	w.awaitDrained(patience, "desk-1")
	d.stop() // that it wrote nothing but records is checked at the end of every daemon
	w.enqueueLines("desk-1", fills("backfill", n))
	// Some of the bytes are taken for the next answer on their connection, so that some entries need a retry.
	backfill := w.run("desk-1", "backfill")
	if !strings.Contains(backfill.stdout, "claimed") {
		t.Fatalf("backfill: status %d\n%s", backfill.status, backfill.stderr)
	}

	output := backfill.stdout + backfill.stderr
	if strings.Contains(output, trailing) || strings.Contains(output, "Unsolicited") {
		t.Errorf("backfill printed what the ledger sent after its answer:\n%s", output)
	}
}
