package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
)

// hold is a row under a claim, from the moment that the claim was made.
type hold struct {
	row        int64
	epoch      int64
	instance   string
	worker     string
	made, ends time.Time
}

// letGo says how an unfinished row left a claim.
type letGo struct {
	row           int64
	epoch         int64
	how           string
	before, after int // attempts
	at            time.Time
}

// outcome is a finished life.
type outcome struct {
	row      int64
	life     int
	status   string
	kind     string
	reason   string
	epoch    int64
	attempts int
	ref      string
	at       time.Time
}

// story is all that is known of one entry.
type story struct {
	row          int64
	instance, id string
	payload      string
	pending      bool
	holds        []hold
	lettings     []letGo
	outcomes     []outcome
	sends        []ledgerstub.Record
	booking      *ledgerstub.Booking
}

// witness looks at entries one by one.
type witness struct {
	r     *run
	sends map[string][]ledgerstub.Record // by idempotency key, by arrival
	// byPlace are the happenings that befell a daemon, everywhere those that befell all.
	byPlace    map[string][]Happening
	everywhere []Happening
	late       int
	expired    int
	booked     int
	refused    int
	seen       []int // entries seen of each instance
}

func newWitness(r *run) *witness {
	w := &witness{
		r: r, sends: map[string][]ledgerstub.Record{}, byPlace: map[string][]Happening{},
		seen: make([]int, r.cfg.Instances),
	}
	for _, h := range r.happenings {
		if h.Place == "" {
			w.everywhere = append(w.everywhere, h)
		} else {
			w.byPlace[h.Place] = append(w.byPlace[h.Place], h)
		}
	}
	journal := r.ledger.stub.Journal()
	for _, x := range journal {
		if x.Verdict == ledgerstub.VerdictStale {
			w.refused++
		}
	}
	slices.SortStableFunc(journal, func(a, b ledgerstub.Record) int { return strings.Compare(a.Key, b.Key) })
	for from := 0; from < len(journal); {
		to := from
		for to < len(journal) && journal[to].Key == journal[from].Key {
			to++
		}
		w.sends[journal[from].Key] = journal[from:to:to]
		from = to
	}
	return w
}

// touched reports whether one of the kinds befell a worker between two moments.
func (w *witness) touched(worker string, from, to time.Time, kinds ...Kind) bool {
	hit := func(h Happening) bool {
		return !h.From.After(to) && !h.To.Before(from) && slices.Contains(kinds, h.Kind)
	}
	return slices.ContainsFunc(w.byPlace[place(worker)], hit) || slices.ContainsFunc(w.everywhere, hit)
}

// stream reads rows in order, one at a time, with a look at the next.
type stream[T any] struct {
	rows pgx.Rows
	scan func(pgx.Rows, *T) error
	id   func(*T) int64
	next T
	more bool
	err  error
}

func open[T any](
	ctx context.Context, pool *pgxpool.Pool, id func(*T) int64, scan func(pgx.Rows, *T) error, query string,
) (*stream[T], error) {
	rows, err := pool.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	s := &stream[T]{rows: rows, scan: scan, id: id}
	s.advance()
	return s, s.err
}

func (s *stream[T]) advance() {
	var next T
	s.more = s.rows.Next()
	if s.more {
		s.err = errors.Join(s.err, s.scan(s.rows, &next))
	} else {
		s.err = errors.Join(s.err, s.rows.Err())
	}
	s.next = next
}

// of takes the rows that belong to an entry; those of earlier ids have none.
func (s *stream[T]) of(row int64) []T {
	var taken []T
	for s.more && s.err == nil && s.id(&s.next) <= row {
		if s.id(&s.next) == row {
			taken = append(taken, s.next)
		}
		s.advance()
	}
	return taken
}

const notForeign = `instance_key <> '` + foreignKey + `'`

const (
	entriesSQL = `
SELECT o.outbox_id, o.instance_key, o.correlation_id, o.payload::text, p.outbox_id IS NOT NULL
FROM fencerow.ledger_outbox o
LEFT JOIN fencerow.ledger_pending p ON p.outbox_id = o.outbox_id
WHERE o.` + notForeign + `
ORDER BY o.outbox_id`
	holdsSQL = `
SELECT u.outbox_id, c.claim_epoch, c.instance_key, c.claimed_by, c.made_at, c.made_at + c.lease
FROM audit.claim c, unnest(c.outbox_ids) AS u (outbox_id)
ORDER BY u.outbox_id, c.made_at`
	lettingsSQL = `
SELECT outbox_id, claim_epoch, how, attempts_before, attempts_after, at
FROM audit.let_go
ORDER BY outbox_id, at`
	outcomesSQL = `
SELECT
    outbox_id, life, status, outcome, coalesce(reason, ''), claim_epoch, attempt_count,
    coalesce(ledger_ref, ''), outcome_at
FROM fencerow.ledger_outcome
WHERE ` + notForeign + `
ORDER BY outbox_id, life`
)

