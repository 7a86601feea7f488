// Package fencerow is a durable, lease-fenced ledger outbox.
//
// A trading service commits a ledger entry in the same transaction as its own data. A daemon claims entries,
// delivers them to an external ledger over HTTP, and records what the ledger said. Several daemons share one
// PostgreSQL. Each entry has one immutable owner (its instance key), each claim is a bounded lease, and each
// outcome is a compare-and-set on the claim it belongs to.
//
//	producer tx ──enqueue──▶ ledger_outbox + ledger_pending
//	                              │
//	        ┌──── ClaimBatch ─────┘   one row in ledger_claim: token, epoch, lease, the ids it holds
//	        ▼
//	     worker ──Deliver──▶ ledger     Idempotency-Key, Fencerow-Fencing-Token = claim epoch
//	        │
//	        └── RecordOutcomes ──▶ applied: ledger_outcome (finished) or ledger_pending (retry later)
//	                           └─▶ claim lost: nothing changes, the worker is told which row and why
//
// This package holds the protocol and its types; it depends on the standard library and a decimal type only.
// Two stores implement [Store] (internal/pgstore on PostgreSQL, internal/memstore in memory) and pass one
// conformance suite (internal/storetest).
//
// # Invariants
//
// The code, the tests and docs/protocol.md refer to these by number.
//
//   - I1 Owner. An entry's instance key is set once, at enqueue, is never empty and never changes. A missing
//     or malformed key is refused before any connection is opened or any row is written.
//   - I2 Isolation. Every statement that reads or writes rows carries the caller's instance key. Foreign rows
//     and legacy rows (no instance key) are not claimed, counted, listed, summed, changed or resolved.
//   - I3 One holder. A row under an active lease is claimed by nobody else, as far as the claim's commit
//     survived and the database's clock does not jump ahead.
//   - I4 Fence. An outcome, a release or a resolution takes effect only if the very claim it belongs to (its
//     token) still stands and still holds that row. Otherwise the answer is a typed claim lost and nothing
//     changes: not the row, not its lease, not a counter, not a skip, and no success is logged.
//   - I5 Recovery. A crashed holder's row is claimable by any worker of the same instance once its lease has
//     expired, and not before. There is no leader and no sweeper: the claim statement itself takes expired
//     rows.
//   - I6 Release on outcome. Recording an outcome ends the lease on that row in the same transaction.
//   - I7 No double terminal. A row gets at most one terminal outcome per life; a second one is claim lost.
//   - I8 The fence only rises. For one row, each claim's epoch is greater than that of every earlier claim
//     that survived: across release, retry, requeue, restart and a clock stepped back. After a failover that
//     lost the last commits the random token is still the fence, and the epoch rises as soon as the
//     database's clock has passed the lost one.
//   - I9 Same bytes. The payload sent is byte for byte the payload enqueued, on every attempt.
//   - I10 Silence. No credential, account identifier, token, password, DSN, payload, provider text or raw
//     error text reaches a log, a metric, an alert, a status answer or a database column other than the
//     payload's own. Only the instance key, codes from closed vocabularies, counts and correlation ids do.
//   - I11 No promise of order. Entries are claimed by due time, but deliveries overlap and retries wait. A
//     producer that needs order puts a sequence number into the payload.
//   - I12 Two stores, one meaning. The memory store and the PostgreSQL store answer every sequence of calls
//     alike.
//
// # Authority and time
//
// The database decides who holds a row: its clock decides what is due and what has expired, and only
// durations cross the wire. A worker never trusts its own idea of a lease for writing; for sending it uses a
// trust window that ends safely before the lease can:
//
//	start a delivery only while
//	    now + delivery timeout + margin < (time before the claim was requested) + lease
//
// measured by the later of the monotonic and the wall clock. A worker that is wrong about its lease (stopped,
// suspended, partitioned) is refused by the token when it records, and by a ledger that looks at the fencing
// token when it sends.
//
// # What is promised
//
// At least once, with one stable idempotency key and identical bytes on every attempt: a ledger that honours
// the key books each entry exactly once. Without that, an answer lost on the wire can lead to a second
// booking; no outbox can prevent it.
package fencerow
