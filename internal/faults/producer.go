package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/outbox"
)

// producer enqueues the entries of one instance, in order of their numbers, at an even rate.
type producer struct {
	r        *run
	instance int
	share    int // how many entries it enqueues
	random   *rand.Rand
}

// undone begins the correlation ids of entries whose transaction was rolled back: they must never be seen.
const undone = "undone-"

// run returns once all entries are committed, however often it takes.
func (p *producer) run(ctx context.Context) {
	config, err := pgxpool.ParseConfig(p.r.database.daemonDSN(p.r.database.address))
	if err != nil {
		p.r.violate(RuleHarness, "producer: %v", err)
		return
	}
	config.MaxConns = 1
	config.ConnConfig.RuntimeParams["application_name"] = "producer"
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		p.r.violate(RuleHarness, "producer: %v", err)
		return
	}
	defer pool.Close()
	// All are there a little before the end, so that faults also meet the last ones.
	full := p.r.cfg.Duration * 95 / 100
	mean := max(1, p.share/int(full/(100*time.Millisecond)))
	for done := 0; done < p.share && ctx.Err() == nil; {
		due := min(p.share, int(float64(p.share)*float64(time.Since(p.r.began))/float64(full)))
		if due <= done {
			sleep(ctx, 20*time.Millisecond)
			continue
		}
		size := min(due-done, 1+p.random.IntN(2*mean), 1000)
		if p.random.IntN(20) == 0 {
			p.undo(ctx, pool, done)
		}
		p.commit(ctx, pool, done, done+size)
		done += size
		p.r.enqueued[p.instance].Store(int64(done))
	}
}

func (p *producer) entries(from, to int) []fencerow.NewEntry {
	entries := make([]fencerow.NewEntry, 0, to-from)
	for n := from; n < to; n++ {
		entries = append(entries, numbered(instanceKey(p.instance), n, p.r.special).new())
	}
	return entries
}

// commit enqueues the entries from..to-1, again after each failure. A commit whose answer was lost is found
// as a duplicate.
func (p *producer) commit(ctx context.Context, pool *pgxpool.Pool, from, to int) {
	entries := p.entries(from, to)
	for try := 0; ctx.Err() == nil; try++ {
		results, err := p.enqueue(ctx, pool, entries, true)
		if err != nil {
			p.r.retries.Add(1)
			pool.Reset() // A session that began while the server was read-only stays so.
			sleep(ctx, 5*glance)
			continue
		}
		for i, e := range results {
			if e.Result == fencerow.EnqueueInserted || e.Result == fencerow.EnqueueDuplicate && try > 0 {
				continue
			}
			p.r.violate(RuleEnqueue, "%s was enqueued at try %d as %s", entries[i].CorrelationID, try+1, e.Result)
		}
		return
	}
}

// undo enqueues an entry and rolls back, as a service does whose own work fails.
func (p *producer) undo(ctx context.Context, pool *pgxpool.Pool, n int) {
	entries := p.entries(n, n+1)
	entries[0].CorrelationID = fencerow.CorrelationID(fmt.Sprintf("%s%d", undone, n))
	_, _ = p.enqueue(ctx, pool, entries, false) // a fault may have rolled back before
}

func (p *producer) enqueue(
	ctx context.Context, pool *pgxpool.Pool, entries []fencerow.NewEntry, keep bool,
) (results []fencerow.Enqueued, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	tx, err := pool.Begin(ctx)
	if err != nil {
		return nil, err
	}
	results, err = outbox.EnqueueMany(ctx, tx, fencerow.InstanceKey(instanceKey(p.instance)), entries)
	if err == nil && keep {
		return results, tx.Commit(ctx)
	}
	return results, errors.Join(err, tx.Rollback(ctx))
}
