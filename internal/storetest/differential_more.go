package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/fourblocks2020/fencerow"
)

func (w *twins) requeue(t *rapid.T) {
	w.move(1)
	instance, process := drawCaller(t)
	corr := rapid.SampledFrom(correlationIDs).Draw(t, "corr")
	from := rapid.SampledFrom(blockedKinds()).Draw(t, "from").Status()
	w.both(t, "requeue", func(s *side) string {
		return failure(s.stores[instance][process].Requeue(t.Context(), fencerow.RequeueParams{
			Instance: s.keys[instance], CorrelationID: s.corr(corr), From: from,
		}))
	})
}

func (w *twins) hold(t *rapid.T) {
	w.move(1)
	instance, process := drawCaller(t)
	// Resumed more often than held, or nothing would happen.
	hold := rapid.IntRange(0, 2).Draw(t, "hold") == 0
	w.both(t, "hold", func(s *side) string {
		call := s.stores[instance][process].Resume
		if hold {
			call = s.stores[instance][process].Hold
		}
		changed, err := call(t.Context(), s.keys[instance])
		return fmt.Sprint(changed) + failure(err)
	})
}

func (w *twins) nameSlot(t *rapid.T) {
	instance, process := drawCaller(t)
	p := fencerow.NameSlotParams{
		Slot:     rapid.SampledFrom([]fencerow.SlotID{"slot-1", "slot-3"}).Draw(t, "slot"),
		Strategy: rapid.SampledFrom([]string{"carry", "mean reversion"}).Draw(t, "strategy"),
	}
	w.both(t, "name slot", func(s *side) string {
		p.Instance = s.keys[instance]
		return failure(s.stores[instance][process].NameSlot(t.Context(), p))
	})
}

func (w *twins) prune(t *rapid.T) {
	w.move(1)
	instance, process := drawCaller(t)
	p := fencerow.PruneParams{
		OlderThan: time.Duration(rapid.IntRange(0, 10).Draw(t, "age"))*grid + dueAfter,
		Limit:     rapid.IntRange(1, 3).Draw(t, "limit"),
	}
	next := [2]int{}
	w.both(t, "prune", func(s *side) string {
		p.Instance, p.After = s.keys[instance], 0
		if at := w.next[instance]; at > 0 {
			p.After = w.entries[at-1].ids[s.number]
		}
		result, err := s.stores[instance][process].Prune(t.Context(), p)
		if result.Next != 0 {
			next[s.number] = s.index[result.Next] + 1
		}
		return fmt.Sprintf("deleted %d, next %d", result.Deleted, next[s.number]) + failure(err)
	})
	w.next[instance] = next[0]
}

// setLastEpoch puts a pending row ahead of the clock, as a clock that was stepped back leaves it.
func (w *twins) setLastEpoch(t *rapid.T) {
	if len(w.entries) == 0 {
		t.Skip("there is no entry yet")
	}
	row := rapid.IntRange(0, len(w.entries)-1).Draw(t, "row")
	e := w.entries[row]
	state, err := w.sides[0].stores[e.instance][0].Show(t.Context(), fencerow.EntryParams{
		Instance: w.sides[0].keys[e.instance], CorrelationID: w.sides[0].corr(e.corr),
	})
	if err != nil || state.Entry.OutboxID != e.ids[0] || state.Pending == nil || state.Lease != nil {
		t.Skip("the row is not pending, or leased")
	}
	w.held++
	// Far apart, so that each is above all claims that came of the one before.
	epoch := farEpoch + fencerow.ClaimEpoch(w.held)*1_000_000
	for _, s := range w.sides {
		s.world.SetLastEpoch(s.keys[e.instance], e.ids[s.number], epoch)
		s.name(row, epoch, fmt.Sprintf("set-%d", w.held))
	}
}

func (w *twins) show(t *rapid.T) {
	instance := rapid.IntRange(0, instances-1).Draw(t, "instance")
	w.compareShow(t, instance, rapid.SampledFrom(correlationIDs).Draw(t, "corr"))
}

func (w *twins) compareShow(t *rapid.T, instance int, corr fencerow.CorrelationID) {
	w.both(t, "show", func(s *side) string {
		state, err := s.stores[instance][0].Show(t.Context(), fencerow.EntryParams{
			Instance: s.keys[instance], CorrelationID: s.corr(corr),
		})
		return s.state(state) + failure(err)
	})
}

// compareSomeViews compares the views of one instance or the other.
func (w *twins) compareSomeViews(t *rapid.T) {
	w.compareViews(t, rapid.IntRange(0, instances-1).Draw(t, "seen"),
		rapid.SampledFrom([]int{2, fencerow.MaxPage}).Draw(t, "page"))
}

