// Package outbox enqueues ledger entries in a service's own transaction, so that the entry exists if and only
// if the service's data does.
//
//	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//		if _, err := tx.Exec(ctx, `INSERT INTO fill ...`); err != nil {
//			return err
//		}
//		_, err := outbox.Enqueue(ctx, tx, "desk-1", entry)
//		return err
//	})
//
// Once the transaction has committed, the daemon of that instance delivers the entry at its next poll.
// Services in other languages call the SQL functions fencerow.try_enqueue and fencerow.enqueue_many, which
// mean the same, or fencerow.enqueue, of which a conflict is an error.
//
// The package needs the schema of its own release or a later one: migrate before a service that is built with
// it is deployed.
//
// # Errors and the transaction
//
// Input that breaks a rule is a [*fencerow.InputError]; it is found before anything is sent, and the
// transaction goes on. So does it after a conflict: the database answers it as a result, not as an error.
// After any other error PostgreSQL has aborted the transaction, and all that is left to do with it is to roll
// it back; where a part of it should survive, open a savepoint (tx.Begin) around the enqueue. These errors
// are codes and never show what the database said: see the sentinels of package fencerow.
//
// # Duplicates and isolation
//
// Under READ COMMITTED, PostgreSQL's default, an enqueue of a key that another transaction is just enqueueing
// waits for that transaction's end, and then is a duplicate or a conflict if it committed, and inserted if it
// did not.
//
// Under REPEATABLE READ and SERIALIZABLE a transaction cannot see what committed after its first statement. A
// concurrent duplicate is then [fencerow.ErrStoreConflict], a serialization failure: roll back and run the
// whole transaction again, as such transactions must be prepared to in any case. The second run sees the
// duplicate.
//
// Two transactions that each enqueue several entries with the same keys in different order can deadlock;
// PostgreSQL ends one of them, which is ErrStoreConflict too. [EnqueueMany] enqueues in the order of the keys
// and does not deadlock with itself.
package outbox
