package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
)

// writeFile replaces a file as a secret manager does: by another one of the same name.
func writeFile(t *testing.T, path, content string) {
	t.Helper()
	next := path + ".next"
	check(t, os.WriteFile(next, []byte(content), 0o600))
	check(t, os.Rename(next, path))
}

func TestAnExpiredTokenHoldsTheTargetUntilItsFileIsRotated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := size(t, 1000, 1000)
	token := filepath.Join(t.TempDir(), "token")
	writeFile(t, token, "old-token\n")
	w.stub.SetToken("old-token")
	w.settings["LEDGER_TOKEN_FILE"] = token
	daemons := []*daemon{w.start("desk-1", impatient("first")), w.start("desk-1", impatient("second"))}
	w.enqueueLines("desk-1", fills("before", n))
	w.awaitDrained(patience, "desk-1")

	w.stub.SetToken("new-token")
	w.enqueueLines("desk-1", fills("after", n))
	for _, d := range daemons {
		equal(t, "reason of the hold", d.awaitRecord("target held").Reason, "credentials_refused")
	}
	<-time.After(outage / 5) // how long nobody rotates the file
	for _, d := range daemons {
		equal(t, "alerts", len(d.log("target held")), 1)
		equal(t, "resumptions", len(d.log("target resumed")), 0)
	}
	equal(t, "outcomes of what came after", one[int](w, `
SELECT count(*)
FROM fencerow.ledger_outcome c
JOIN fencerow.ledger_outbox o ON o.outbox_id = c.outbox_id
WHERE o.correlation_id LIKE 'after-%'`), 0)
	equal(t, "attempts used up", one[int](w, `SELECT sum(attempt_count)::int FROM fencerow.ledger_pending`), 0)

	writeFile(t, token, "new-token\n")
	w.awaitDrained(patience, "desk-1")
	for _, d := range daemons {
		d.awaitRecord("target resumed")
		d.stop() // it is the process that was started
		equal(t, "alerts in all", len(d.log("target held")), 1)
		equal(t, "resumptions in all", len(d.log("target resumed")), 1)
	}
	refused := 0
	for _, r := range w.stub.Journal() {
		if r.Verdict == ledgerstub.VerdictUnauthorized {
			refused++
		}
	}
	equal(t, "booked", int(w.stub.Counters().Booked), 2*n)
	equal(t, "sends", len(w.stub.Journal()), 2*n+refused)
	equal(t, "entries that used up an attempt for it", one[int](w, `
SELECT count(*)
FROM fencerow.ledger_outcome
WHERE attempt_count <> 1
    OR status <> 'completed'`), 0)
	t.Logf("token expired with %d entries waiting, 2 daemons: %d requests refused, 1 alert and 1 resumption "+
		"each, no attempt used up, all delivered after the file was rotated", n, refused)
}