// checkEntries reads everything in the order of the entries, and looks at each.
func (w *witness) checkEntries(ctx context.Context, pool *pgxpool.Pool, report *Report) error {
	entries, err := open(ctx, pool, func(s *story) int64 { return s.row }, func(rows pgx.Rows, s *story) error {
		return rows.Scan(&s.row, &s.instance, &s.id, &s.payload, &s.pending)
	}, entriesSQL)
	if err != nil {
		return err
	}
	defer entries.rows.Close()
	holds, err := open(ctx, pool, func(h *hold) int64 { return h.row }, func(rows pgx.Rows, h *hold) error {
		return rows.Scan(&h.row, &h.epoch, &h.instance, &h.worker, &h.made, &h.ends)
	}, holdsSQL)
	if err != nil {
		return err
	}
	defer holds.rows.Close()
	lettings, err := open(ctx, pool, func(l *letGo) int64 { return l.row }, func(rows pgx.Rows, l *letGo) error {
		return rows.Scan(&l.row, &l.epoch, &l.how, &l.before, &l.after, &l.at)
	}, lettingsSQL)
	if err != nil {
		return err
	}
	defer lettings.rows.Close()
	finished := func(o *outcome) int64 { return o.row }
	outcomes, err := open(ctx, pool, finished, func(rows pgx.Rows, o *outcome) error {
		return rows.Scan(&o.row, &o.life, &o.status, &o.kind, &o.reason, &o.epoch, &o.attempts, &o.ref, &o.at)
	}, outcomesSQL)
	if err != nil {
		return err
	}
	defer outcomes.rows.Close()
	for ; entries.more && entries.err == nil; entries.advance() {
		s := entries.next
		s.holds, s.lettings, s.outcomes = holds.of(s.row), lettings.of(s.row), outcomes.of(s.row)
		key := s.instance + ":" + s.id
		s.sends = w.sends[key]
		if b, ok := w.r.ledger.stub.Booking(key); ok {
			s.booking = &b
		}
		report.Entries++
		report.Sends += len(s.sends)
		report.Again += max(0, len(s.sends)-1)
		w.look(&s)
		delete(w.sends, key)
	}
	for key := range w.sends {
		w.r.violate(RuleNotBooked, "the ledger was sent %s, which is no entry", key)
	}
	for i, n := range w.seen {
		if want := int(w.r.enqueued[i].Load()); n != want {
			w.r.violate(RuleEnqueue, "%s committed %d entries, and %d are there", instanceKey(i), want, n)
		}
	}
	report.Booked, report.Refused, report.Late, report.Expired = w.booked, w.refused, w.late, w.expired
	return errors.Join(entries.err, holds.err, lettings.err, outcomes.err)
}

// look checks one entry.
func (w *witness) look(s *story) {
	n, c, ok := numberOf(s.id)
	instance := slices.IndexFunc(w.r.daemons, func(ds []*daemon) bool {
		return instanceKey(ds[0].instance) == s.instance
	})
	if !ok || instance < 0 {
		w.r.violate(RuleEnqueue, "%s of %s is there, and was never committed", s.id, s.instance)
		return
	}
	w.seen[instance]++
	e := numbered(s.instance, n, w.r.special)
	if e.id() != s.id || e.class != c || s.payload != e.payload() || n >= int(w.r.enqueued[instance].Load()) {
		w.r.violate(RuleEnqueue, "%s of %s is not as it was enqueued", s.id, s.instance)
		return
	}
	w.checkEnd(s, e)
	w.checkHolds(s)
	w.checkSends(s)
}

func (s *story) String() string { return fmt.Sprintf("%s of %s", s.id, s.instance) }

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }

// describe tells the whole story, for a person who looks into a violation.
func (s *story) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, pending %t", s, s.pending)
	for _, h := range s.holds {
		fmt.Fprintf(&b, "\n      claimed  %s to %s by %s, epoch %d",
			clock(h.made), clock(h.ends), h.worker, h.epoch)
	}
	for _, l := range s.lettings {
		fmt.Fprintf(&b, "\n      %-8s %s, epoch %d, attempts %d to %d",
			l.how, clock(l.at), l.epoch, l.before, l.after)
	}
	for _, x := range s.sends {
		fmt.Fprintf(&b, "\n      sent     %s to %s, epoch %d, attempt %d: %s %d %s",
			clock(x.ArrivedAt), clock(x.EndedAt), x.Epoch, x.Attempt, x.Verdict, x.Status, x.Fault)
	}
	for _, o := range s.outcomes {
		fmt.Fprintf(&b, "\n      ended    %s, epoch %d, attempt %d, life %d: %s %s",
			clock(o.at), o.epoch, o.attempts, o.life, o.kind, o.reason)
	}
	return b.String()
}
