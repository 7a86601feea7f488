package pgstore

import (
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fourblocks2020/fencerow/internal/pgtest"
	"github.com/fourblocks2020/fencerow/internal/storetest"
)

// mutation takes one guard out of the SQL that the store sends. A statement is chosen by its name.
type mutation struct {
	queries []string
	pattern string
	with    string
}

// apply returns a rewriter of statements and a count of how often it changed one.
func (m mutation) apply() (func(string) string, *atomic.Int64) {
	var changed atomic.Int64
	expr := regexp.MustCompile(m.pattern)
	return func(sql string) string {
		for _, q := range m.queries {
			if strings.HasPrefix(sql, "-- name: "+q+" ") {
				if mutated := expr.ReplaceAllString(sql, m.with); mutated != sql {
					changed.Add(1)
					return mutated
				}
			}
		}
		return sql
	}, &changed
}

// Parameters stay in the text, since PostgreSQL refuses one whose type it cannot tell.
var mutants = map[string]mutation{
	"token ignored in outcome": {
		queries: []string{"ClaimLock", "ClaimRecord"}, pattern: `claim_token = (\$\d+::uuid)`, with: `${1} IS NOT NULL`,
	},
	"token ignored in release": {
		queries: []string{"ClaimLock", "ClaimRelease"}, pattern: `claim_token = (\$\d+::uuid)`, with: `${1} IS NOT NULL`,
	},
	"instance ignored in outcome": {
		queries: []string{"ClaimLock", "ClaimRecord"}, pattern: `\binstance_key = (\$\d+::text)`, with: `${1} IS NOT NULL`,
	},
	"instance ignored in release": {
		queries: []string{"ClaimLock", "ClaimRelease"}, pattern: `\binstance_key = (\$\d+::text)`, with: `${1} IS NOT NULL`,
	},
	"instance ignored in claim": {
		queries: []string{"ClaimDue", "ClaimBatch"}, pattern: `p\.instance_key = (\$\d+::text)`, with: `${1} IS NOT NULL`,
	},
	"instance ignored in list": {
		queries: []string{"PendingList"}, pattern: `[po]\.instance_key = (\$\d+::text)`, with: `${1} IS NOT NULL`,
	},
	"instance ignored in sum": {
		queries: []string{"PendingCashDelta"}, pattern: `p\.instance_key = (\$\d+::text)`, with: `${1} IS NOT NULL`,
	},
	"instance ignored in targeted claim": {
		queries: []string{"ClaimOne", "ClaimEntries"}, pattern: `(AND|WHERE) (p\.|o\.)?instance_key = (\$\d+::text)`,
		with: `${1} ${3} IS NOT NULL`,
	},
	"instance ignored in requeue": {
		queries: []string{"OutcomeRequeue"}, pattern: `instance_key = (\$\d+::text)`, with: `${1} IS NOT NULL`,
	},
	"instance ignored in counts": {
		queries: []string{"PendingCounts"}, pattern: `p\.instance_key = (\$\d+::text)`, with: `${1} IS NOT NULL`,
	},
	"instance ignored in prune": {
		queries: []string{"EntryPrune"}, pattern: `[oplk]\.instance_key = (\$\d+::text)`, with: `${1} IS NOT NULL`,
	},
	"expired lease not claimable": {
		queries: []string{"ClaimBatch"}, pattern: `lease_expires_at <= \(SELECT at FROM moment\)`,
		with: `lease_expires_at <= '-infinity'`,
	},
	"live lease claimable": {
		queries: []string{"ClaimBatch"}, pattern: `AND p\.outbox_id NOT IN \(SELECT h\.outbox_id FROM held h\)`, with: ``,
	},
	"live lease claimable by target": {
		queries: []string{"ClaimOne"}, pattern: `WHERE NOT EXISTS \(SELECT FROM holder\)`, with: `WHERE true`,
	},
	"an id the claim no longer holds accepted": {
		queries: []string{"ClaimRecord"}, pattern: `WHERE \(g\.outbox_id IN \(SELECT h\.outbox_id FROM held h\)\) IS TRUE`,
		with: `WHERE EXISTS (SELECT FROM claim)`,
	},
	"late outcome after reclaim applied": {
		queries: []string{"ClaimRecord"},
		pattern: `(?s)SELECT claim_epoch, outbox_ids\s+FROM fencerow\.ledger_claim\s+WHERE claim_token = (\$\d+::uuid) AND`,
		with:    `SELECT claim_epoch, outbox_ids FROM fencerow.ledger_claim WHERE ${1} IS NOT NULL AND`,
	},
	"lease kept after outcome": {
		queries: []string{"ClaimRecord"}, pattern: `AND (NOT )?EXISTS \(SELECT FROM remaining\)`, with: `AND false`,
	},
	"epoch lowered by requeue": {
		queries: []string{"OutcomeRequeue"}, pattern: `SELECT max\(o\.claim_epoch\)`, with: `SELECT 0 * max(o.claim_epoch)`,
	},
	"epoch lowered by release": {
		queries: []string{"ClaimRelease"}, pattern: `greatest\(p\.last_epoch, c\.claim_epoch\)`, with: `0 * c.claim_epoch`,
	},
	"epoch lowered by retry": {
		queries: []string{"ClaimRecord"}, pattern: `greatest\(p\.last_epoch, c\.claim_epoch\)`, with: `0 * c.claim_epoch`,
	},
	"epoch lowered by a clock stepped back": {
		queries: []string{"ClaimBatch"}, pattern: `1 \+ \(SELECT coalesce\(max\(c\.last_epoch\), 0\) FROM candidate c\)`, with: `1`,
	},
	"attempt not counted on reclaim": {
		queries: []string{"ClaimBatch"}, pattern: `attempt_count = least\(p\.attempt_count, 2147483646\) \+ 1`,
		with: `attempt_count = p.attempt_count`,
	},
	"suspect claimed with others": {
		queries: []string{"ClaimBatch"}, pattern: `>= 2 AS suspect`, with: `>= 1000 AS suspect`,
	},
	"hold ignored": {
		queries: []string{"InstanceLock"}, pattern: `CASE WHEN held_at IS NULL THEN instance_key ELSE '' END`, with: `instance_key`,
	},
	"snapshot written for a lost claim": {
		queries: []string{"ClaimRecord"},
		pattern: `(?s)JOIN finished f ON f\.outbox_id = s\.outbox_id\s+JOIN written w ON w\.outbox_id = s\.outbox_id\s+` +
			`WHERE w\.status = 'completed' AND f\.slot_id = s\.slot_id AND \(f\.currency IS NULL OR f\.currency = s\.currency\)`,
		with: ``,
	},
	"older snapshot written": {
		queries: []string{"ClaimRecord"}, pattern: `WHERE s\.ledger_version IS NULL OR s\.ledger_version < excluded\.ledger_version`,
		with: ``,
	},
	"skip resolved for a lost claim": {
		queries: []string{"ClaimRecord"},
		pattern: `(?s)SELECT w\.outbox_id\s+FROM written w\s+WHERE w\.status = 'completed' AND w\.outbox_id NOT IN`,
		with:    `SELECT w.outbox_id FROM given w WHERE w.outcome = 'completed' AND w.outbox_id NOT IN`,
	},
	"uncertainty dropped on release": {
		queries: []string{"ClaimRelease"}, pattern: `delivery_uncertain = p\.delivery_uncertain OR i\.uncertain`,
		with: `delivery_uncertain = i.uncertain AND NOT i.uncertain`,
	},
}

// The suite is worth what it rejects: each guard, taken out of the SQL, must make it fail.
func TestSuiteRejectsEachMutant(t *testing.T) {
	t.Parallel()
	for name, m := range mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := pgtest.NewDatabase(t, schema)
			rewrite, changed := m.apply()
			h := newHarness(t, database.DSN(), database.DSN(), func(s *Store) { s.texts.rewrite = rewrite })
			failures := storetest.Rejects(t, h)
			if changed.Load() == 0 {
				t.Fatal("the mutation matches no statement")
			}
			for _, f := range failures {
				t.Logf("rejected by %s: %s", f.Case, f.Message)
			}
		})
	}
}
