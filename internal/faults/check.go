package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sort"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
)

// The rules.
const (
	// RuleHarness: the harness itself failed.
	RuleHarness Rule = "harness"
	// RuleEnqueue: a committed entry is missing, another one is there, or it is not as it was enqueued.
	RuleEnqueue Rule = "enqueue"
	// RuleUnfinished: an entry is not in exactly one terminal state, its own.
	RuleUnfinished Rule = "unfinished"
	// RuleNotBooked: the ledger does not have what it should have exactly once, byte for byte.
	RuleNotBooked Rule = "not_booked"
	// RuleOutcomeWithoutSend: an outcome was recorded that the ledger had not given by then.
	RuleOutcomeWithoutSend Rule = "outcome_without_send"
	// RuleTwoHolders: a row was claimed while another claim held it.
	RuleTwoHolders Rule = "two_holders"
	// RuleHoldUnended: a row was claimed again though its claim neither ended nor expired.
	RuleHoldUnended Rule = "hold_unended"
	// RuleSendOutsideHold: a request left outside of its claim's hold on the row.
	RuleSendOutsideHold Rule = "send_outside_hold"
	// RuleEpoch: a fencing token did not rise.
	RuleEpoch Rule = "epoch"
	// RuleAttempts: attempts were counted wrongly.
	RuleAttempts Rule = "attempts"
	// RuleSentAgain: something was sent again, and no fault explains it.
	RuleSentAgain Rule = "sent_again"
	// RuleForeign: something changed that is another instance's or nobody's.
	RuleForeign Rule = "foreign"
	// RuleCounts: a process counted other than what happened.
	RuleCounts Rule = "counts"
	// RuleRecovery: what a killed daemon held came back too late.
	RuleRecovery Rule = "recovery"
	// RuleSecret: a secret was printed or stored.
	RuleSecret Rule = "secret"
	// RuleStop: a process did not end when told.
	RuleStop Rule = "stop"
	// RuleOperator: an operator was answered something that cannot be.
	RuleOperator Rule = "operator"
	// RuleSlot: a slot or a skip is not what the ledger says.
	RuleSlot Rule = "slot"
	// RuleRace: the race detector spoke up.
	RuleRace Rule = "race"
)

// check reads the evidence.
func (r *run) check(ctx context.Context) (*Report, error) {
	report := &Report{
		Seed: r.cfg.Seed, Mutant: r.cfg.Mutant, Took: time.Since(r.began), Plan: r.plan, Faults: map[Kind]int{},
		Retries: int(r.retries.Load()), Requeued: int(r.requeued.Load()), Commands: len(r.commands),
	}
	r.checkCounters(ctx, report)
	r.stopDaemons()
	r.note("everything has ended; reading the evidence")
	for _, h := range r.happenings {
		report.Faults[h.Kind]++
	}
	pool, err := pgxpool.New(ctx, r.database.adminDSN)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	w := newWitness(r)
	if err := errors.Join(w.readClaims(ctx, pool), w.checkEntries(ctx, pool, report)); err != nil {
		return nil, fmt.Errorf("read the evidence: %w", err)
	}
	if err := errors.Join(r.checkTotals(ctx, pool, report), r.checkRecovery(ctx, pool, report)); err != nil {
		return nil, fmt.Errorf("read the evidence: %w", err)
	}
	r.checkUntouched(ctx)
	r.checkSlots(ctx, pool)
	r.checkOutput(ctx, pool, report)
	report.Broken, report.violations = r.broken, r.found
	sort.SliceStable(report.violations, func(i, j int) bool {
		return report.violations[i].rule < report.violations[j].rule
	})
	r.note("done")
	return report, nil
}

// checkUntouched compares what is nobody's, or another instance's, with what it was.
func (r *run) checkUntouched(ctx context.Context) {
	foreign, err := r.database.texts(ctx, foreignSQL, foreignKey)
	if err != nil || !slices.Equal(foreign, r.foreign) {
		r.violate(RuleForeign, "the rows of %s are not what they were (%v)", foreignKey, err)
	}
	legacy, err := r.database.texts(ctx, legacyAfterSQL)
	if err != nil || !slices.Equal(legacy, r.legacy) {
		r.violate(RuleForeign, "the rows from before ownership are not what they were (%v)", err)
	}
	for _, b := range r.ledger.stub.Bookings() {
		if !slices.ContainsFunc(r.daemons, func(ds []*daemon) bool {
			prefix := instanceKey(ds[0].instance) + ":"
			return len(b.Key) > len(prefix) && b.Key[:len(prefix)] == prefix
		}) {
			r.violate(RuleForeign, "the ledger was sent %s", b.Key)
		}
	}
}