// compareViews compares all that is seen of an instance without naming an entry.
func (w *twins) compareViews(t *rapid.T, instance, limit int) {
	w.both(t, "views", func(s *side) string {
		store, key, ctx := s.stores[instance][0], s.keys[instance], t.Context()
		var b strings.Builder
		listed, err := store.ListPending(ctx, fencerow.ListPendingParams{Instance: key, Limit: limit})
		fmt.Fprintf(&b, "list: %s%s\n", s.pendings(listed), failure(err))
		if len(listed) > 0 {
			last := listed[len(listed)-1]
			listed, err = store.ListPending(ctx, fencerow.ListPendingParams{
				Instance: key, Limit: limit, WithPayload: true,
				After: fencerow.PendingPosition{DueAt: last.DueAt, OutboxID: last.OutboxID},
			})
			fmt.Fprintf(&b, "next page: %s%s\n", s.pendings(listed), failure(err))
		}
		blocked, err := store.ListBlocked(ctx, fencerow.ListBlockedParams{Instance: key, Limit: limit})
		fmt.Fprintf(&b, "blocked: %s%s\n", s.blockeds(blocked), failure(err))
		if len(blocked) > 0 {
			blocked, err = store.ListBlocked(ctx, fencerow.ListBlockedParams{
				Instance: key, Limit: limit, Status: fencerow.StatusDeadLettered, After: blocked[0].OutboxID,
			})
			fmt.Fprintf(&b, "next dead letters: %s%s\n", s.blockeds(blocked), failure(err))
		}
		for _, slot := range slotIDs {
			sums, err := store.PendingCashDelta(ctx, fencerow.CashDeltaParams{Instance: key, Slot: slot})
			fmt.Fprintf(&b, "sums: %s%s\n", sumsText(sums), failure(err))
		}
		counts, err := store.Counts(ctx, key)
		if err == nil {
			fmt.Fprintf(&b, "counts: %v leased %d due %d oldest %v %v held %v", counts.ByStatus, counts.Leased,
				counts.Due, onGrid(counts.OldestDue), onGrid(counts.OldestPending), counts.HeldSince != nil)
		}
		fmt.Fprintf(&b, "%s\n", failure(err))
		leases, err := store.Claims(ctx, key)
		for i := range leases {
			fmt.Fprintf(&b, "lease: %s\n", leaseText(&leases[i]))
		}
		fmt.Fprintf(&b, "%s\n", failure(err))
		slots, err := store.Slots(ctx, key)
		for i := range slots {
			fmt.Fprintf(&b, "slot: %s\n", slotText(&slots[i]))
		}
		return b.String() + failure(err)
	})
}

// onGrid cuts a duration to the grid. What is exact on a clock that stands is a little later on one that
// runs, but never by a quarter.
func onGrid(d time.Duration) time.Duration { return d.Round(time.Second).Truncate(grid / 4) }

// failure renders an error by what callers can tell of it.
func failure(err error) string {
	if err == nil {
		return ""
	}
	if refusal, ok := errors.AsType[*fencerow.ClaimRefusedError](err); ok {
		return " refused: " + string(refusal.Why)
	}
	if wrong, ok := errors.AsType[*fencerow.WrongStatusError](err); ok {
		return " wrong status: " + string(wrong.Status)
	}
	for _, code := range []fencerow.Code{
		fencerow.ErrInstanceHeld, fencerow.ErrNotFound, fencerow.ErrForeignInstance,
	} {
		if errors.Is(err, code) {
			return " " + string(code)
		}
	}
	return " unexpected error: " + err.Error()
}

// row names an entry by its place.
func (s *side) row(id fencerow.OutboxID) string {
	if row, ok := s.index[id]; ok {
		return fmt.Sprintf("#%d", row)
	}
	return "unknown"
}

// epoch names an epoch of an entry by the claim that it is of.
func (s *side) epoch(id fencerow.OutboxID, epoch fencerow.ClaimEpoch) string {
	if epoch == 0 {
		return "none"
	}
	return cmp.Or(s.epochs[s.index[id]][epoch], "unknown")
}

