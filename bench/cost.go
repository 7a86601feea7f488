package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// cost is what a measurement used up.
type cost struct {
	Seconds float64 `json:"seconds"`
	// ClientCPU and ServerCPU are seconds of the client's process and of all processes of the server.
	ClientCPU float64 `json:"client_cpu_seconds"`
	ServerCPU float64 `json:"server_cpu_seconds"`
	// WAL is in bytes; Images of them are full-page images, -1 where the server cannot tell.
	WAL    int64 `json:"wal_bytes"`
	Images int64 `json:"wal_image_bytes"`
	// Commits and Dead are transactions, and rows updated or deleted, each of which leaves a dead tuple.
	Commits int64 `json:"commits"`
	Dead    int64 `json:"dead_tuples"`
}

// meter measures the cost of what happens between start and stop.
type meter struct {
	db      *database
	started time.Time
	stopped time.Time
	client  func() (time.Duration, error)
	before  reading
	cost    cost
}

type reading struct {
	client, server time.Duration
	wal            string
	commits, dead  int64
}

// startMeter begins a measurement of one database. client tells the CPU time of the client so far; nil stands
// for this process.
func startMeter(ctx context.Context, db *database, client func() (time.Duration, error)) (*meter, error) {
	if client == nil {
		client = ownCPU
	}
	m := &meter{db: db, client: client}
	var err error
	if m.before.commits, m.before.dead, err = m.statistics(ctx); err != nil {
		return nil, err
	}
	if err := m.read(ctx, &m.before); err != nil {
		return nil, err
	}
	if err := db.server.profiler.start(ctx); err != nil {
		return nil, err
	}
	m.started = time.Now()
	return m, nil
}

// read takes what changes while nobody looks.
func (m *meter) read(ctx context.Context, r *reading) (err error) {
	if r.wal == "" {
		if err := m.db.server.admin.QueryRow(ctx, query("server", "wal_position")).Scan(&r.wal); err != nil {
			return err
		}
	}
	if r.client, err = m.client(); err != nil {
		return err
	}
	r.server, err = serverCPU(m.db.server.postmaster)
	return err
}

// stop ends the measured time. The counters of the server are complete only when the client's connections are
// closed; finish reads them then.
func (m *meter) stop(ctx context.Context) error {
	m.stopped = time.Now()
	var after reading
	if err := m.read(ctx, &after); err != nil {
		return err
	}
	if err := m.db.server.profiler.stop(ctx, m.db.name); err != nil {
		return err
	}
	m.cost.Seconds = m.stopped.Sub(m.started).Seconds()
	m.cost.ClientCPU = (after.client - m.before.client).Seconds()
	m.cost.ServerCPU = (after.server - m.before.server).Seconds()
	admin := m.db.server.admin
	err := admin.QueryRow(ctx, query("server", "wal_between"), m.before.wal, after.wal).Scan(&m.cost.WAL)
	if err != nil {
		return err
	}
	m.cost.Images = -1
	if m.db.server.walInspect && m.cost.WAL > 0 {
		err = admin.QueryRow(ctx, query("server", "wal_images"), m.before.wal, after.wal).Scan(&m.cost.Images)
	}
	return err
}

func (m *meter) finish(ctx context.Context) (cost, error) {
	commits, dead, err := m.statistics(ctx)
	m.cost.Commits, m.cost.Dead = commits-m.before.commits, dead-m.before.dead
	return m.cost, err
}

// statistics reads the counters of the database.
func (m *meter) statistics(ctx context.Context) (commits, dead int64, err error) {
	err = m.db.server.admin.QueryRow(ctx, query("server", "commits"), m.db.name).Scan(&commits)
	if err != nil {
		return 0, 0, err
	}
	err = m.db.with(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, query("server", "dead")).Scan(&dead)
	})
	return commits, dead, err
}
