package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

var graphileKind = kind{
	name: "graphile",
	tries: []string{
		"jobs=8", "jobs=100", "local=100", "local=1000", "local=2000", "complete=10", "procs=1", "default=true",
	},
	build: func(p params) (queue, string, error) {
		q := &graphileQueue{
			dir: "graphile", procs: p.int("procs", 2),
			jobs: p.int("jobs", 24), local: p.int("local", 500), complete: p.int("complete", 0),
		}
		if p.bool("default", false) {
			q.procs, q.jobs, q.local, q.complete = 1, 1, -1, -1
		}
		setting := fmt.Sprintf("v0.18.0, %d process(es), concurrentJobs %d, localQueue.size %d, "+
			"completeJobBatchDelay %d, rows deleted", q.procs, q.jobs, q.local, q.complete)
		return q, setting, p.err
	},
}

// graphileQueue is graphile-worker, in processes of its own.
type graphileQueue struct {
	// dir has worker.cjs and, once installed, node_modules.
	dir                          string
	procs, jobs, local, complete int
}

// check implements checked. It installs the package where it is missing.
func (q *graphileQueue) check(ctx context.Context, _ *server) (detail string, err error) {
	version, err := exec.CommandContext(ctx, "node", "--version").Output()
	if err != nil {
		return "", errors.New("node was not found")
	}
	detail = "Node.js " + strings.TrimSpace(string(version))
	if _, err := os.Stat(filepath.Join(q.dir, "node_modules", "graphile-worker", "package.json")); err == nil {
		return detail, nil
	}
	if _, err := exec.LookPath("npm"); err != nil {
		return "", errors.New("npm was not found to install it with")
	}
	install := exec.CommandContext(ctx, "npm", "ci", "--no-audit", "--no-fund")
	install.Dir = q.dir
	if out, err := install.CombinedOutput(); err != nil {
		last := strings.TrimSpace(string(out))
		return "", fmt.Errorf("npm ci: %w: %s", err, last[strings.LastIndexByte(last, '\n')+1:])
	}
	return detail, nil
}

func (q *graphileQueue) queries() (string, []any) { return "graphile", nil }

func (q *graphileQueue) command(ctx context.Context, db *database, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "node", append([]string{"worker.cjs"}, args...)...)
	cmd.Dir, cmd.Stderr = q.dir, os.Stderr
	cmd.Env = append(os.Environ(), "DATABASE_URL="+db.dsn, "NODE_ENV=production", "NO_LOG_SUCCESS=1")
	return cmd
}

func (q *graphileQueue) prepare(ctx context.Context, db *database) error {
	return q.command(ctx, db, "migrate").Run()
}

func (q *graphileQueue) fill(ctx context.Context, db *database, first, n int) error {
	return inBatches(first, n, fillBatch, func(first, n int) error {
		return db.exec(ctx, query("graphile", "add"), first, n)
	})
}

// workerSettings are those of graphile-worker's preset.
type workerSettings struct {
	ConcurrentJobs        int            `json:"concurrentJobs"`
	MaxPoolSize           int            `json:"maxPoolSize"`
	PollInterval          int            `json:"pollInterval"`
	LocalQueue            map[string]any `json:"localQueue,omitempty"`
	CompleteJobBatchDelay int            `json:"completeJobBatchDelay"`
	FailJobBatchDelay     int            `json:"failJobBatchDelay"`
}

func (q *graphileQueue) open(ctx context.Context, db *database, _ int) (consumer, error) {
	settings := workerSettings{
		ConcurrentJobs: q.jobs, MaxPoolSize: 10, PollInterval: 100,
		CompleteJobBatchDelay: q.complete, FailJobBatchDelay: q.complete,
	}
	if q.local > 0 {
		settings.LocalQueue = map[string]any{"size": q.local, "refetchDelay": map[string]any{"durationMs": 10}}
	}
	text, err := json.Marshal(settings)
	if err != nil {
		return nil, err
	}
	c := &graphileConsumer{}
	for range q.procs {
		p, err := startNode(q.command(ctx, db, "work", string(text)))
		if err != nil {
			return nil, errors.Join(err, c.stop(ctx))
		}
		c.procs = append(c.procs, p)
	}
	return c, nil
}

type graphileConsumer struct{ procs []*nodeProcess }

// nodeProcess is one process of Node.js.
type nodeProcess struct {
	cmd   *exec.Cmd
	input io.WriteCloser
	count atomic.Int64
	ended chan struct{} // closed when its output ended
}

// startNode returns once the process is ready.
func startNode(cmd *exec.Cmd) (*nodeProcess, error) {
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &nodeProcess{cmd: cmd, input: input, ended: make(chan struct{})}
	lines := bufio.NewScanner(output)
	if !lines.Scan() || lines.Text() != "ready" {
		return nil, errors.Join(errors.New("graphile-worker's process did not become ready"), cmd.Wait())
	}
	go func() {
		defer close(p.ended)
		for lines.Scan() {
			if n, err := strconv.ParseInt(lines.Text(), 10, 64); err == nil {
				p.count.Store(n)
			}
		}
	}()
	return p, nil
}

func (c *graphileConsumer) begin(context.Context) error {
	for _, p := range c.procs {
		if _, err := io.WriteString(p.input, "begin\n"); err != nil {
			return err
		}
	}
	return nil
}

func (c *graphileConsumer) delivered() (n int64) {
	for _, p := range c.procs {
		n += p.count.Load()
	}
	return n
}

func (c *graphileConsumer) cpu() (total time.Duration, err error) {
	for _, p := range c.procs {
		used, err := processCPU(p.cmd.Process.Pid)
		if err != nil {
			return 0, err
		}
		total += used
	}
	return total, nil
}

func (c *graphileConsumer) stop(context.Context) (err error) {
	for _, p := range c.procs {
		_, writeErr := io.WriteString(p.input, "stop\n")
		<-p.ended
		err = errors.Join(err, writeErr, p.cmd.Wait())
	}
	return err
}
