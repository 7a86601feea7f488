// Command bench measures fencerow beside other queues on PostgreSQL, on one private server, in one run.
//
// Each system does the same work in a database of its own, one system after the other, in several rounds; the
// order turns with each round, so that no system always runs first. Before each measurement the tables are
// vacuumed and a checkpoint is made. Rates are medians over the rounds; a ratio is the median of the rounds'
// own ratios. What a drain says it did is counted in the database, else the run fails.
//
// docs/performance.md says how to run it and how to read it.
package main
