package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fourblocks2020/fencerow"
)

// The random sequences keep every moment that decides something apart from every other by a quarter of a
// grid: calls happen on the grid, leases end three quarters after it and retries fall due half of it later.
// So a store whose clock runs while it works, as a database's does, decides everything as one whose clock
// stands still, as long as a sequence takes less than that quarter.
const (
	grid     = time.Minute
	leaseEnd = grid * 3 / 4
	dueAfter = grid / 2
)

// Differential runs random sequences of calls on two stores, each in a world of its own for each sequence,
// and compares every answer, and all that can be seen after each call: epochs by which claim they are of, ids
// by which entry, times by the grid. Where the contract leaves room, in More alone, a must not say that there
// is more where b says that there is not.
func Differential[A, B Twin](t *testing.T, a func(TB) A, b func(TB) B) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		w := newTwins(a(t), b(t))
		t.Repeat(map[string]func(*rapid.T){
			"":         w.compareSomeViews,
			"enqueue":  w.enqueue,
			"advance":  w.advance,
			"claim":    w.claimBatch,
			"claim2":   w.claimBatch, // more likely than others: most else needs a claim
			"claimOne": w.claimOne,
			"record":   w.record,
			"record2":  w.record,
			"record3":  w.record,
			"release":  w.release,
			"requeue":  w.requeue,
			"hold":     w.hold,
			"nameSlot": w.nameSlot,
			"prune":    w.prune,
			"epoch":    w.setLastEpoch,
			"show":     w.show,
		})
		for instance := range instances {
			w.compareViews(t, instance, fencerow.MaxPage)
			for _, corr := range correlationIDs {
				w.compareShow(t, instance, corr)
			}
		}
	})
}

const (
	instances = 2
	processes = 2
)

