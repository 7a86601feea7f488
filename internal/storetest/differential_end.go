package storetest

import (
	"cmp"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/fourblocks2020/fencerow"
)

// drawClaim draws one of the last claims, whether or not it still stands, and rows to name under it: its own,
// and at times another.
func (w *twins) drawClaim(t *rapid.T) (twinClaim, []int) {
	if len(w.claims) == 0 {
		t.Skip("no claim was made yet")
	}
	recent := w.claims[max(0, len(w.claims)-6):]
	c := rapid.SampledFrom(recent).Draw(t, "claim")
	candidates := slices.Clone(c.rows)
	if len(candidates) == 0 || rapid.IntRange(0, 4).Draw(t, "stray") == 0 {
		candidates = append(candidates, rapid.IntRange(0, max(0, len(w.entries)-1)).Draw(t, "row"))
	}
	slices.Sort(candidates)
	candidates = slices.Compact(candidates)
	if len(w.entries) == 0 {
		t.Skip("there is no entry yet")
	}
	rows := rapid.Permutation(candidates).Draw(t, "rows")
	return c, rows[:rapid.IntRange(1, len(rows)).Draw(t, "count")]
}

func (w *twins) record(t *rapid.T) {
	c, rows := w.drawClaim(t)
	w.move(1)
	delay := w.drawDelay(t)
	outcomes := make([]fencerow.Outcome, len(rows))
	for i := range outcomes {
		outcomes[i] = drawOutcome(t, &w.entries[rows[i]], delay)
	}
	process := rapid.IntRange(0, processes-1).Draw(t, "process")
	w.both(t, "record", func(s *side) string {
		for i, row := range rows {
			outcomes[i].OutboxID = w.entries[row].ids[s.number]
		}
		verdicts, err := s.stores[c.instance][process].RecordOutcomes(t.Context(), fencerow.RecordParams{
			Instance: s.keys[c.instance], Token: c.token, Outcomes: outcomes,
		})
		return s.verdicts(verdicts) + failure(err)
	})
}

// drawDelay draws a delay that lets the retries of one call fall due at a moment of their own.
func (w *twins) drawDelay(t *rapid.T) time.Duration {
	grids := rapid.IntRange(-1, 20).Draw(t, "delay")
	if grids < 0 {
		return 0
	}
	return w.moment(time.Duration(grids)*grid + dueAfter)
}

func drawOutcome(t *rapid.T, e *twinEntry, delay time.Duration) fencerow.Outcome {
	o := fencerow.Outcome{
		Kind:      rapid.SampledFrom(drawnKinds).Draw(t, "kind"),
		Charge:    fencerow.Charge(rapid.IntRange(-1, 1).Draw(t, "charge")),
		Uncertain: rapid.Bool().Draw(t, "uncertain"),
		LedgerRef: rapid.SampledFrom([]string{"", "ref-1", "not a reference"}).Draw(t, "ref"),
	}
	if !o.Kind.Success() {
		o.Reason = rapid.SampledFrom(fencerow.ReasonCodes()).Draw(t, "reason")
	}
	if !o.Kind.Terminal() {
		o.Delay = delay
	}
	if o.Kind.Success() && rapid.IntRange(0, 3).Draw(t, "snapshot") > 0 {
		o.Snapshot = snapshot(e.slot, cmp.Or(e.currency, "EUR"),
			rapid.SampledFrom([]string{"0", "10.5", "-7"}).Draw(t, "balance"),
			rapid.Int64Range(0, 6).Draw(t, "version"))
		switch rapid.IntRange(0, 5).Draw(t, "fault") {
		case 0:
			o.Snapshot.SlotID = rapid.SampledFrom(slotIDs).Draw(t, "slot")
		case 1:
			o.Snapshot.Currency = rapid.SampledFrom(currencies).Draw(t, "currency")
		case 2:
			o.Snapshot.Version = -1
		}
	}
	return o
}

func (w *twins) release(t *rapid.T) {
	c, rows := w.drawClaim(t)
	w.move(1)
	all := rapid.Bool().Draw(t, "all")
	uncertain := rapid.SliceOfN(rapid.Bool(), len(rows), len(rows)).Draw(t, "uncertain")
	process := rapid.IntRange(0, processes-1).Draw(t, "process")
	w.both(t, "release", func(s *side) string {
		p := fencerow.ReleaseParams{Instance: s.keys[c.instance], Token: c.token, All: all}
		if all {
			p.Uncertain = uncertain[0]
		} else {
			for i, row := range rows {
				p.Rows = append(p.Rows, fencerow.ReleaseRow{
					OutboxID: w.entries[row].ids[s.number], Uncertain: uncertain[i],
				})
			}
		}
		verdicts, err := s.stores[c.instance][process].Release(t.Context(), p)
		return s.verdicts(verdicts) + failure(err)
	})
}
