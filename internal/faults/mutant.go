package faults

// Mutant is a broken build of the product, and what the checker must say of it.
type Mutant struct {
	edits []edit
	// Rules are those of which at least one must be broken.
	Rules []Rule
	// Kinds are the faults that bring it to light.
	Kinds []Kind
}

const (
	claimQueries = "internal/db/claim.sql.go"
	claimBatch   = "ClaimBatch = `"
	claimRecord  = "ClaimRecord = `"
)

// Mutants are the broken builds that the harness must find, by name.
func Mutants() map[string]Mutant {
	return map[string]Mutant{
		// An outcome counts for whatever claim has the row, as if "the row is claimed" were enough.
		"no-token-check": {
			edits: []edit{{
				file: claimQueries, section: claimRecord, times: 3,
				pattern: `(c\.)?claim_token = \$2::uuid`,
				// $6 are the ids that come with a ledger reference, as all answers of the stub do.
				with: `$$2::uuid IS NOT NULL AND ${1}outbox_ids && $$6::bigint[]`,
			}},
			Rules: []Rule{RuleOutcomeWithoutSend, RuleSendOutsideHold, RuleTwoHolders, RuleHoldUnended},
			Kinds: []Kind{StopDaemon, LedgerHangs},
		},
		// The daemon's own clock decides what has expired and when a lease ends.
		"local-clock": {
			edits: []edit{
				{
					file: claimQueries, section: claimBatch, times: 1,
					pattern: `SELECT clock_timestamp\(\) AS at`, with: `SELECT $$9::timestamptz AS at`,
				},
				{
					file: claimQueries, times: 1,
					pattern: `QueryRow\(ctx, ClaimBatch,(\n\t\targ\.\w+,){8}\n`, with: "${0}\t\ttime.Now(),\n",
				},
			},
			Rules: []Rule{RuleTwoHolders},
			Kinds: []Kind{JumpClock, LedgerHangs},
		},
		// The outcome is recorded on the assumption that the delivery will be answered.
		"outcome-before-delivery": {
			edits: []edit{{
				file: "internal/writer/deliver.go", times: 1,
				pattern: `\n\ta := w\.ledger\.Deliver\(`,
				with: "\n\tw.store.RecordOutcomes(ctx, fencerow.RecordParams{\n" +
					"\t\tInstance: w.cfg.Instance, Token: b.claim.Token,\n" +
					"\t\tOutcomes: []fencerow.Outcome{{OutboxID: e.OutboxID, Kind: fencerow.OutcomeCompleted}},\n" +
					"\t})${0}",
			}},
			Rules: []Rule{RuleOutcomeWithoutSend, RuleNotBooked},
			Kinds: []Kind{KillDaemon, LedgerCutsBefore},
		},
		// Whoever takes over an expired row takes an attempt away instead of adding one.
		"attempt-lowered": {
			edits: []edit{{
				file: claimQueries, section: claimBatch, times: 1,
				pattern: `attempt_count = least\(p\.attempt_count, 2147483646\) \+ 1`,
				with:    `attempt_count = greatest(p.attempt_count - 1, 0)`,
			}},
			Rules: []Rule{RuleAttempts},
			Kinds: []Kind{KillDaemon, StopDaemon},
		},
	}
}
