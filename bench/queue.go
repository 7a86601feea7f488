package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// queue is a system under measurement.
type queue interface {
	// prepare makes its tables in an empty database.
	prepare(ctx context.Context, db *database) error
	// fill enqueues n entries in its own fastest way, numbered from first.
	fill(ctx context.Context, db *database, first, n int) error
	// open makes a client for n entries that is ready to work and does not work yet.
	open(ctx context.Context, db *database, n int) (consumer, error)
	// queries names the file of sql/ that has the queries "unfinished" and "tally", and their arguments.
	queries() (file string, args []any)
}

// consumer is a client of a queue at work.
type consumer interface {
	// begin starts the work and returns.
	begin(ctx context.Context) error
	// delivered is how many entries were handed to the delivery so far.
	delivered() int64
	// cpu is the CPU time of the client so far; the client may be another process.
	cpu() (time.Duration, error)
	// stop ends the client and its connections. It is called once, also without begin.
	stop(ctx context.Context) error
}

// checked is a queue that not every machine can run.
type checked interface {
	// check makes ready what can be, and returns what to say of what was found; the error says why the queue
	// cannot be measured here.
	check(ctx context.Context, s *server) (detail string, err error)
}

// system is a queue with the setting it runs with.
type system struct {
	// spec is the name and what differs from the setting that was found best.
	spec string
	// setting says in words what it runs with.
	setting string
	queue   queue
}

// kind is a kind of system.
type kind struct {
	name string
	// tries are the settings that were tried to find the best.
	tries []string
	build func(p params) (queue, string, error)
}

var kinds = []kind{
	fencerowKind, limitKind, riverKind, watermillKind, graphileKind, pgmqKind, gueKind,
}

func systemNames() []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.name
	}
	return names
}

// defaultSystems is what workload a runs: each at its best setting, and some as they come.
var defaultSystems = []string{
	"fencerow", "fencerow/default=true", "fencerow/whole=true", "limit", "limit/unread=true",
	"river", "river/default=true", "watermill", "graphile", "pgmq", "gue",
}

// params are the settings of a system in a spec.
type params struct {
	values map[string]string
	err    error
}

// parseSystem reads NAME/KEY=VALUE/KEY=VALUE.
func parseSystem(spec string) (*system, error) {
	name, rest, _ := strings.Cut(spec, "/")
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 {
		return nil, fmt.Errorf("no system %q: there are %s", name, strings.Join(systemNames(), ", "))
	}
	p := params{values: map[string]string{}}
	for rest != "" {
		var part string
		part, rest, _ = strings.Cut(rest, "/")
		key, value, ok := strings.Cut(part, "=")
		if !ok {
			return nil, fmt.Errorf("system %q: %q is not KEY=VALUE", spec, part)
		}
		p.values[key] = value
	}
	q, setting, err := kinds[i].build(p)
	if err != nil {
		return nil, fmt.Errorf("system %q: %w", spec, err)
	}
	if len(p.values) > 0 {
		unknown := strings.Join(slices.Sorted(maps.Keys(p.values)), ", ")
		return nil, fmt.Errorf("system %q has no setting %s", spec, unknown)
	}
	return &system{spec: spec, setting: setting, queue: q}, nil
}

// take returns the setting of a key, or its default, and removes it: what is left over is a mistake.
func take[T any](p *params, key string, fallback T, parse func(string) (T, error)) T {
	text, ok := p.values[key]
	if !ok {
		return fallback
	}
	delete(p.values, key)
	value, err := parse(text)
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("%s: %w", key, err)
	}
	return value
}

func (p *params) int(key string, fallback int) int { return take(p, key, fallback, strconv.Atoi) }
func (p *params) bool(key string, fallback bool) bool {
	return take(p, key, fallback, strconv.ParseBool)
}
func (p *params) duration(key string, fallback time.Duration) time.Duration {
	return take(p, key, fallback, time.ParseDuration)
}

// lookPause is how often a drain that is delivered is looked at until all of it is recorded.
const lookPause = 2 * time.Millisecond

// stallAfter ends a drain of which nothing was delivered for so long.
const stallAfter = time.Minute

// awaitDelivered waits until the client has handed n entries to the delivery.
func awaitDelivered(ctx context.Context, c consumer, n int) error {
	tick := time.NewTicker(lookPause)
	defer tick.Stop()
	last, since := int64(-1), time.Now()
	for {
		now := c.delivered()
		if now >= int64(n) {
			return nil
		}
		if now != last {
			last, since = now, time.Now()
		} else if time.Since(since) > stallAfter {
			return fmt.Errorf("stalled at %d of %d entries", now, n)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// connectToLook returns a connection for [awaitRecorded] within what is measured. The caller closes it.
func connectToLook(ctx context.Context, db *database) (*pgx.Conn, error) {
	conn, err := pgx.Connect(ctx, db.dsn)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, query("server", "look_by_index")); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return conn, nil
}

// awaitRecorded waits until the database has nothing unfinished.
func awaitRecorded(ctx context.Context, conn *pgx.Conn, q queue) error {
	file, args := q.queries()
	tick := time.NewTicker(lookPause)
	defer tick.Stop()
	for since := time.Now(); ; {
		var unfinished bool
		err := conn.QueryRow(ctx, query(file, "unfinished"), args...).Scan(&unfinished)
		if err != nil || !unfinished {
			return err
		}
		if time.Since(since) > stallAfter {
			return fmt.Errorf("all was delivered, but not all recorded")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// tally counts in the database. finished is -1 for a system that keeps no finished rows.
func tally(ctx context.Context, db *database, q queue) (left, finished int64, err error) {
	file, args := q.queries()
	err = db.with(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, query(file, "tally"), args...).Scan(&left, &finished)
	})
	return left, finished, err
}
