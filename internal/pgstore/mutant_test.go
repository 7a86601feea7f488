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
	// rejectedBy are the claims of the suite that the guard stands for.
	rejectedBy []string
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
		rejectedBy: []string{"StaleTokenChangesNothing", "AnotherClaimsTokenDoesNotFit"},
		queries: []string{
			"ClaimLock",
			"ClaimRecord",
		},
		pattern: `claim_token = (\$\d+::uuid)`,
		with:    `${1} IS NOT NULL`,
	},
	"token ignored in release": {
		rejectedBy: []string{"StaleTokenChangesNothing"},
		queries: []string{
			"ClaimLock",
			"ClaimRelease",
		},
		pattern: `claim_token = (\$\d+::uuid)`,
		with:    `${1} IS NOT NULL`,
	},
	"instance ignored in outcome": {
		rejectedBy: []string{"ForeignTokenRecordsNothing"},
		queries: []string{
			"ClaimLock",
			"ClaimRecord",
		},
		pattern: `\binstance_key = (\$\d+::text)`,
		with:    `${1} IS NOT NULL`,
	},
	"instance ignored in release": {
		rejectedBy: []string{"ForeignTokenRecordsNothing"},
		queries: []string{
			"ClaimLock",
			"ClaimRelease",
		},
		pattern: `\binstance_key = (\$\d+::text)`,
		with:    `${1} IS NOT NULL`,
	},
	"instance ignored in claim": {
		rejectedBy: []string{"InstanceClaimsItsOwnRowsOnly"},
		queries: []string{
			"ClaimDue",
			"ClaimBatch",
			"ClaimEntries",
		},
		pattern: `[po]\.instance_key = (\$\d+::text)`,
		with:    `${1} IS NOT NULL`,
	},
	"instance ignored in list": {
		rejectedBy: []string{"InstanceListsItsOwnRowsOnly"},
		queries: []string{
			"PendingList",
		},
		pattern: `[po]\.instance_key = (\$\d+::text)`,
		with:    `${1} IS NOT NULL`,
	},
	"instance ignored in list of blocked": {
		rejectedBy: []string{"InstanceListsItsOwnBlockedOnly"},
		queries:    []string{"OutcomeBlocked"},
		pattern:    `[fo]\.instance_key = (\$\d+::text)`,
		with:       `${1} IS NOT NULL`,
	},
	"earlier life listed as blocked": {
		rejectedBy: []string{"BlockedListHoldsWhatIsBlockedNow", "BlockedListTakesOneStatus"},
		queries:    []string{"OutcomeBlocked"}, pattern: `AND later\.life > f\.life`, with: `AND false`,
	},
	"requeued entry listed as blocked": {
		rejectedBy: []string{"BlockedListHoldsWhatIsBlockedNow"},
		queries:    []string{"OutcomeBlocked"},
		pattern:    `WHERE p\.outbox_id = f\.outbox_id AND`,
		with:       `WHERE false AND`,
	},
	"instance ignored in sum": {
		rejectedBy: []string{"InstanceSumsItsOwnRowsOnly"},
		queries: []string{
			"PendingCashDelta",
		},
		pattern: `p\.instance_key = (\$\d+::text)`,
		with:    `${1} IS NOT NULL`,
	},
	"instance ignored in targeted claim": {
		rejectedBy: []string{"TargetedClaimOfAForeignEntryIsRefused"},
		queries: []string{
			"ClaimOne",
			"ClaimEntries",
		},
		pattern: `(AND|WHERE) (p\.|o\.)?instance_key = (\$\d+::text)`,
		with:    `${1} ${3} IS NOT NULL`,
	},
	"instance ignored in requeue": {
		rejectedBy: []string{"RequeueOfAForeignEntryIsRefused"},
		queries:    []string{"OutcomeRequeue"}, pattern: `instance_key = (\$\d+::text)`, with: `${1} IS NOT NULL`,
	},
	"instance ignored in counts": {
		rejectedBy: []string{"InstanceCountsAndShowsItsOwnOnly"},
		queries:    []string{"PendingCounts"}, pattern: `p\.instance_key = (\$\d+::text)`, with: `${1} IS NOT NULL`,
	},
	"instance ignored in prune": {
		rejectedBy: []string{"PruneLeavesForeignEntries"},
		queries: []string{
			"EntryPrune",
		},
		pattern: `[oplk]\.instance_key = (\$\d+::text)`,
		with:    `${1} IS NOT NULL`,
	},
	"expired lease not claimable": {
		rejectedBy: []string{"CrashedHoldersRowsComeBackAfterExpiryAndNotBefore"},
		queries:    []string{"ClaimBatch"}, pattern: `lease_expires_at <= \(SELECT at FROM moment\)`,
		with: `lease_expires_at <= '-infinity'`,
	},
	"live lease claimable": {
		rejectedBy: []string{"LeasedRowIsClaimedByNobodyElse"},
		queries:    []string{"ClaimDue", "ClaimBatch"},
		pattern: `AND p\.outbox_id (NOT IN \(SELECT h\.outbox_id FROM held h\)|` +
			`<> ALL \(ARRAY\(SELECT h\.outbox_id FROM held h\)\))`,
		with: ``,
	},
	"live lease claimable by target": {
		rejectedBy: []string{"LeasedRowIsClaimedByNobodyElse"},
		queries:    []string{"ClaimOne"}, pattern: `WHERE NOT EXISTS \(SELECT FROM holder\)`, with: `WHERE true`,
	},
	"an id the claim no longer holds accepted": {
		rejectedBy: []string{"RowThatTheClaimLetGoIsLost", "AnotherClaimsTokenDoesNotFit"},
		queries: []string{
			"ClaimRecord",
		},
		pattern: `\(p\.outbox_id IN \(SELECT h\.outbox_id FROM held h\)\) IS TRUE`,
		with:    `EXISTS (SELECT FROM claim)`,
	},
	"late outcome after reclaim applied": {
		rejectedBy: []string{"StaleTokenChangesNothing"},
		queries:    []string{"ClaimRecord"},
		pattern: `(?s)SELECT claim_epoch, outbox_ids\s+FROM fencerow\.ledger_claim\s+` +
			`WHERE claim_token = (\$\d+::uuid) AND`,
		with: `SELECT claim_epoch, outbox_ids FROM fencerow.ledger_claim WHERE ${1} IS NOT NULL AND`,
	},
	"lease kept after outcome": {
		rejectedBy: []string{"TerminalOutcomeEndsLifeAndLease"},
		queries: []string{
			"ClaimRecord",
		},
		pattern: `AND (NOT )?EXISTS \(SELECT FROM remaining\)`,
		with:    `AND false`,
	},
	"epoch lowered by requeue": {
		rejectedBy: []string{"EpochSurvivesRequeue", "ZombieOfAnEarlierLifeIsLost"},
		queries: []string{
			"OutcomeRequeue",
		},
		pattern: `SELECT max\(o\.claim_epoch\)`,
		with:    `SELECT 0 * max(o.claim_epoch)`,
	},
	"epoch lowered by release": {
		rejectedBy: []string{"EpochSurvivesRelease"},
		queries: []string{
			"ClaimRelease",
		},
		pattern: `greatest\(p\.last_epoch, c\.claim_epoch\)`,
		with:    `0 * c.claim_epoch`,
	},
	"epoch lowered by retry": {
		rejectedBy: []string{"EpochSurvivesRetry"},
		queries: []string{
			"ClaimRecord",
		},
		pattern: `greatest\(p\.last_epoch, c\.claim_epoch\)`,
		with:    `0 * c.claim_epoch`,
	},
	"epoch lowered by a clock stepped back": {
		rejectedBy: []string{"EpochSurvivesASteppedBackClock"},
		queries: []string{
			"ClaimBatch",
		},
		pattern: `1 \+ s\.last_epoch`,
		with:    `1`,
	},
	"epoch below that of a freed row": {
		rejectedBy: []string{"EpochOfAFreedRowThatIsNotPickedCountsToo"},
		queries: []string{
			"ClaimBatch",
		},
		pattern: `1 \+ \(SELECT coalesce\(max\(k\.last_epoch\), 0\) FROM marked k\)`,
		with:    `1`,
	},
	"attempt not counted on reclaim": {
		rejectedBy: []string{"ExpiryIsOneMoreAttempt"},
		queries:    []string{"ClaimBatch"}, pattern: `attempt_count = least\(p\.attempt_count, 2147483646\) \+ 1`,
		with: `attempt_count = p.attempt_count`,
	},
	"freed rows in any order": {
		rejectedBy: []string{"FreedRowsAreClaimedInTheirOrder"},
		queries:    []string{"ClaimBatch"},
		pattern:    `WHERE EXISTS \(SELECT FROM freed\)\s+ORDER BY c\.next_retry_at, c\.outbox_id`,
		with:       `WHERE EXISTS (SELECT FROM freed)`,
	},
	"suspect claimed with others": {
		rejectedBy: []string{"SuspectAtTheFrontIsClaimedAlone", "SuspectBehindOthersEndsTheClaimBeforeIt"},
		queries:    []string{"ClaimBatch"}, pattern: `c\.expiry_count >= 2\s`, with: `c.expiry_count >= 1000 `,
	},
	"suspect at the front never claimed": {
		rejectedBy: []string{"SuspectAtTheFrontIsClaimedAlone"},
		queries:    []string{"ClaimBatch"},
		pattern:    `OR f\.outbox_id = \(SELECT`, with: `OR false AND f.outbox_id = (SELECT`,
	},
	"hold ignored": {
		rejectedBy: []string{"HeldInstanceClaimsNothing"},
		queries: []string{
			"InstanceLock",
		},
		pattern: `CASE WHEN held_at IS NULL AND`,
		with:    `CASE WHEN`,
	},
	"snapshot written for a lost claim": {
		rejectedBy: []string{"StaleTokenChangesNothing", "SecondTerminalOutcomeIsLost"},
		queries:    []string{"ClaimRecord"},
		pattern: `(?s)JOIN finished f ON f\.outbox_id = s\.outbox_id` +
			`\s+WHERE \(s\.outbox_id IN \(SELECT w\.outbox_id FROM written w ` +
			`WHERE w\.status = 'completed'\)\) IS TRUE` +
			`\s+AND f\.slot_id = s\.slot_id` +
			`\s+AND \(f\.currency IS NULL OR f\.currency = s\.currency\)`,
		with: ``,
	},
	"older snapshot written": {
		rejectedBy: []string{"OlderSnapshotIsNotWritten"},
		queries: []string{
			"ClaimRecord",
		},
		pattern: ` AND \(k\.ledger_version IS NULL OR k\.ledger_version < excluded\.ledger_version\)`,
		with:    ``,
	},
	"skip resolved for a lost claim": {
		rejectedBy: []string{"SkipOfALostItemStaysOpen"},
		queries:    []string{"ClaimRecord"},
		pattern: `(?s)FROM written w(\s+JOIN fencerow\.ledger_skip k ON k\.outbox_id = w\.outbox_id AND ` +
			`k\.resolved_at IS NULL\s+WHERE) w\.status = 'completed'`,
		with: `FROM (SELECT outbox_id FROM fencerow.ledger_skip) w${1} true`,
	},
	"uncertainty dropped on release": {
		rejectedBy: []string{"ReleaseSaysOfEachRowWhetherBytesWereSent", "ReleaseOfAllMarksAll"},
		queries:    []string{"ClaimRelease"}, pattern: `delivery_uncertain = p\.delivery_uncertain OR i\.uncertain`,
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
			failures := storetest.Rejects(t, h, m.rejectedBy...)
			if changed.Load() == 0 {
				t.Fatal("the mutation matches no statement")
			}
			for _, f := range failures {
				t.Logf("rejected by %s: %s", f.Case, f.Message)
			}
		})
	}
}
