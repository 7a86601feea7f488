package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Kind is a way to go wrong. The vocabulary is closed.
type Kind string

// The kinds of faults. A link is the way from one daemon to the database or to the ledger.
const (
	KillDaemon        Kind = "kill_daemon"        // SIGKILL, and a new one a little later
	StopDaemon        Kind = "stop_daemon"        // SIGSTOP past the lease, then SIGCONT
	DeployDaemon      Kind = "deploy_daemon"      // SIGTERM, and a new one at once
	JumpClock         Kind = "jump_clock"         // the wall clock of the daemon's host is set ahead or back
	CutDatabaseLink   Kind = "cut_database_link"  // connections reset, new ones refused
	DelayDatabaseLink Kind = "delay_database"     // each answer late
	StallDatabaseLink Kind = "stall_database"     // nothing passes, nothing ends
	LoseAnswers       Kind = "lose_answers"       // the server has done it, the daemon is not told
	CutLedgerLink     Kind = "cut_ledger_link"    // connections reset, new ones refused
	DelayLedgerLink   Kind = "delay_ledger"       // each request late
	StallLedgerLink   Kind = "stall_ledger"       // nothing passes, nothing ends
	TerminateBackends Kind = "terminate_backends" // pg_terminate_backend of every session of the daemons
	RestartDatabase   Kind = "restart_database"   // an immediate shutdown, which is a crash, and a start
	TurnReadOnly      Kind = "turn_read_only"     // 25006, as after a failover to a standby
	LimitConnections  Kind = "limit_connections"  // 53300, too many connections for the role
	FillDisk          Kind = "fill_disk"          // 53100 from every write
	HoldLock          Kind = "hold_lock"          // another transaction locks a table or an instance
	ExhaustPool       Kind = "exhaust_pool"       // more requests wait than there are connections
	HoldSnapshot      Kind = "hold_snapshot"      // a long transaction keeps the xmin horizon
	LedgerCutsBefore  Kind = "ledger_cuts_before" // the ledger cuts the connection and has booked nothing
	LedgerCutsAfter   Kind = "ledger_cuts_after"  // the ledger books, then cuts the connection
	LedgerFails       Kind = "ledger_fails"       // 500, 503 and 429
	LedgerHangs       Kind = "ledger_hangs"       // books, and answers after the daemon has given up
	RotateToken       Kind = "rotate_token"       // the ledger wants another token, which the file has later
)

// what a fault occupies: two faults never occupy the same thing at the same time.
type scope int

const (
	ofProcess scope = iota
	ofDatabaseLink
	ofLedgerLink
	ofServer
	ofDisk
	ofLocks
	ofSnapshot
	ofLedger
)

// spec says how a kind is planned. Durations are in leases.
type spec struct {
	kind     Kind
	scope    scope
	from, to float64
}

var specs = []spec{
	{KillDaemon, ofProcess, 0, 0.6},
	{StopDaemon, ofProcess, 1.05, 1.8},
	{DeployDaemon, ofProcess, 0, 0},
	{JumpClock, ofProcess, 0.5, 2},
	{CutDatabaseLink, ofDatabaseLink, 0.2, 1.4},
	{DelayDatabaseLink, ofDatabaseLink, 0.3, 1.5},
	{StallDatabaseLink, ofDatabaseLink, 0.3, 1.5},
	{LoseAnswers, ofDatabaseLink, 0.3, 1},
	{CutLedgerLink, ofLedgerLink, 0.2, 1.4},
	{DelayLedgerLink, ofLedgerLink, 0.3, 1.2},
	{StallLedgerLink, ofLedgerLink, 0.3, 1.2},
	{TerminateBackends, ofServer, 0, 0},
	{RestartDatabase, ofServer, 0, 0.3},
	{TurnReadOnly, ofServer, 0.3, 0.9},
	{LimitConnections, ofServer, 0.3, 0.9},
	{FillDisk, ofDisk, 0.3, 1},
	{HoldLock, ofLocks, 0.3, 1.2},
	{ExhaustPool, ofLocks, 0.4, 1},
	{HoldSnapshot, ofSnapshot, 2, 10},
	{LedgerCutsBefore, ofLedger, 0.4, 1},
	{LedgerCutsAfter, ofLedger, 0.4, 1},
	{LedgerFails, ofLedger, 0.4, 1},
	{LedgerHangs, ofLedger, 0.4, 1},
	{RotateToken, ofLedger, 0.2, 0.6},
}

// Kinds lists every kind.
func Kinds() []Kind {
	all := make([]Kind, len(specs))
	for i, s := range specs {
		all[i] = s.kind
	}
	return all
}

// Fault is one thing that goes wrong.
type Fault struct {
	At, For time.Duration
	Kind    Kind
	// Instance and Daemon number what it befalls, from 0; -1 where it is nobody's alone.
	Instance, Daemon int
	// Strength is from 0 to 1: how far a clock jumps, how many requests fail, which table is locked.
	Strength float64
}

// String is one line.
func (f Fault) String() string {
	target := ""
	if f.Instance >= 0 {
		target = fmt.Sprintf(" %s", instanceKey(f.Instance))
		if f.Daemon >= 0 {
			target += fmt.Sprintf("/%d", f.Daemon)
		}
	}
	return fmt.Sprintf("%8.2fs %-18s%s for %.2fs, strength %.2f",
		f.At.Seconds(), f.Kind, target, f.For.Seconds(), f.Strength)
}

// Plan is the faults of a run, by time.
type Plan []Fault

// String has a line for each fault.
func (p Plan) String() string {
	var b strings.Builder
	for _, f := range p {
		fmt.Fprintln(&b, f)
	}
	return b.String()
}

// NewPlan is a pure function of its argument. Each kind comes once before any comes twice.
func NewPlan(c Config) Plan {
	random := rand.New(rand.NewPCG(c.Seed, 0x66617578)) //nolint:gosec // a seed must give the same plan again
	var chosen []spec
	for _, s := range specs {
		if len(c.Kinds) == 0 || slices.Contains(c.Kinds, s.kind) {
			chosen = append(chosen, s)
		}
	}
	busy := map[[3]int]time.Duration{} // what is occupied, and until when
	var plan Plan
	at := c.Every / 2
	for len(chosen) > 0 && at < c.Duration {
		for _, i := range random.Perm(len(chosen)) {
			f := Fault{At: at, Kind: chosen[i].kind, Instance: -1, Daemon: -1, Strength: random.Float64()}
			leases := chosen[i].from + (chosen[i].to-chosen[i].from)*random.Float64()
			f.For = min(time.Duration(leases*float64(c.Lease)), c.Duration/3)
			f.Instance, f.Daemon = target(random, chosen[i].scope, c)
			at += time.Duration((0.5 + random.Float64()) * float64(c.Every))
			place := [3]int{int(chosen[i].scope), f.Instance, f.Daemon}
			f.At = max(f.At, busy[place])
			if f.At+f.For >= c.Duration {
				continue
			}
			busy[place] = f.At + f.For + c.Interval
			plan = append(plan, f)
		}
	}
	slices.SortStableFunc(plan, func(a, b Fault) int { return int(a.At - b.At) })
	return plan
}

// target picks what a fault befalls, by as many random numbers whatever the scope is.
func target(random *rand.Rand, s scope, c Config) (instance, daemon int) {
	instance, daemon = random.IntN(c.Instances), random.IntN(c.Daemons)
	switch s {
	case ofProcess, ofDatabaseLink, ofLedgerLink:
		return instance, daemon
	case ofLocks:
		return instance, -1
	case ofServer, ofDisk, ofSnapshot, ofLedger:
	}
	return -1, -1
}
