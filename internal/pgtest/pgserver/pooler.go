package pgserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// EnvPooler is the pgbouncer program, where it is not to be searched for.
const EnvPooler = "FENCEROW_TEST_PGBOUNCER"

// ErrNoPooler is returned where pgbouncer is not installed.
var ErrNoPooler = errors.New("no pgbouncer to test with: run `make setup` to install it, or set " + EnvPooler)

// Pooler is a private pgbouncer in transaction mode before a server, on a loopback port of its own. Its
// methods are not safe for concurrent use.
type Pooler struct {
	program
	path     string
	password string
	port     int
	config   string
}

// StartPooler starts a pooler before the server that dsn leads to, a superuser's. It knows the server's roles
// and databases. Settings are parameters of pgbouncer that go before the usual ones.
func StartPooler(ctx context.Context, dsn string, extra map[string]string) (*Pooler, error) {
	server, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	p := &Pooler{password: server.Password}
	if p.path, err = findPooler(); err != nil {
		return nil, err
	}
	if p.program, err = newProgram("", "fencerow-pgbouncer-"); err != nil {
		return nil, err
	}
	users, err := p.writeFile("users", fmt.Sprintf("%q %q\n", server.User, server.Password))
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	err = onFreePort(func(port int) error {
		p.port = port
		return p.configureAndStart(ctx, fmt.Sprintf("host=%s port=%d", server.Host, server.Port), map[string]string{
			"listen_addr": "127.0.0.1", "listen_port": strconv.Itoa(port), "unix_socket_dir": "",
			"pool_mode": "transaction", "max_client_conn": "1000", "default_pool_size": "4",
			// For a password that it has in the clear, as it has the superuser's; from a role whose secret it fetches
			// from the server it still wants SCRAM. Of a SCRAM secret of its own it would have each client compute
			// PostgreSQL's 4,096 iterations.
			"auth_type": "md5", "auth_file": users, "auth_user": server.User,
			"admin_users": server.User,
		}, extra)
	})
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *Pooler) configureAndStart(ctx context.Context, target string, usual, extra map[string]string) error {
	maps.Copy(usual, extra)
	var ini strings.Builder
	fmt.Fprintf(&ini, "[databases]\n* = %s\n[pgbouncer]\n", target)
	for _, name := range slices.Sorted(maps.Keys(usual)) {
		fmt.Fprintf(&ini, "%s = %s\n", name, usual[name])
	}
	var err error
	if p.config, err = p.writeFile("pgbouncer.ini", ini.String()); err != nil {
		return err
	}
	return p.Start(ctx)
}

// Start starts the stopped pooler on its old port.
func (p *Pooler) Start(ctx context.Context) error {
	return p.start(ctx, exec.Command(p.path, p.config), p.DSN())
}

// DSN connects to the maintenance database through the pooler as superuser. The query mode is one that needs
// no prepared statement.
func (p *Pooler) DSN() string {
	return dsnOf(p.port, p.password) + "&default_query_exec_mode=simple_protocol"
}

// findPooler looks where packages put system programs too, which is not in everybody's PATH.
func findPooler() (string, error) {
	if path := os.Getenv(EnvPooler); path != "" {
		return path, nil
	}
	if path, err := exec.LookPath("pgbouncer"); err == nil {
		return filepath.Abs(path)
	}
	for _, path := range []string{"/usr/sbin/pgbouncer", "/usr/local/sbin/pgbouncer"} {
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", ErrNoPooler
}