// checkSlots compares slots with the ledger's balances: a slot may be behind, never ahead, and never wrong.
func (r *run) checkSlots(ctx context.Context, pool *pgxpool.Pool) {
	type account struct{ instance, slot string }
	balances := map[account]ledgerstub.Balance{}
	for _, b := range r.ledger.stub.Balances() {
		balances[account{b.Instance, b.Slot}] = b
	}
	rows, err := pool.Query(ctx, `
SELECT instance_key, slot_id, cash_balance::text, ledger_version
FROM fencerow.ledger_slot
WHERE ledger_version IS NOT NULL`)
	if err != nil {
		r.violate(RuleHarness, "slots: %v", err)
		return
	}
	defer rows.Close()
	for rows.Next() {
		var a account
		var balance string
		var version int64
		if err := rows.Scan(&a.instance, &a.slot, &balance, &version); err != nil {
			r.violate(RuleHarness, "slots: %v", err)
			return
		}
		b := balances[a]
		if version > b.Version || version == b.Version && balance != b.Balance.String() {
			r.violate(RuleSlot, "%v has %s at version %d; the ledger has %s at %d", a, balance, version, b.Balance,
				b.Version)
		}
	}
	var wrong int
	err = pool.QueryRow(ctx, `
SELECT count(*)
FROM fencerow.ledger_skip k
WHERE k.instance_key <> $1
    AND (k.resolved_at IS NOT NULL OR k.booked) <> EXISTS (
        SELECT FROM fencerow.ledger_outcome o WHERE o.outbox_id = k.outbox_id AND o.status = 'completed'
    )`, foreignKey).Scan(&wrong)
	if err != nil || wrong > 0 {
		r.violate(RuleSlot, "%d skips do not go with the outcomes of their entries (%v)", wrong, err)
	}
}

// checkOutput looks for secrets, and for what the race detector says.
func (r *run) checkOutput(ctx context.Context, pool *pgxpool.Pool, report *Report) {
	all := slices.Clone(r.commands)
	r.each(func(d *daemon) {
		report.Unasked += d.unasked
		report.Processes += len(d.all)
		all = append(all, d.all...)
	})
	for _, p := range all {
		if p.leaks > 0 {
			r.violate(RuleSecret, "%s printed a secret %d times", p.worker, p.leaks)
		}
		if p.races {
			r.violate(RuleRace, "%s: %s", p.worker, p.tail)
		}
		report.Lost += p.tallies.Lost
	}
	err := pool.QueryRow(ctx, `
SELECT pg_total_relation_size('fencerow.ledger_pending'), pg_total_relation_size('fencerow.ledger_claim')
`).Scan(&report.Pending, &report.Claim)
	if err != nil {
		r.violate(RuleHarness, "sizes: %v", err)
	}
	for _, table := range []string{"pending", "claim", "outcome", "slot", "skip", "instance"} {
		var leaks int
		err := pool.QueryRow(ctx, `SELECT count(*) FROM fencerow.ledger_`+table+
			` AS t WHERE t::text LIKE '%s3ntinel%'`).Scan(&leaks)
		if err != nil || leaks > 0 {
			r.violate(RuleSecret, "%d rows of ledger_%s hold a secret (%v)", leaks, table, err)
		}
	}
}

// spied is what is read of the answer for operators.
type spied struct {
	Metrics struct {
		Available bool `json:"available"`
		Claims    struct {
			Batches     int64 `json:"claimed_batches_total"`
			Unavailable int64 `json:"unavailable_total"`
			Lost        int64 `json:"lost_total"`
			Foreign     int64 `json:"foreign_instance_total"`
		} `json:"claims"`
		Outcomes map[string]int64 `json:"outcomes"`
	} `json:"ledger_outbox_metrics"`
}

// checkCounters compares the counters of each daemon, which has nothing left to do, with its log.
func (r *run) checkCounters(ctx context.Context, report *Report) {
	r.each(func(d *daemon) {
		p := d.current()
		report.Memory = max(report.Memory, p.memory())
		address := p.opsAddress()
		if address == "" {
			return
		}
		status, body, err := r.operator.exchange(ctx, http.MethodGet, "http://"+address+"/v1/slots?spy=true")
		var doc spied
		if err != nil || json.Unmarshal(body, &doc) != nil || !doc.Metrics.Available {
			r.violate(RuleCounts, "%s answers %d without its metrics: %.200s (%v)", p.worker, status, body, err)
			return
		}
		p.mu.Lock()
		t := p.tallies
		p.mu.Unlock()
		if t.Dropped > 0 {
			return
		}
		report.Counters++
		c := doc.Metrics.Claims
		counted := fmt.Sprint(c.Batches, c.Unavailable, c.Lost, c.Foreign)
		logged := fmt.Sprint(t.Batches, t.Targeted["unavailable"], t.Lost, t.Targeted["foreign_instance"])
		for kind, n := range doc.Metrics.Outcomes {
			if logs := t.Outcomes[kind[:max(0, len(kind)-len("_total"))]]; logs != n {
				r.violate(RuleCounts, "%s counted %s %d and logged %d", p.worker, kind, n, logs)
			}
		}
		if counted != logged {
			r.violate(RuleCounts, "%s counted batches, unavailable, lost and foreign %s and logged %s", p.worker,
				counted, logged)
		}
	})
}
