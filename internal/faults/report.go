package faults

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Report is what a run came to.
type Report struct {
	Seed      uint64
	Mutant    string
	Took      time.Duration // of the chaos and until everything was delivered
	Plan      Plan
	Faults    map[Kind]int
	Processes int // daemons that were started
	Unasked   int // daemons that ended by themselves
	Commands  int

	Entries    int // enqueued
	Booked     int // in the ledger
	Sends      int // requests of the ledger
	Again      int // requests beyond one an entry
	Refused    int // requests with a fencing token that had fallen
	Late       int // requests outside of their claim, all explained by who was stopped or delayed
	Claims     int
	Expired    int // rows taken over from expired claims
	Requeued   int
	Lost       int64 // outcomes and releases that a claim did not hold any more
	Compared   int   // processes whose counts were compared with the database
	Counters   int   // processes whose counters were compared with their log
	Recoveries []Recovery
	Retries    int // transactions that a producer repeated
	// Pending and Claim are the sizes of the tables that change, with their indexes, at the end; Memory is the
	// most that a daemon had. All in bytes.
	Pending, Claim, Memory int64

	Broken     map[Rule]int
	violations []violation
}

// Recovery is how a killed worker's claim was taken over.
type Recovery struct {
	AfterKill, AfterLease time.Duration
	// Undisturbed says that nothing else went wrong for the instance at that time.
	Undisturbed bool
}

// Violations has a line for each thing that was found, five of a rule at most.
func (r *Report) Violations() []string {
	lines := make([]string, len(r.violations))
	for i, v := range r.violations {
		lines[i] = string(v.rule) + ": " + v.text
	}
	return lines
}

// Found reports whether at least one of the rules was broken.
func (r *Report) Found(rules []Rule) bool {
	return slices.ContainsFunc(rules, func(rule Rule) bool { return r.Broken[rule] > 0 })
}

// String is for people.
func (r *Report) String() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("seed %d%s: %s", r.Seed, mutantText(r.Mutant), r.Took.Round(time.Second))
	total, kinds := 0, []string{}
	for _, kind := range slices.Sorted(maps.Keys(r.Faults)) {
		total += r.Faults[kind]
		kinds = append(kinds, fmt.Sprintf("%s %d", kind, r.Faults[kind]))
	}
	line("  faults      %d of %d kinds: %s", total, len(kinds), strings.Join(kinds, ", "))
	line("  processes   %d daemons started, of which %d ended by themselves; %d commands",
		r.Processes, r.Unasked, r.Commands)
	line("  entries     %d enqueued (%d transactions repeated), %d booked, %d requeued",
		r.Entries, r.Retries, r.Booked, r.Requeued)
	line("  sends       %d, of which %d again; %d refused for their fencing token; %d late by a stop or a delay",
		r.Sends, r.Again, r.Refused, r.Late)
	line("  claims      %d; %d rows taken over after expiry; %d times a claim was lost",
		r.Claims, r.Expired, r.Lost)
	line("  counts      %d processes compared with the database, %d with their own counters",
		r.Compared, r.Counters)
	line("  recovery    %s", r.recoveryText())
	const mib = 1 << 20
	line("  growth      ledger_pending %.1f MiB and ledger_claim %.1f MiB at the end; a daemon had %.0f MiB",
		float64(r.Pending)/mib, float64(r.Claim)/mib, float64(r.Memory)/mib)
	broken := 0
	for _, n := range r.Broken {
		broken += n
	}
	line("  violations  %d", broken)
	for _, v := range r.Violations() {
		line("    %s", v)
	}
	return b.String()
}

func mutantText(name string) string {
	if name == "" {
		return ""
	}
	return ", without " + name
}

func (r *Report) recoveryText() string {
	var kill, lease []time.Duration
	for _, x := range r.Recoveries {
		if x.Undisturbed {
			kill, lease = append(kill, x.AfterKill), append(lease, x.AfterLease)
		}
	}
	if len(kill) == 0 {
		return fmt.Sprintf("%d claims of killed daemons, none of them undisturbed", len(r.Recoveries))
	}
	slices.Sort(kill)
	slices.Sort(lease)
	ms := time.Millisecond
	return fmt.Sprintf("%d claims of killed daemons, %d of them with nothing else wrong: at most %s after "+
		"the kill, at most %s after the lease (median %s)",
		len(r.Recoveries), len(kill), kill[len(kill)-1].Round(ms),
		lease[len(lease)-1].Round(ms), lease[len(lease)/2].Round(ms))
}
