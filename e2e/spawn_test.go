package e2e

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

// spawned is a program that runs beside the test.
type spawned struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
	ended          chan struct{}
}

// spawn starts fencerow with settings of its own beside the world's.
func (w *world) spawn(instance string, settings map[string]string, args ...string) *spawned {
	w.t.Helper()
	return w.spawnProgram("fencerow", instance, settings, args...)
}

// runDaemon runs a daemon of desk-1 that is to end by itself.
func (w *world) runDaemon(settings map[string]string) result {
	w.t.Helper()
	return w.spawnProgram("fencerowd", "desk-1", settings).wait()
}

func (w *world) spawnProgram(name, instance string, settings map[string]string, args ...string) *spawned {
	w.t.Helper()
	s := &spawned{t: w.t, ended: make(chan struct{})}
	s.cmd = exec.Command(w.program(name), args...)
	s.cmd.Env = w.environment(instance, settings)
	s.cmd.Stdout, s.cmd.Stderr = &s.stdout, &s.stderr
	check(w.t, s.cmd.Start())
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait() // the status is read from its state
	}()
	w.t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // it may have ended; a stopped process ends too
		<-s.ended
	})
	return s
}

func (s *spawned) signal(sig syscall.Signal) {
	s.t.Helper()
	check(s.t, s.cmd.Process.Signal(sig))
}

// wait returns what it came to.
func (s *spawned) wait() result {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(patience):
		s.t.Fatal("a program does not end")
	}
	r := result{status: s.cmd.ProcessState.ExitCode(), stdout: s.stdout.String(), stderr: s.stderr.String()}
	if strings.Contains(r.stderr, "DATA RACE") {
		s.t.Fatal(r.stderr)
	}
	return r
}

// want fails the test unless a command ended with a status and said each of the texts on standard error.
func want(t testing.TB, r result, status int, says ...string) result {
	t.Helper()
	if r.status != status {
		t.Errorf("status %d, want %d\nstandard output: %s\nstandard error: %s",
			r.status, status, r.stdout, r.stderr)
	}
	for _, text := range says {
		if !strings.Contains(r.stderr, text) {
			t.Errorf("standard error does not say %q:\n%s", text, r.stderr)
		}
	}
	return r
}

// newLegacyWorld returns a world whose database came from the schema before ownership, with these rows of it:
// values for correlation_id, entry_kind, slot_id, cash_delta, currency and payload.
func newLegacyWorld(t *testing.T, rows string) *world {
	t.Helper()
	w := newWorldOn(t, pgtest.NewDatabase(t, nil))
	w.mustRun("", "migrate", "up")
	w.mustRun("", "migrate", "down", "--to", "1")
	w.db.Exec(t, `
INSERT INTO fencerow.ledger_outbox (correlation_id, entry_kind, slot_id, cash_delta, currency, payload)
VALUES `+rows)
	w.mustRun("", "migrate", "up")
	return w
}

// processed is the document of `fencerow process`.
type processed struct {
	CorrelationID string `json:"correlation_id"`
	ClaimResult   string `json:"claim_result"`
	Outcome       string `json:"outcome"`
	Reason        string `json:"reason"`
}

// wantProcessed is want for `fencerow process --json`, which must have printed this document and no more.
func wantProcessed(t testing.TB, r result, status int, doc processed) {
	t.Helper()
	want(t, r, status)
	var got processed
	d := json.NewDecoder(strings.NewReader(r.stdout))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil {
		t.Errorf("standard output is not the document expected: %v\n%s%s", err, r.stdout, r.stderr)
		return
	}
	equal(t, "what process came to", got, doc)
}

// state is everything that the database knows of an entry, as one text.
func (w *world) state(instance, correlationID string) string {
	w.t.Helper()
	return one[string](w, `
SELECT jsonb_build_object(
    'entry', (SELECT jsonb_agg(to_jsonb(o)) FROM fencerow.ledger_outbox o WHERE o.outbox_id = i.outbox_id),
    'pending', (SELECT jsonb_agg(to_jsonb(p)) FROM fencerow.ledger_pending p WHERE p.outbox_id = i.outbox_id),
    'claim', (
        SELECT jsonb_agg(to_jsonb(c))
        FROM fencerow.ledger_claim c
        WHERE i.outbox_id = ANY (c.outbox_ids)
    ),
    'outcome', (SELECT jsonb_agg(to_jsonb(r)) FROM fencerow.ledger_outcome r WHERE r.outbox_id = i.outbox_id),
    'skip', (SELECT jsonb_agg(to_jsonb(s)) FROM fencerow.ledger_skip s WHERE s.outbox_id = i.outbox_id),
    'slot', (
        SELECT jsonb_agg(to_jsonb(s))
        FROM fencerow.ledger_slot s
        WHERE s.instance_key = i.instance_key
            AND s.slot_id = i.slot_id
    ),
    'legacy', (SELECT jsonb_agg(to_jsonb(l)) FROM fencerow.ledger_legacy l WHERE l.outbox_id = i.outbox_id)
)::text
FROM fencerow.ledger_outbox i
WHERE i.correlation_id = $2
    AND i.instance_key IS NOT DISTINCT FROM nullif($1, '')`, instance, correlationID)
}
