// Package daemon runs writers: it polls on a fixed cadence, answers on an ops listener, and stops without
// leaving anything behind.
//
//	ticks ──────▶ Poll   every interval, whatever else goes on
//	follow-ups ─▶ Poll   at once, while the writer says that a claim was full and there is room
//	ops ────────▶ RunTargeted, readiness
//
// # Cadence
//
// Ticks and follow-ups run beside each other, so that a follow-up that hangs in the database delays no tick.
// A new entry is a candidate at the next tick: there is no backoff while idle and no notification. After an
// error nothing is claimed until the next tick, and follow-ups stay off until a tick's poll succeeds. Each
// writer has ticks and follow-ups of its own; the ticks of several are spread over the interval. Readiness
// and health are those of the writer that is worst.
//
// # Failure
//
// An unexpected error or a panic of a poll is one ERROR record of codes and type names, and the loop goes on.
// A database that is down, at start or later, is such an error, once a poll. One thing ends the daemon: a
// schema that this build does not work with, met at start; polling on would not mend it.
//
// # Stop
//
// When the context of Run ends, nothing more is claimed, deliveries in flight have most of the grace period
// to end and be recorded, and everything else is given back. Run returns when no goroutine of it is left.
package daemon