func (s *side) claim(c *fencerow.Claim) string {
	var b strings.Builder
	for i := range c.Entries {
		e := &c.Entries[i]
		fmt.Fprintf(&b, "%s %s attempt %d life %d due %v uncertain %v expiries %d reclaimed %v last %q; ",
			s.row(e.OutboxID), s.bare(e.CorrelationID), e.Attempt, e.Life, onGrid(e.DueAt.Sub(e.EnqueuedAt)),
			e.Uncertain, e.ExpiryCount, e.Reclaimed, e.LastReason)
	}
	if len(c.Entries) > 0 {
		fmt.Fprintf(&b, "lease %v", c.LeaseExpiresAt.Sub(c.ClaimedAt))
	}
	return b.String()
}

func (s *side) verdicts(verdicts []fencerow.Verdict) string {
	var b strings.Builder
	for _, v := range verdicts {
		fmt.Fprintf(&b, "%s applied %v lost %q epoch %s outcome %q rejected %v; ", s.row(v.OutboxID), v.Applied,
			v.Lost, s.epoch(v.OutboxID, v.Epoch), v.Outcome, v.SnapshotRejected)
	}
	return b.String()
}

func (s *side) pendings(listed []fencerow.PendingEntry) string {
	var b strings.Builder
	for i := range listed {
		p := &listed[i]
		fmt.Fprintf(&b, "%s %s payload %s due %v %v attempts %d life %d uncertain %v expiries %d last %q %q; ",
			s.row(p.OutboxID), s.bare(p.CorrelationID), p.Payload, p.Due, onGrid(p.DueAt.Sub(p.EnqueuedAt)),
			p.Attempts, p.Life, p.Uncertain, p.ExpiryCount, p.LastOutcome, p.LastReason)
	}
	return b.String()
}

func (s *side) blockeds(listed []fencerow.BlockedEntry) string {
	var b strings.Builder
	for i := range listed {
		e := &listed[i]
		fmt.Fprintf(&b, "%s %s payload %s life %s; ", s.row(e.OutboxID), s.bare(e.CorrelationID), e.Payload,
			s.life(e.OutboxID, &e.FinishedLife, e.EnqueuedAt))
	}
	return b.String()
}

func (s *side) life(id fencerow.OutboxID, l *fencerow.FinishedLife, enqueued time.Time) string {
	return fmt.Sprintf("%d %s %s %q attempts %d epoch %s ref %q at %v", l.Life, l.Status, l.Outcome, l.Reason,
		l.Attempts, s.epoch(id, l.Epoch), l.LedgerRef, onGrid(l.At.Sub(enqueued)))
}

func (s *side) state(state *fencerow.EntryState) string {
	if state == nil {
		return ""
	}
	e := &state.Entry
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s slot %q delta %s %q %s", s.row(e.OutboxID), state.Status, e.EntryKind, e.SlotID,
		e.CashDelta, e.Currency, e.Payload)
	if p := state.Pending; p != nil {
		fmt.Fprintf(&b, "\npending: due %v %v attempts %d life %d uncertain %v expiries %d last %q %q", p.Due,
			onGrid(p.DueAt.Sub(e.EnqueuedAt)), p.Attempts, p.Life, p.Uncertain, p.ExpiryCount, p.LastOutcome,
			p.LastReason)
	}
	if state.Lease != nil {
		fmt.Fprintf(&b, "\nlease: %s epoch %s", leaseText(state.Lease), s.epoch(e.OutboxID, state.Lease.Epoch))
	}
	for i := range state.Outcomes {
		fmt.Fprintf(&b, "\nlife %s", s.life(e.OutboxID, &state.Outcomes[i], e.EnqueuedAt))
	}
	if state.Skip != nil {
		fmt.Fprintf(&b, "\nskip: open %v", state.Skip.ResolvedAt == nil)
	}
	return b.String()
}

func leaseText(l *fencerow.LeaseInfo) string {
	return fmt.Sprintf("%s rows %d age %v expired %v", l.Worker, l.Rows, onGrid(l.Age), l.Remaining <= 0)
}

func slotText(s *fencerow.Slot) string {
	text := fmt.Sprintf("%s %q %s skips %d sums %s", s.SlotID, s.Strategy, s.Currency, s.OpenSkips,
		sumsText(s.PendingCash))
	if s.CashBalance != nil && s.LedgerVersion != nil && s.UpdatedAt != nil {
		text += fmt.Sprintf(" balance %s version %d", s.CashBalance, *s.LedgerVersion)
	}
	return text
}

func sumsText(sums []fencerow.CashDelta) string {
	var b strings.Builder
	for _, sum := range sums {
		fmt.Fprintf(&b, "%s pending %s of %d blocked %s of %d; ", sum.Currency, sum.Pending, sum.PendingCount,
			sum.Blocked, sum.BlockedCount)
	}
	return b.String()
}
