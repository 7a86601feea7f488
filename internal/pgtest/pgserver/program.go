package pgserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	startTimeout = time.Minute
	stopTimeout  = 30 * time.Second
	// readyInterval is how long to wait between two looks whether a starting server accepts connections.
	readyInterval = 20 * time.Millisecond
	// portTries bounds how often a free port is picked: another process may take it before the server does.
	portTries = 5
	// bindFailure is in the log of a server that met a port in use.
	bindFailure = "Address already in use"
	logTail     = 4 << 10
)

// program is a server process with a temporary folder of its own. It runs as an unprivileged account where
// this process is root: neither PostgreSQL nor pgbouncer runs as root.
type program struct {
	dir     string
	account *account // nil: the server runs as this process does

	process *os.Process   // nil while stopped
	exited  chan struct{} // closed when process has been waited for
}

// newProgram makes the folder, whose name begins with prefix, in folder; where that is empty, among the
// temporary files.
func newProgram(folder, prefix string) (program, error) {
	var p program
	var err error
	if os.Geteuid() == 0 {
		if p.account, err = unprivilegedAccount(); err != nil {
			return p, err
		}
	}
	if p.dir, err = os.MkdirTemp(folder, prefix); err != nil {
		return p, err
	}
	if err := p.own(p.dir); err != nil {
		return p, errors.Join(err, os.RemoveAll(p.dir))
	}
	return p, nil
}

// own gives a file to the account that the server runs as.
func (p *program) own(path string) error {
	if p.account == nil {
		return nil
	}
	return os.Chown(path, p.account.uid, p.account.gid)
}

// writeFile writes a file in the folder that only the server may read, and returns its path.
func (p *program) writeFile(name, content string) (string, error) {
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return "", err
	}
	return path, p.own(path)
}

// prepare makes cmd run in the program's folder, as its account, untouched by the caller's PG* variables and
// by signals meant for the caller's process group.
func (p *program) prepare(cmd *exec.Cmd) {
	cmd.Dir = p.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = processAttributes()
	cmd.SysProcAttr.Setsid = true
	if p.account != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(p.account.uid), Gid: uint32(p.account.gid)}
	}
}

// start runs cmd and returns once dsn accepts connections. While the program runs it changes nothing.
func (p *program) start(ctx context.Context, cmd *exec.Cmd, dsn string) error {
	if p.process != nil {
		return nil
	}
	log, err := os.OpenFile(p.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the child has its own copy
	p.prepare(cmd)
	cmd.Stdout, cmd.Stderr = log, log

	exited := make(chan struct{})
	started := make(chan error, 1)
	go func() {
		defer close(exited)
		// The signal for the parent's death is sent when the starting thread ends, so that thread waits here.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how the server ended stands in its log
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	p.process, p.exited = cmd.Process, exited
	if err := p.awaitReady(ctx, dsn); err != nil {
		return errors.Join(err, p.Stop(syscall.SIGQUIT))
	}
	return nil
}

func (p *program) awaitReady(ctx context.Context, dsn string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(readyInterval)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, dsn)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-p.exited:
			return fmt.Errorf("the server ended while starting:\n%s", p.tail())
		case <-ctx.Done():
			return fmt.Errorf("the server did not become ready: %w\n%s", err, p.tail())
		case <-tick.C:
		}
	}
}

// Stop ends the server and waits for its end: SIGINT shuts down in order, SIGQUIT at once, as a crash does. A
// stopped server stays stopped.
func (p *program) Stop(signal syscall.Signal) error {
	if p.process == nil {
		return nil
	}
	if err := p.process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.exited:
	case <-time.After(stopTimeout):
		_ = p.process.Kill() // the orderly way failed; the error below says so
		<-p.exited
		p.process = nil
		return fmt.Errorf("the server did not end within %s of %s", stopTimeout, signal)
	}
	p.process = nil
	return nil
}

// Close ends the server at once and removes its files.
func (p *program) Close() error {
	err := p.Stop(syscall.SIGQUIT)
	if p.dir == "" {
		return err
	}
	return errors.Join(err, os.RemoveAll(p.dir))
}

func (p *program) logPath() string { return filepath.Join(p.dir, "log") }

func (p *program) tail() string {
	log, err := os.ReadFile(p.logPath())
	if err != nil {
		return err.Error()
	}
	return string(log[max(0, len(log)-logTail):])
}

// onFreePort calls start with free ports until one is still free when the server binds it.
func onFreePort(start func(port int) error) error {
	for try := 1; ; try++ {
		port, err := freePort()
		if err != nil {
			return err
		}
		err = start(port)
		if err == nil || try == portTries || !strings.Contains(err.Error(), bindFailure) {
			return err
		}
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return 0, errors.Join(err, l.Close())
	}
	n, err := strconv.Atoi(port)
	return n, errors.Join(err, l.Close())
}
