package pgserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
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
	portTries  = 5
	logTail    = 4 << 10
	superuser  = "postgres"
	maintainDB = "postgres"
)

// Cluster is a private server in a temporary folder, on a loopback port of its own. Its methods are not safe
// for concurrent use.
type Cluster struct {
	bin, dir, password string
	port               int
	args               []string
	account            *account // nil: the server runs as this process does

	process *os.Process   // nil while stopped
	exited  chan struct{} // closed when process has been waited for
}

// StartCluster makes and starts a cluster. Settings are configuration parameters that go before the usual
// ones.
func StartCluster(ctx context.Context, extra map[string]string) (*Cluster, error) {
	bin, err := findBinaries(packageDirs)
	if err != nil {
		return nil, err
	}
	c := &Cluster{bin: bin, password: rand.Text()}
	if os.Geteuid() == 0 { // PostgreSQL refuses to run as root
		if c.account, err = unprivilegedAccount(); err != nil {
			return nil, err
		}
	}
	values := settings()
	maps.Copy(values, extra)
	for name, value := range values {
		c.args = append(c.args, "-c", name+"="+value)
	}
	if err := c.initialise(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	for try := 1; ; try++ {
		if c.port, err = freePort(); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		err = c.Start(ctx)
		if err == nil {
			return c, nil
		}
		if try == portTries || !strings.Contains(err.Error(), "could not bind") {
			return nil, errors.Join(err, c.Close())
		}
	}
}

// initialise makes the data folder.
func (c *Cluster) initialise(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "fencerow-postgres-")
	if err != nil {
		return err
	}
	c.dir = dir
	passwordFile := filepath.Join(dir, "password")
	if err := os.WriteFile(passwordFile, []byte(c.password), 0o600); err != nil {
		return err
	}
	if c.account != nil {
		for _, path := range []string{dir, passwordFile} {
			if err := os.Chown(path, c.account.uid, c.account.gid); err != nil {
				return err
			}
		}
	}
	initdb := exec.CommandContext(ctx, filepath.Join(c.bin, "initdb"),
		"--pgdata="+c.data(), "--username="+superuser, "--pwfile="+passwordFile, "--auth=scram-sha-256",
		"--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions")
	c.prepare(initdb)
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return os.Remove(passwordFile)
}

// prepare makes cmd run in the cluster's folder, as its account, untouched by the caller's PG* variables and
// by signals meant for the caller's process group.
func (c *Cluster) prepare(cmd *exec.Cmd) {
	cmd.Dir = c.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = processAttributes()
	cmd.SysProcAttr.Setsid = true
	if c.account != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(c.account.uid), Gid: uint32(c.account.gid)}
	}
}

// Start starts the server and returns once it accepts connections. It keeps its port and its data across
// Stop. Starting a running server changes nothing.
func (c *Cluster) Start(ctx context.Context) error {
	if c.process != nil {
		return nil
	}
	log, err := os.OpenFile(c.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the child has its own copy
	cmd := exec.Command(filepath.Join(c.bin, "postgres"), append([]string{"-D", c.data(),
		"-c", "listen_addresses=127.0.0.1", "-c", "port=" + strconv.Itoa(c.port),
		"-c", "unix_socket_directories="}, c.args...)...)
	c.prepare(cmd)
	cmd.Stdout, cmd.Stderr = log, log

	c.exited = make(chan struct{})
	started := make(chan error, 1)
	go func() {
		defer close(c.exited)
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
	c.process = cmd.Process
	if err := c.awaitReady(ctx); err != nil {
		return errors.Join(err, c.Stop(syscall.SIGQUIT))
	}
	return nil
}

func (c *Cluster) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(readyInterval)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, c.DSN())
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-c.exited:
			return fmt.Errorf("the server ended while starting:\n%s", c.tail())
		case <-ctx.Done():
			return fmt.Errorf("the server did not become ready: %w\n%s", err, c.tail())
		case <-tick.C:
		}
	}
}

// Stop ends the server and waits for its end: SIGINT shuts down in order, SIGQUIT at once, as a crash does. A
// stopped server stays stopped.
func (c *Cluster) Stop(signal syscall.Signal) error {
	if c.process == nil {
		return nil
	}
	if err := c.process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-c.exited:
	case <-time.After(stopTimeout):
		_ = c.process.Kill() // the orderly way failed; the error below says so
		<-c.exited
		c.process = nil
		return fmt.Errorf("the server did not end within %s of %s", stopTimeout, signal)
	}
	c.process = nil
	return nil
}

// Close ends the server at once and removes its files.
func (c *Cluster) Close() error {
	err := c.Stop(syscall.SIGQUIT)
	if c.dir == "" {
		return err
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}

// DSN connects to the maintenance database as superuser.
func (c *Cluster) DSN() string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, c.password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port)),
		Path:     maintainDB,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

func (c *Cluster) data() string    { return filepath.Join(c.dir, "data") }
func (c *Cluster) logPath() string { return filepath.Join(c.dir, "log") }

func (c *Cluster) tail() string {
	log, err := os.ReadFile(c.logPath())
	if err != nil {
		return err.Error()
	}
	return string(log[max(0, len(log)-logTail):])
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