var (
	correlationIDs = []fencerow.CorrelationID{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	slotIDs        = []fencerow.SlotID{"", "slot-1", "slot-2"}
	currencies     = []string{"", "EUR", "USD"}
	// Successes are as likely as all else together.
	drawnKinds = append(fencerow.OutcomeKinds(), fencerow.OutcomeCompleted, fencerow.OutcomeCompleted)
)

// twins is a sequence at work on two stores.
type twins struct {
	sides   [2]*side
	entries []twinEntry
	claims  []twinClaim
	// now is the time since the start; taken has the moments at which retries fall due and leases end, each of
	// which is of one call.
	now   time.Duration
	taken map[time.Duration]bool
	held  int // how many last epochs were set by hand
	next  [instances]int
}

// twinEntry is an entry that both stores have, or had; its place in the list is its name.
type twinEntry struct {
	instance int
	corr     fencerow.CorrelationID
	slot     fencerow.SlotID
	currency string
	ids      [2]fencerow.OutboxID
}

// twinClaim is a claim that both stores gave; its worker is named for its place in the list.
type twinClaim struct {
	instance int
	token    fencerow.ClaimToken
	rows     []int
}

// corr makes a correlation id the world's own: worlds that share a database would meet as foreign instances
// otherwise.
func (s *side) corr(id fencerow.CorrelationID) fencerow.CorrelationID {
	return fencerow.CorrelationID(s.keys[0]) + ":" + id
}

// bare undoes corr.
func (s *side) bare(id fencerow.CorrelationID) string {
	return strings.TrimPrefix(string(id), string(s.corr("")))
}

// side is one of the two stores.
type side struct {
	number int
	world  Twin
	keys   [instances]fencerow.InstanceKey
	stores [instances][processes]fencerow.Store
	index  map[fencerow.OutboxID]int
	// epochs names the epochs that an entry had: by the claim, or by hand. No two claims of an entry have the
	// same.
	epochs map[int]map[fencerow.ClaimEpoch]string
	last   map[int]fencerow.ClaimEpoch
}

func newTwins(worlds ...Twin) *twins {
	w := &twins{taken: make(map[time.Duration]bool)}
	for i, world := range worlds {
		s := &side{
			number: i, world: world, index: make(map[fencerow.OutboxID]int),
			epochs: make(map[int]map[fencerow.ClaimEpoch]string), last: make(map[int]fencerow.ClaimEpoch),
		}
		for instance := range instances {
			s.keys[instance] = s.world.Instance()
			for process := range processes {
				s.stores[instance][process] = s.world.Open()
			}
		}
		w.sides[i] = s
	}
	return w
}

// both makes the same call on both stores and demands the same answer.
func (w *twins) both(t *rapid.T, what string, call func(*side) string) {
	a, b := call(w.sides[0]), call(w.sides[1])
	if a != b {
		t.Fatalf("%s: the stores differ:\n%s\n%s", what, a, b)
	}
}

// move moves both clocks ahead by whole grids.
func (w *twins) move(grids int) {
	for _, s := range w.sides {
		s.world.Advance(time.Duration(grids) * grid)
	}
	w.now += time.Duration(grids) * grid
}

// store draws which instance calls, and from which of its processes.
func drawCaller(t *rapid.T) (instance, process int) {
	return rapid.IntRange(0, instances-1).Draw(t, "instance"), rapid.IntRange(0, processes-1).Draw(t, "process")
}

func (w *twins) enqueue(t *rapid.T) {
	w.move(1)
	instance, process := drawCaller(t)
	entries := rapid.SliceOfN(rapid.Custom(drawEntry), 1, 5).Draw(t, "entries")
	base := len(w.entries)
	var fresh []twinEntry
	w.both(t, "enqueue", func(s *side) string {
		results, err := s.stores[instance][process].EnqueueMany(t.Context(), fencerow.EnqueueParams{
			Instance: s.keys[instance], Entries: s.own(entries),
		})
		var b strings.Builder
		n := 0
		for i, r := range results {
			if r.Result == fencerow.EnqueueInserted {
				s.index[r.OutboxID] = base + n
				if s.number == 0 {
					n := &entries[i]
					fresh = append(fresh, twinEntry{
						instance: instance, corr: n.CorrelationID, slot: n.SlotID, currency: n.Currency,
					})
				}
				if n < len(fresh) {
					fresh[n].ids[s.number] = r.OutboxID
				}
				n++
			}
			fmt.Fprintf(&b, "%s of %s; ", r.Result, s.row(r.OutboxID))
		}
		return b.String() + failure(err)
	})
	w.entries = append(w.entries, fresh...)
}

// own returns the entries under the world's own correlation ids.
func (s *side) own(entries []fencerow.NewEntry) []fencerow.NewEntry {
	entries = slices.Clone(entries)
	for i := range entries {
		entries[i].CorrelationID = s.corr(entries[i].CorrelationID)
	}
	return entries
}

func drawEntry(t *rapid.T) fencerow.NewEntry {
	n := plain(rapid.SampledFrom(correlationIDs).Draw(t, "corr"))
	n.SlotID = rapid.SampledFrom(slotIDs).Draw(t, "slot")
	n.OpenSkip = rapid.Bool().Draw(t, "skip")
	if n.Currency = rapid.SampledFrom(currencies).Draw(t, "currency"); n.Currency != "" {
		n.CashDelta = must(fencerow.ParseDecimal("cash_delta",
			rapid.SampledFrom([]string{"0", "1.50", "-3"}).Draw(t, "delta")))(t)
	}
	return n
}

func (w *twins) advance(t *rapid.T) { w.move(rapid.IntRange(1, 20).Draw(t, "grids")) }

func (w *twins) drawLease(t *rapid.T) time.Duration {
	return w.moment(time.Duration(rapid.IntRange(0, 9).Draw(t, "lease"))*grid + leaseEnd)
}

// moment returns the first wait of at least d, in whole grids more, that ends at a moment which is not taken.
func (w *twins) moment(d time.Duration) time.Duration {
	for w.taken[w.now+d] {
		d += grid
	}
	w.taken[w.now+d] = true
	return d
}

func (w *twins) claimBatch(t *rapid.T) {
	w.move(1)
	instance, process := drawCaller(t)
	p := fencerow.ClaimBatchParams{
		Worker: w.worker(), Token: fencerow.NewClaimToken(), Limit: rapid.IntRange(1, 5).Draw(t, "limit"),
		Lease: w.drawLease(t),
	}
	var claims [2]*fencerow.Claim
	w.both(t, "claim batch", func(s *side) string {
		p.Instance = s.keys[instance]
		c, err := s.stores[instance][process].ClaimBatch(t.Context(), p)
		claims[s.number] = c
		return w.took(t, s, c) + failure(err)
	})
	w.keep(t, instance, claims)
}

func (w *twins) claimOne(t *rapid.T) {
	w.move(1)
	instance, process := drawCaller(t)
	corr := rapid.SampledFrom(correlationIDs).Draw(t, "corr")
	p := fencerow.ClaimOneParams{
		Worker: w.worker(), Token: fencerow.NewClaimToken(), Lease: w.drawLease(t),
		ForceDue: rapid.Bool().Draw(t, "force"),
	}
	var claims [2]*fencerow.Claim
	w.both(t, "claim one", func(s *side) string {
		p.Instance, p.CorrelationID = s.keys[instance], s.corr(corr)
		c, err := s.stores[instance][process].ClaimOne(t.Context(), p)
		claims[s.number] = c
		return w.took(t, s, c) + failure(err)
	})
	w.keep(t, instance, claims)
}

// worker names the worker of the next claim for the claim, so that the claim can be told in a listing.
func (w *twins) worker() fencerow.WorkerID {
	return fencerow.WorkerID(fmt.Sprintf("claim-%d", len(w.claims)))
}

// took notes the epochs that a claim gave, each of which must be above the row's last, and renders the claim.
func (w *twins) took(t *rapid.T, s *side, c *fencerow.Claim) string {
	if c == nil {
		return ""
	}
	for i := range c.Entries {
		row := s.index[c.Entries[i].OutboxID]
		if c.Epoch <= s.last[row] {
			t.Fatalf("side %d: epoch %d of entry %d is not above %d", s.number, c.Epoch, row, s.last[row])
		}
		s.name(row, c.Epoch, string(w.worker()))
	}
	return s.claim(c)
}

func (s *side) name(row int, epoch fencerow.ClaimEpoch, name string) {
	if s.epochs[row] == nil {
		s.epochs[row] = make(map[fencerow.ClaimEpoch]string)
	}
	s.epochs[row][epoch] = name
	s.last[row] = epoch
}

func (w *twins) keep(t *rapid.T, instance int, claims [2]*fencerow.Claim) {
	a, b := claims[0], claims[1]
	if a == nil || b == nil {
		return
	}
	if a.More && !b.More {
		t.Fatalf("only the first store says that there is more")
	}
	kept := twinClaim{instance: instance, token: a.Token}
	for i := range a.Entries {
		kept.rows = append(kept.rows, w.sides[0].index[a.Entries[i].OutboxID])
	}
	w.claims = append(w.claims, kept)
}
