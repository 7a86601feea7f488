package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fourblocks2020/fencerow/internal/pgtest/pgserver"
)

// serverSettings are what the private server runs with, the same for every system. Durable, as a server in
// use is; enough memory that the data of a drain fits, and room for the WAL, so that no checkpoint falls into
// one system's measurement and not into another's.
func serverSettings() settingsFlag {
	return settingsFlag{
		"fsync":              "on",
		"full_page_writes":   "on",
		"synchronous_commit": "on",
		"shared_buffers":     "2GB",
		"max_wal_size":       "16GB",
		"checkpoint_timeout": "1h",
		"wal_level":          "replica",
		"autovacuum":         "on",
		"jit":                "on",
		"work_mem":           "4MB",
		"max_connections":    "300",
	}
}

// settingsFlag collects settings of the server from a command line.
type settingsFlag map[string]string

// String implements flag.Value.
func (s settingsFlag) String() string { return "" }

// Set implements flag.Value.
func (s settingsFlag) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return errors.New("must be NAME=VALUE")
	}
	s[name] = value
	return nil
}

// server is the private server of a run.
type server struct {
	cluster *pgserver.Cluster
	admin   *pgx.Conn // to the maintenance database
	// postmaster is the server's first process, the parent of all its others.
	postmaster int
	settings   []string // their names, sorted
	walInspect bool     // whether the share of full-page images can be told
	profiler   *profiler
	serial     int
}

func startServer(ctx context.Context, settings settingsFlag) (*server, error) {
	cluster, err := pgserver.StartCluster(ctx, settings)
	if err != nil {
		return nil, err
	}
	s := &server{cluster: cluster, settings: slices.Sorted(maps.Keys(settings))}
	if err := s.look(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// look finds out what the measuring needs to know of the server.
func (s *server) look(ctx context.Context) (err error) {
	if s.admin, err = pgx.Connect(ctx, s.cluster.DSN()); err != nil {
		return err
	}
	var backend int
	if err := s.admin.QueryRow(ctx, query("server", "backend")).Scan(&backend); err != nil {
		return err
	}
	if s.postmaster, err = parentOf(backend); err != nil {
		return err
	}
	var available bool
	if err := s.admin.QueryRow(ctx, query("server", "wal_inspect_available")).Scan(&available); err != nil {
		return err
	}
	if available {
		_, err = s.admin.Exec(ctx, query("server", "create_wal_inspect"))
		s.walInspect = err == nil
	}
	return err
}

func (s *server) close() error {
	if s.admin != nil {
		_ = s.admin.Close(context.Background()) // the server ends anyway
	}
	return s.cluster.Close()
}

// version and show describe the server.
func (s *server) version(ctx context.Context) (version string, err error) {
	err = s.admin.QueryRow(ctx, query("server", "version")).Scan(&version)
	return version, err
}

func (s *server) show(ctx context.Context) ([]string, error) {
	lines := make([]string, 0, len(s.settings))
	for _, name := range s.settings {
		var value string
		if err := s.admin.QueryRow(ctx, query("server", "setting"), name).Scan(&value); err != nil {
			return nil, err
		}
		lines = append(lines, name+"="+value)
	}
	return lines, nil
}

// extensionVersion returns the version of an extension that can be created here, "" if it cannot.
func (s *server) extensionVersion(ctx context.Context, name string) (version string, err error) {
	err = s.admin.QueryRow(ctx, query("server", "extension_version"), name).Scan(&version)
	return version, err
}

// database is an empty database of its own for one measurement.
type database struct {
	server *server
	name   string
	dsn    string
}

func (s *server) createDatabase(ctx context.Context) (*database, error) {
	s.serial++
	name := fmt.Sprintf("bench_%d", s.serial)
	if _, err := s.admin.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return nil, err
	}
	u, err := url.Parse(s.cluster.DSN())
	if err != nil {
		return nil, err
	}
	u.Path = name
	return &database{server: s, name: name, dsn: u.String()}, nil
}

func (d *database) drop() error {
	_, err := d.server.admin.Exec(context.Background(), "DROP DATABASE "+d.name+" WITH (FORCE)")
	return err
}

// with runs fn on a connection of its own.
func (d *database) with(ctx context.Context, fn func(conn *pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, d.dsn)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.Background()) }() // what fn says is what counts
	return fn(conn)
}

// exec runs one query of sql/ on a connection of its own.
func (d *database) exec(ctx context.Context, text string, args ...any) error {
	return d.with(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, text, args...)
		return err
	})
}

// settle makes the state in which every measurement begins: vacuumed, and nothing left to write.
func (d *database) settle(ctx context.Context) error {
	return d.with(ctx, func(conn *pgx.Conn) error {
		for _, name := range []string{"vacuum", "checkpoint"} {
			if _, err := conn.Exec(ctx, query("server", name)); err != nil {
				return err
			}
		}
		return nil
	})
}
