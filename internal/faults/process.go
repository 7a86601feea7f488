package faults

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// glance is how often a condition is looked at again.
	glance = 10 * time.Millisecond
	// tailSize is how much of a process's output is kept.
	tailSize = 16 << 10
	maxLine  = 1 << 20
)

// sentinels must be in no output of any process.
var sentinels = [][]byte{
	[]byte(payloadSentinel), []byte(tokenSentinel), []byte("dsn-s3ntinel"),
}

// tallies is what the log of a process says that it did.
type tallies struct {
	Outcomes  map[string]int64 // recorded, by kind
	Abandoned int64            // rows that could not be recorded or released, as far as the process knows
	Lost      int64
	Batches   int64
	Targeted  map[string]int64 // targeted claims, by result
	Dropped   int64            // records that the process did not write
}

// process is one run of a program.
type process struct {
	worker  string // the name that it claims under
	cmd     *exec.Cmd
	started time.Time
	ended   chan struct{} // closed when it has ended and all that it wrote was read

	mu      sync.Mutex
	tallies tallies
	ops     string // address of the ops listener; empty until it is known
	tail    []byte
	leaks   int // lines with a sentinel
	races   bool
	asked   bool // it was told to end
	inOrder bool // it ended by itself after it was told to, with status 0
	doc     []byte
}

// environment is the whole environment of a program.
func environment(settings map[string]string, more ...string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.TempDir(), "GORACE=atexit_sleep_ms=10"}
	env = append(env, more...)
	for name, value := range settings {
		env = append(env, "FENCEROW_"+name+"="+value)
	}
	return env
}

func (p *programs) start(name, worker string, env []string, args ...string) (*process, error) {
	s := &process{
		worker: worker, started: time.Now(), ended: make(chan struct{}),
		tallies: tallies{Outcomes: map[string]int64{}, Targeted: map[string]int64{}},
	}
	s.cmd = exec.Command(filepath.Join(p.dir, name), args...)
	s.cmd.Env = env
	s.cmd.SysProcAttr = processAttributes()
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	started := make(chan error, 1)
	go func() {
		defer close(s.ended)
		// The signal for the parent's death is sent when the starting thread ends, so that one waits here.
		runtime.LockOSThread()
		err := s.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		var reading sync.WaitGroup
		reading.Go(func() { readLines(stdout, s.takeOutput) })
		reading.Go(func() { readLines(stderr, s.takeLine) })
		reading.Wait()
		err = s.cmd.Wait()
		s.mu.Lock()
		s.inOrder = err == nil && s.asked
		s.mu.Unlock()
	}()
	if err := <-started; err != nil {
		<-s.ended
		return nil, err
	}
	return s, nil
}

func readLines(from interface{ Read([]byte) (int, error) }, take func([]byte)) {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for lines.Scan() {
		take(lines.Bytes())
	}
}

// keep looks for secrets in a line and remembers the end of the output. The process's lock is held.
func (s *process) keep(line []byte) {
	if slices.ContainsFunc(sentinels, func(secret []byte) bool { return bytes.Contains(line, secret) }) {
		s.leaks++
	}
	s.races = s.races || bytes.Contains(line, []byte("DATA RACE"))
	s.tail = append(append(s.tail, line...), '\n')
	s.tail = s.tail[max(0, len(s.tail)-tailSize):]
}

func (s *process) takeOutput(line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep(line)
	s.doc = append(s.doc, line...)
}

// record is what is read of a record of the log.
type record struct {
	Msg         string `json:"msg"`
	Outcome     string `json:"outcome"`
	Count       int64  `json:"count"`
	ClaimResult string `json:"claim_result"`
	OpsListen   string `json:"ops_listen"`
}

func (s *process) takeLine(line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep(line)
	var r record
	if json.Unmarshal(line, &r) != nil {
		return
	}
	switch r.Msg {
	case "started":
		s.ops = r.OpsListen
	case "batch claimed":
		s.tallies.Batches++
	case "targeted claim":
		s.tallies.Targeted[r.ClaimResult]++
	case "claim lost":
		s.tallies.Lost++
	case "outcome recorded":
		s.tallies.Outcomes[r.Outcome] += max(r.Count, 1)
	case "record abandoned":
		s.tallies.Abandoned += r.Count
	case "records dropped":
		s.tallies.Dropped = r.Count
	}
}

