package faults

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// readClaims checks that no two claims of an instance have the same epoch: a request is known by it.
func (w *witness) readClaims(ctx context.Context, pool *pgxpool.Pool) error {
	var twice int
	err := pool.QueryRow(ctx, `
SELECT count(*)
FROM (SELECT FROM audit.claim GROUP BY instance_key, claim_epoch HAVING count(*) > 1) AS t`).Scan(&twice)
	if twice > 0 {
		w.r.violate(RuleEpoch, "%d epochs were given to two claims of one instance", twice)
	}
	return err
}

// recordedSQL counts what each worker recorded: the outcomes under its claims, and its retries but for those
// that give an attempt back, which no worker counts.
const recordedSQL = `
SELECT c.claimed_by, f.outcome, count(*)
FROM fencerow.ledger_outcome f
JOIN audit.claim c ON c.instance_key = f.instance_key AND c.claim_epoch = f.claim_epoch
GROUP BY 1, 2
UNION ALL
SELECT c.claimed_by, 'retryable_failure', count(*)
FROM audit.let_go l
JOIN audit.claim c ON c.claim_epoch = l.claim_epoch AND l.outbox_id = ANY (c.outbox_ids)
WHERE l.how = 'retried' AND l.attempts_after >= l.attempts_before
GROUP BY 1`

// checkTotals compares what each process that ended in order logged as recorded with what was recorded under
// its claims.
func (r *run) checkTotals(ctx context.Context, pool *pgxpool.Pool, report *Report) error {
	if err := pool.QueryRow(ctx, `SELECT count(*) FROM audit.claim`).Scan(&report.Claims); err != nil {
		return err
	}
	rows, err := pool.Query(ctx, recordedSQL)
	if err != nil {
		return err
	}
	defer rows.Close()
	recorded := map[string]map[string]int64{}
	for rows.Next() {
		var worker, kind string
		var n int64
		if err := rows.Scan(&worker, &kind, &n); err != nil {
			return err
		}
		if recorded[worker] == nil {
			recorded[worker] = map[string]int64{}
		}
		recorded[worker][kind] += n
	}
	r.each(func(d *daemon) {
		for _, p := range d.all {
			if !p.inOrder || p.tallies.Dropped > 0 {
				continue
			}
			report.Compared++
			r.compare(p, recorded[p.worker])
		}
	})
	return rows.Err()
}

// compare allows a process to have recorded what it gave up as not acknowledged, and no more. One more thing
// it cannot know: that a retry was recorded whose answer it did not get, once another worker has recorded
// something else of the row. It says that the claim was lost then.
func (r *run) compare(p *process, recorded map[string]int64) {
	const retry = "retryable_failure"
	spare := p.tallies.Abandoned
	kinds := slices.Sorted(maps.Keys(recorded))
	for kind := range p.tallies.Outcomes {
		if _, known := recorded[kind]; !known {
			kinds = append(kinds, kind)
		}
	}
	for _, kind := range kinds {
		more := recorded[kind] - p.tallies.Outcomes[kind]
		if kind == retry && more > 0 {
			more -= min(more, p.tallies.Lost)
		}
		if more < 0 || more > spare {
			r.violate(RuleCounts, "%s logged %s %d times, and %d were recorded; %d given up as not acknowledged",
				p.worker, kind, p.tallies.Outcomes[kind], recorded[kind], p.tallies.Abandoned)
			continue
		}
		spare -= more
	}
}

// recoveredSQL are the claims that were taken over because their lease had ended: by whom they were held,
// when they were made and ended, and when they were taken over.
const recoveredSQL = `
SELECT c.claimed_by, c.made_at, c.made_at + c.lease, min(l.at)
FROM audit.let_go l
JOIN audit.claim c ON c.claim_epoch = l.claim_epoch AND l.outbox_id = ANY (c.outbox_ids)
WHERE l.how = 'expired'
GROUP BY c.claimed_by, c.made_at, c.lease`

// busyMachine is how much later than the interval says a poll may be done on a machine that has more to do
// than processors.
const busyMachine = 250 * time.Millisecond

// checkRecovery measures when what killed daemons held was taken over.
func (r *run) checkRecovery(ctx context.Context, pool *pgxpool.Pool, report *Report) error {
	killed := map[string]Happening{}
	for _, h := range r.happenings {
		if h.Kind == KillDaemon {
			killed[h.Worker] = h
		}
	}
	rows, err := pool.Query(ctx, recoveredSQL)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var worker string
		var made, ends, taken time.Time
		if err := rows.Scan(&worker, &made, &ends, &taken); err != nil {
			return err
		}
		kill, dead := killed[worker]
		if !dead || ends.Before(kill.From) {
			continue
		}
		x := Recovery{AfterKill: taken.Sub(kill.From), AfterLease: taken.Sub(ends)}
		x.Undisturbed = !r.disturbed(kill, ends.Add(-r.cfg.Interval), taken)
		report.Recoveries = append(report.Recoveries, x)
		if x.Undisturbed && x.AfterKill > r.cfg.Lease+r.cfg.Interval+busyMachine {
			r.violate(RuleRecovery, "%s was killed at %s; its claim of %s was taken over %s later, %s after the lease",
				worker, clock(kill.From), clock(made), x.AfterKill, x.AfterLease)
		}
	}
	return rows.Err()
}

// disturbed reports whether something else went wrong for the instance at the time. What befell another
// daemon of the instance counts: it may have been the only one left.
func (r *run) disturbed(kill Happening, from, to time.Time) bool {
	instance, _, _ := strings.Cut(kill.Place, "/")
	return slices.ContainsFunc(r.happenings, func(h Happening) bool {
		if h.Kind == HoldSnapshot || h.Kind == JumpClock {
			return false // neither keeps anyone from claiming
		}
		mine := h.Place == "" || strings.HasPrefix(h.Place, instance+"/")
		same := h.Worker == kill.Worker && h.Kind == KillDaemon
		return mine && !same && !h.From.After(to) && !h.To.Before(from)
	})
}
