// Package faults runs the product under everything that goes wrong at night, and checks afterwards that its
// promise held: several instances with several daemons each, producers, an operator, one PostgreSQL and the
// stub ledger, while processes are killed and stopped, connections cut and delayed, clocks moved, the server
// crashed, its disk filled, its rows locked.
//
// What goes wrong when is a [Plan], a pure function of a seed: `make faults SEED=7` twice runs the same plan
// twice. The interleaving of processes is the machine's own, so that a seed replays the faults and not every
// microsecond between them.
//
// # Evidence
//
// The product is not asked how it went. The checker reads what others know:
//
//   - the journal of the ledger: every request with its times, fencing token, attempt and digest;
//   - an audit in the database, written by triggers: every claim that was made, by the server's clock, and
//     how each row left it;
//   - the entries as the producers committed them, which are a function of their number;
//   - the log of every process.
//
// # The clock of a host
//
// The programs are built from the sources as they are, with one lie told beneath them: package time of the
// standard library is overlaid (go build -overlay), so that the wall clock of a process is off by what a file
// says. Its monotonic clock goes on, as it does when the clock of a host is set. The same mechanism builds
// the broken programs that the harness must find; see [Mutants].
package faults
