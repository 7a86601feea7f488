package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/jackc/pgx/v5"
)

// StartStandby makes a streaming replica of the primary that dsn leads to, a superuser's, and starts it. It
// accepts reads, follows the primary, and can be promoted with pg_promote().
func StartStandby(ctx context.Context, dsn string, extra map[string]string) (*Cluster, error) {
	primary, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	c, err := newCluster(extra)
	if err != nil {
		return nil, err
	}
	c.password = primary.Password // the roles are the primary's
	backup := exec.CommandContext(ctx, filepath.Join(c.bin, "pg_basebackup"), "--pgdata="+c.data(),
		fmt.Sprintf("--dbname=host=%s port=%d user=%s", primary.Host, primary.Port, primary.User),
		"--checkpoint=fast", "--wal-method=stream", "--write-recovery-conf", "--no-sync", "--no-password")
	c.prepare(backup)
	backup.Env = append(backup.Env, "PGPASSWORD="+primary.Password)
	if out, err := backup.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("pg_basebackup: %w\n%s", err, out), c.Close())
	}
	return c.startOnFreePort(ctx)
}
