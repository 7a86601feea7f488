// Package writer claims entries, delivers them to a ledger and records what the ledger said.
//
// There is one path for batch, targeted and backfill work:
//
//	Poll ──ClaimBatch/ClaimOne──▶ batch ──▶ queue ──▶ delivery workers (bounded, shared by all claims)
//	                                │                     │ outcome
//	                                └──── recorder ◀──────┘   one for each claim: RecordOutcomes, Release
//
// A poll never waits for the deliveries of an earlier one; it claims what fits beside the rows in flight. The
// recorder of a claim writes whatever has arrived when it is free as one group. A row of a claim ends in
// exactly one of: recorded, released, lost, or abandoned when the store could not be reached while the claim
// could be trusted (its lease then expires, and the row comes back marked uncertain).
//
// Locks: Writer.mu may be held while batch.mu or health.mu is taken, never the other way round; the latter
// two are never held together. No lock is held across a call of the store or the ledger. The observer is
// called under health.mu only, for a hold that begins or ends.
package writer
