package faults

import (
	"context"
	_ "embed" // the audit
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/jackc/pgx/v5"

	"github.com/fourblocks2020/fencerow/internal/migrate"
	"github.com/fourblocks2020/fencerow/internal/pgtest/pgserver"
)

//go:embed audit.sql
var auditSQL string

const (
	databaseName = "fencerow_faults"
	// daemonRole is the one that docs/operations.md grants what a daemon needs.
	daemonRole = "fencerow_daemon"
	// daemonPassword must be in no output. It has what a connection string must escape.
	daemonPassword = "dsn-s3ntinel% pass/word"
)

// database is a server of the run's own.
type database struct {
	adminDSN string
	address  string

	mu      sync.Mutex // guards cluster
	cluster *pgserver.Cluster
}

// newDatabase starts a server and makes a database that has rows from before ownership, the schema of today,
// the audit, and a role with the documented grants only. It returns what the old rows held.
func newDatabase(ctx context.Context, root string) (db *database, legacy []string, err error) {
	cluster, err := pgserver.StartCluster(ctx, map[string]string{
		"max_connections": "400", "max_wal_size": "4GB", "shared_buffers": "256MB",
		"autovacuum_naptime": "5s", "log_min_messages": "fatal", "log_min_error_statement": "panic",
	})
	if err != nil {
		return nil, nil, err
	}
	db = &database{cluster: cluster}
	if legacy, err = db.prepare(ctx, root); err != nil {
		db.close()
		return nil, nil, err
	}
	return db, legacy, nil
}

func (db *database) prepare(ctx context.Context, root string) (legacy []string, err error) {
	maintenance, err := pgx.ParseConfig(db.cluster.DSN())
	if err != nil {
		return nil, err
	}
	db.address = net.JoinHostPort(maintenance.Host, fmt.Sprint(maintenance.Port))
	db.adminDSN = dsn(maintenance.User, maintenance.Password, db.address, databaseName)
	conn, err := pgx.ConnectConfig(ctx, maintenance)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }() // its statement tells
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+databaseName+
		" TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'"); err != nil {
		return nil, err
	}
	if legacy, err = db.migrate(ctx); err != nil {
		return nil, err
	}
	grants, err := documentedGrants(root)
	if err != nil {
		return nil, err
	}
	create := "CREATE ROLE " + daemonRole + " LOGIN PASSWORD '" + daemonPassword + "'"
	return legacy, db.exec(ctx, create, grants, auditSQL)
}

// migrate goes to the schema from before ownership, fills it, and comes to the schema of today.
func (db *database) migrate(ctx context.Context) ([]string, error) {
	if _, err := migrate.Up(ctx, db.adminDSN); err != nil {
		return nil, err
	}
	if _, err := migrate.DownTo(ctx, db.adminDSN, 1); err != nil {
		return nil, err
	}
	if err := db.exec(ctx, legacySQL); err != nil {
		return nil, err
	}
	before, err := db.texts(ctx, legacyBeforeSQL)
	if err != nil {
		return nil, err
	}
	_, err = migrate.Up(ctx, db.adminDSN)
	return before, err
}

// legacySQL are rows of the schema before ownership, some of which no rule of today would let in, and some of
// which have correlation ids that owned entries have too.
const legacySQL = `
INSERT INTO fencerow.ledger_outbox (
    correlation_id, entry_kind, slot_id, cash_delta, currency, payload, status
)
VALUES
    ('', '', '', 'NaN', '', 'null', ''),
    (E'tab\tnewline\n', 'Not A Kind', ' slot ', 1e400, 'usd', '[1, 1.0]', 'no such status'),
    ('repeated', 'fill', NULL, 1, 'EUR', '{"copy": 1}', 'pending'),
    ('repeated', 'fill', NULL, 1, 'EUR', '{"copy": 1}', 'pending');
INSERT INTO fencerow.ledger_outbox (correlation_id, entry_kind, slot_id, cash_delta, currency, payload)
SELECT 'e-' || lpad(n::text, 7, '0'), 'fill', 'slot-1', n, 'USD', ('{"legacy": ' || n || '}')::json
FROM generate_series(0, 199) AS n;
INSERT INTO fencerow.ledger_outbox (correlation_id, entry_kind, payload)
SELECT 'legacy-' || n, 'fill', '{}'
FROM generate_series(0, 199) AS n`

// The content of the old rows, before they had an owner to lack, and afterwards.
const (
	legacyBeforeSQL = `
SELECT ROW(
    o.outbox_id, o.correlation_id, o.entry_kind, o.slot_id, o.cash_delta, o.currency, o.payload,
    o.enqueued_at, o.status, o.attempt_count, o.next_retry_at
)::text
FROM fencerow.ledger_outbox o
ORDER BY o.outbox_id`
	legacyAfterSQL = `
SELECT ROW(
    o.outbox_id, o.correlation_id, o.entry_kind, o.slot_id, o.cash_delta, o.currency, o.payload,
    o.enqueued_at, l.status, l.attempt_count, l.next_retry_at
)::text
FROM fencerow.ledger_outbox o
LEFT JOIN fencerow.ledger_legacy l ON l.outbox_id = o.outbox_id
WHERE o.instance_key IS NULL
ORDER BY o.outbox_id`
)

// documentedGrants are what docs/operations.md gives to the role of a daemon: its first block of SQL.
func documentedGrants(root string) (string, error) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(string(page), "```sql\n")
	block, _, ended := strings.Cut(rest, "```\n")
	if !ended || !strings.Contains(block, "TO "+daemonRole+";") {
		return "", fmt.Errorf("docs/operations.md does not begin with the grants of the daemon")
	}
	return block, nil
}

func dsn(user, password, address, name string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(user, password), Host: address, Path: name,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// daemonDSN leads to the database by an address, which may be a link's.
func (db *database) daemonDSN(address string) string {
	return dsn(daemonRole, daemonPassword, address, databaseName)
}

// exec runs statements, one after the other, on a connection of their own.
func (db *database) exec(ctx context.Context, statements ...string) error {
	conn, err := pgx.Connect(ctx, db.adminDSN)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // the statements tell
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// insist is exec that begins again, as long as ctx lasts, when the server is restarted meanwhile.
func (db *database) insist(ctx context.Context, statements ...string) error {
	for {
		err := db.exec(ctx, statements...)
		if err == nil || !sleep(ctx, glance) {
			return err
		}
	}
}

// texts returns the values of a query of one column.
func (db *database) texts(ctx context.Context, query string, args ...any) ([]string, error) {
	conn, err := pgx.Connect(ctx, db.adminDSN)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }() // nothing of it is needed any more
	rows, err := conn.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// crash ends the server at once; start brings it back.
func (db *database) crash() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.cluster.Stop(syscall.SIGQUIT)
}

func (db *database) start(ctx context.Context) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.cluster.Start(ctx)
}

func (db *database) close() {
	db.mu.Lock()
	defer db.mu.Unlock()
	_ = db.cluster.Close() // a temporary folder
}
