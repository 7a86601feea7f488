package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// record is one record of a daemon's log.
type record struct {
	Time           time.Time `json:"time"`
	Level          string    `json:"level"`
	Msg            string    `json:"msg"`
	Instance       string    `json:"instance_key"`
	ClaimResult    string    `json:"claim_result"`
	CorrelationID  string    `json:"correlation_id"`
	CorrelationIDs []string  `json:"correlation_ids"`
	Count          int       `json:"count"`
	Limit          int       `json:"limit"`
	Reclaimed      int       `json:"reclaimed_count"`
	Outcome        string    `json:"outcome"`
	Reason         string    `json:"reason"`
	Attempt        int       `json:"attempt"`
	Dropped        string    `json:"dropped_outcome"`
	ExcType        string    `json:"exc_type"`
	Worker         string    `json:"worker"`
	OpsListen      string    `json:"ops_listen"`

	line string // as it stands in the log
}

// daemon is a running fencerowd. Its methods are safe for concurrent use.
type daemon struct {
	t        testing.TB
	instance string
	cmd      *exec.Cmd
	stdout   bytes.Buffer
	ended    chan struct{} // closed when it has ended and all it wrote was read

	mu      sync.Mutex
	records []record
	strange []string // lines that are no record
}

// start starts a daemon of an instance with settings of its own beside the world's.
func (w *world) start(instance string, settings map[string]string) *daemon {
	w.t.Helper()
	d := &daemon{t: w.t, instance: instance, ended: make(chan struct{})}
	d.cmd = exec.Command(w.program("fencerowd"))
	d.cmd.Env = w.environment(instance, settings)
	d.cmd.Stdout = &d.stdout
	stderr, err := d.cmd.StderrPipe()
	check(w.t, err)
	check(w.t, d.cmd.Start())
	go func() {
		defer close(d.ended)
		lines := bufio.NewScanner(stderr)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			d.add(lines.Bytes())
		}
		_ = d.cmd.Wait() // the status is read from its state
	}()
	w.t.Cleanup(d.finish)
	return d
}

func (d *daemon) add(line []byte) {
	var r record
	err := json.Unmarshal(line, &r)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.strange = append(d.strange, string(line))
		return
	}
	r.line = string(line)
	d.records = append(d.records, r)
}

// finish ends it if it still runs, and fails the test if it wrote anything but its log: a data race or the
// trace of a panic.
func (d *daemon) finish() {
	_ = d.cmd.Process.Kill() // it may have ended; a stopped process ends too
	<-d.ended
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.killed() && len(d.strange) == 1 {
		d.strange = nil // the record that it was killed in
	}
	if len(d.strange) > 0 {
		d.t.Errorf("a daemon of %s wrote what is no record:\n%s", d.instance, strings.Join(d.strange, "\n"))
	}
	if d.stdout.Len() > 0 {
		d.t.Errorf("a daemon of %s wrote to standard output:\n%s", d.instance, d.stdout.String())
	}
}

func (d *daemon) killed() bool {
	status, ok := d.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// log returns the records so far; of these names only, if any are given.
func (d *daemon) log(names ...string) []record {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(names) == 0 {
		return slices.Clone(d.records)
	}
	var found []record
	for _, r := range d.records {
		if slices.Contains(names, r.Msg) {
			found = append(found, r)
		}
	}
	return found
}

// trouble returns the records of warnings and errors so far.
func (d *daemon) trouble() []record {
	return slices.DeleteFunc(d.log(), func(r record) bool { return r.Level == "INFO" })
}

// await returns when a condition on the log holds; it fails the test when the daemon ends before.
func (d *daemon) await(what string, is func() bool) {
	d.t.Helper()
	ended := false
	until(d.t, patience, what, func() bool {
		if is() {
			return true
		}
		if ended {
			d.t.Fatalf("a daemon of %s ended before %s", d.instance, what)
		}
		select {
		case <-d.ended:
			ended = true // and look once more
		default:
		}
		return false
	})
}

// awaitRecord returns the first record of a name.
func (d *daemon) awaitRecord(name string) record {
	d.t.Helper()
	d.await("a record "+name, func() bool { return len(d.log(name)) > 0 })
	return d.log(name)[0]
}

// opsURL returns the address of its ops listener.
func (d *daemon) opsURL() string {
	d.t.Helper()
	return "http://" + d.awaitRecord("started").OpsListen
}

// signal sends it a signal.
func (d *daemon) signal(s syscall.Signal) {
	d.t.Helper()
	check(d.t, d.cmd.Process.Signal(s))
}

// kill ends it at once, and returns when it has ended.
func (d *daemon) kill() {
	d.t.Helper()
	d.signal(syscall.SIGKILL)
	d.wait()
}

// wait waits for its end and returns the exit status; -1 if a signal ended it.
func (d *daemon) wait() int {
	d.t.Helper()
	select {
	case <-d.ended:
	case <-time.After(patience):
		d.t.Fatalf("a daemon of %s does not end", d.instance)
	}
	return d.cmd.ProcessState.ExitCode()
}

// stop ends it in order.
func (d *daemon) stop() {
	d.t.Helper()
	d.signal(syscall.SIGTERM)
	equal(d.t, "exit status of a daemon of "+d.instance, d.wait(), 0)
}
