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
	"strconv"

	"github.com/fourblocks2020/fencerow/internal/pgtest/scram"
)

const (
	superuser  = "postgres"
	maintainDB = "postgres"
)

// Cluster is a private server in a temporary folder, on a loopback port of its own. Its methods are not safe
// for concurrent use.
type Cluster struct {
	program
	bin, password string
	port          int
	args          []string
}

// StartCluster makes and starts a cluster. Settings are configuration parameters that go before the usual
// ones.
func StartCluster(ctx context.Context, extra map[string]string) (*Cluster, error) {
	c, err := newCluster(extra)
	if err != nil {
		return nil, err
	}
	c.password = rand.Text()
	if err := c.initialise(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c.startOnFreePort(ctx)
}

// newCluster returns a cluster with a folder that has no data yet.
func newCluster(extra map[string]string) (*Cluster, error) {
	bin, err := findBinaries(packageDirs)
	if err != nil {
		return nil, err
	}
	c := &Cluster{bin: bin}
	values := settings()
	maps.Copy(values, extra)
	for name, value := range values {
		c.args = append(c.args, "-c", name+"="+value)
	}
	c.program, err = newProgram(clusterFolder(values), "fencerow-postgres-")
	return c, err
}

// clusterFolder returns where the data goes: into memory where nobody asked for another place, nothing is
// to be durable, and the log is not to grow beyond the usual, as it is for runs whose data has no bound.
// Tests make and drop hundreds of databases of hundreds of files each, and there are file systems on which
// each of them takes half a second.
func clusterFolder(settings map[string]string) string {
	if os.Getenv("TMPDIR") == "" && settings["fsync"] == "off" && settings["max_wal_size"] == "" {
		return memoryFolder()
	}
	return ""
}

func (c *Cluster) startOnFreePort(ctx context.Context) (*Cluster, error) {
	err := onFreePort(func(port int) error {
		c.port = port
		return c.Start(ctx)
	})
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// initialise makes the data folder.
func (c *Cluster) initialise(ctx context.Context) error {
	secret, err := scram.Secret(c.password)
	if err != nil {
		return err
	}
	passwordFile, err := c.writeFile("password", secret)
	if err != nil {
		return err
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

// Start starts the server and returns once it accepts connections. It keeps its port and its data across
// Stop. Starting a running server changes nothing.
func (c *Cluster) Start(ctx context.Context) error {
	cmd := exec.Command(filepath.Join(c.bin, "postgres"), append([]string{"-D", c.data(),
		"-c", "listen_addresses=127.0.0.1", "-c", "port=" + strconv.Itoa(c.port),
		"-c", "unix_socket_directories="}, c.args...)...)
	return c.start(ctx, cmd, c.DSN())
}

// DSN connects to the maintenance database as superuser.
func (c *Cluster) DSN() string { return dsnOf(c.port, c.password) }

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

// dsnOf connects to the maintenance database on a port of this machine as superuser.
func dsnOf(port int, password string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		Path:     maintainDB,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}
