// Package slots answers what an instance's strategy slots are: the ledger's last snapshot of each, the cash
// that is still on its way, and the skips that are open. For an operator ("spy") it adds the counters of the
// process and the age of the oldest due row.
//
// One [Builder] makes the answer, as one line of JSON, whatever way the question came: over NATS, on the ops
// listener, or by `fencerow slots`. The same state is the same bytes on each.
package slots