func (s *process) signal(sig syscall.Signal) {
	if sig == syscall.SIGTERM {
		s.mu.Lock()
		s.asked = true
		s.mu.Unlock()
	}
	_ = s.cmd.Process.Signal(sig) // it may have ended by itself
}

// over waits for the end and reports whether it came in time; if not, the process is killed.
func (s *process) over(within time.Duration) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-s.ended:
		return true
	case <-timer.C:
		s.signal(syscall.SIGKILL)
		<-s.ended
		return false
	}
}

func (s *process) alive() bool {
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// memory is the most that the process has had so far, in bytes; 0 where the system does not tell. What a
// process leaves behind counts its parent's too.
func (s *process) memory() int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		return 0
	}
	return kib << 10
}

func (s *process) opsAddress() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ops
}

// daemon is a place at which one fencerowd after the other runs, and its links.
type daemon struct {
	r                *run
	instance, number int
	clock            string // file that says by how many seconds the clock of its host is off
	database, ledger *link

	mu         sync.Mutex
	generation int
	process    *process
	busy       bool // a fault ends or starts processes here
	all        []*process
	unasked    int // processes that ended by themselves
}

// name is what the workers here have in common.
func (d *daemon) name() string { return fmt.Sprintf("%s/%d", instanceKey(d.instance), d.number) }

// place cuts the generation off a worker's name.
func place(worker string) string { return worker[:max(strings.LastIndexByte(worker, '/'), 0)] }

func newDaemon(r *run, instance, number int) (*daemon, error) {
	d := &daemon{r: r, instance: instance, number: number}
	d.clock = filepath.Join(r.dir, fmt.Sprintf("clock-%d-%d", instance, number))
	if err := d.setClock(0); err != nil {
		return nil, err
	}
	var err error
	if d.database, err = newLink(r.database.address); err != nil {
		return nil, err
	}
	if d.ledger, err = newLink(r.ledger.address); err != nil {
		d.database.close()
		return nil, err
	}
	return d, nil
}

func (d *daemon) setClock(offset time.Duration) error {
	file, err := os.OpenFile(d.clock, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], uint64(int64(offset/time.Second)))
	_, err = file.WriteAt(b[:], 0)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	return err
}

// start starts the next process here.
func (d *daemon) start() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.generation++
	worker := fmt.Sprintf("%s/%d", d.name(), d.generation)
	settings := d.r.cfg.settings()
	settings["INSTANCE_KEY"], settings["WORKER"] = instanceKey(d.instance), worker
	settings["DSN"] = d.r.database.daemonDSN(d.database.address)
	settings["LEDGER_URL"] = ledgerURL(d.ledger.address)
	settings["LEDGER_TOKEN_FILE"] = d.r.ledger.tokenFile
	if d.number == 1 { // One daemon of each instance has a pool of one.
		settings["DB_MAX_CONNS"] = "1"
	}
	var err error
	d.process, err = d.r.programs.start("fencerowd", worker, environment(settings, "FAULTS_CLOCK="+d.clock))
	if err == nil {
		d.all = append(d.all, d.process)
	}
	return err
}

func (d *daemon) current() *process {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.process
}

// supervise starts a new process when one has ended by itself, until ctx ends.
func (d *daemon) supervise(ctx context.Context) {
	for sleep(ctx, 20*glance) {
		d.mu.Lock()
		gone := !d.busy && !d.process.alive()
		if gone {
			d.unasked++
		}
		d.mu.Unlock()
		if gone {
			if err := d.start(); err != nil {
				d.r.note("start %s: %v", d.name(), err)
			}
		}
	}
}

// replace ends the process by a signal and starts the next one after a while.
func (d *daemon) replace(ctx context.Context, sig syscall.Signal, after time.Duration) error {
	d.mu.Lock()
	d.busy = true
	p := d.process
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		d.busy = false
		d.mu.Unlock()
	}()
	p.signal(sig)
	if !p.over(stopWithin) {
		d.r.violate(RuleStop, "%s did not end within %s of SIGTERM\n%s", p.worker, stopWithin, p.tail)
	}
	sleep(ctx, after)
	return d.start()
}

// stopWithin is how long a process may take to end: its grace, and time for a busy machine.
const stopWithin = 10 * time.Second
