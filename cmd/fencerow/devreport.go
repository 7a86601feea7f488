package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/ledger"
	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
)

// tell writes a line of the story to standard error.
func (a *app) tell(format string, args ...any) { fmt.Fprintf(a.stderr, format+"\n", args...) }

func (s *stage) introduce(a *app) {
	store := "in memory"
	if s.kept {
		store = "PostgreSQL; the entries stay there"
	}
	a.tell("fencerow dev: the whole job on this machine")
	a.tell("")
	a.tell("  store     %s", store)
	a.tell("  ledger    a stub at %s that misbehaves on purpose", s.base+ledgerstub.EntriesPath)
	a.tell("  instance  %s", s.instance)
}

// suggest says what can be tried while dev runs.
func (c *devCmd) suggest(a *app, s *stage) {
	ops := "http://" + c.OpsListen
	a.tell("  producer  enqueues one more every %s", devTrickle)
	a.tell("  daemon    polls every %s; its log follows", devInterval)
	a.tell(`
Try from another terminal:

  curl -s %[1]s/readyz
      Is the daemon ready, and how far is it behind?
  curl -s -X POST %[2]s/control/rules -d '{"fault":{"mode":"status","status":503}}'
      Take the ledger down. The daemon holds back and probes; nothing is used up.
  curl -s -X DELETE %[2]s/control/rules
      Bring it back: what waited is delivered.
  curl -s %[2]s/control/balances
      What the ledger has.`, ops, s.base)
	if s.kept {
		a.tell(`
  export FENCEROW_INSTANCE_KEY=%s
  fencerow counts; fencerow claims; fencerow show fill-3001
  fencerow requeue fill-3002 --from permanent_failure
      A blocked entry gets another life.`, s.instance)
	}
	a.tell("\nCtrl-C stops it.\n")
}

// devVerdict closes a run in which everything came out as it must.
const devVerdict = `
Everything came out as it must: what the ledger took is booked once, byte for byte, and its balances are
known here; what it refused is parked and waits for an operator ("fencerow requeue").

Next:  %[1]s dev         keeps it running, with addresses to play with
       %[1]s dev --help  the same on PostgreSQL
       %[1]s --help      everything else`

// report looks at what became of the samples, in the store and in the ledger, and compares it with what must.
func (s *stage) report(ctx context.Context) (*devDoc, error) {
	doc := &devDoc{
		Instance: s.instance, Store: "memory", Enqueued: s.enqueued, Deliveries: len(s.stub.Journal()),
		Elapsed: seconds(time.Since(s.began)), Entries: []devEntryDoc{}, Slots: []devSlotDoc{},
	}
	if s.kept {
		doc.Store = "postgresql"
	}
	doc.AsExpected = s.enqueued == enqueueDoc{Inserted: len(s.samples), Duplicate: 1, Conflict: 1}
	for i := range s.samples {
		entry, err := s.reportEntry(ctx, &s.samples[i])
		if err != nil {
			return nil, err
		}
		if s.samples[i].elsewhere {
			doc.Deliveries-- // that one was not ours
		}
		doc.Entries = append(doc.Entries, *entry)
		doc.AsExpected = doc.AsExpected && entry.AsExpected
	}
	if err := s.reportSlots(ctx, doc); err != nil {
		return nil, err
	}
	return doc, nil
}

func (s *stage) reportEntry(ctx context.Context, want *sample) (*devEntryDoc, error) {
	id := want.entry.CorrelationID
	state, err := s.store.Show(ctx, fencerow.EntryParams{Instance: s.instance, CorrelationID: id})
	if err != nil {
		return nil, err
	}
	key := ledger.IdempotencyKey(s.instance, id)
	doc := &devEntryDoc{
		CorrelationID: id, EntryKind: state.Entry.EntryKind, SlotID: optional(state.Entry.SlotID),
		CashDelta: state.Entry.CashDelta.String(), Currency: optional(state.Entry.Currency), Ledger: want.story,
		Sends: len(s.stub.Sends(key)), Status: state.Status,
	}
	if want.elsewhere {
		doc.Sends-- // that one was not ours
	}
	if n := len(state.Outcomes); n > 0 {
		last := state.Outcomes[n-1]
		doc.Outcome, doc.Reason, doc.Attempts = optional(last.Outcome), optional(last.Reason), last.Attempts
	}
	booking, booked := s.stub.Booking(key)
	doc.Booked = booked && bytes.Equal(booking.Body, state.Entry.AppendDocument(nil))
	doc.AsExpected = text(doc.Outcome) == string(want.outcome) && doc.Sends == want.sends &&
		doc.Booked == want.booked && (state.Skip == nil || state.Skip.ResolvedAt != nil)
	return doc, nil
}

// reportSlots compares what is known of each slot with what the ledger has.
func (s *stage) reportSlots(ctx context.Context, doc *devDoc) error {
	slots, err := s.store.Slots(ctx, s.instance)
	if err != nil {
		return err
	}
	balances := map[fencerow.SlotID]ledgerstub.Balance{}
	for _, b := range s.stub.Balances() {
		balances[fencerow.SlotID(b.Slot)] = b
	}
	for _, slot := range slots {
		d := devSlotDoc{SlotID: slot.SlotID, Currency: optional(slot.Currency), OpenSkips: slot.OpenSkips}
		d.LedgerBalance = balances[slot.SlotID].Balance.String()
		if slot.CashBalance != nil {
			d.KnownBalance = optional(slot.CashBalance.String())
		}
		for _, sum := range slot.PendingCash {
			d.Outstanding = append(d.Outstanding, currencySumsDoc{
				Currency: sum.Currency, Pending: sum.Pending.String(), PendingCount: sum.PendingCount,
				Blocked: sum.Blocked.String(), BlockedCount: sum.BlockedCount,
			})
		}
		d.Outstanding = append([]currencySumsDoc{}, d.Outstanding...)
		doc.Slots = append(doc.Slots, d)
		doc.AsExpected = doc.AsExpected && text(d.KnownBalance) == d.LedgerBalance && d.OpenSkips == 0
	}
	slices.SortFunc(doc.Slots, func(a, b devSlotDoc) int { return cmp.Compare(a.SlotID, b.SlotID) })
	return nil
}

func showReport(t *table, doc *devDoc) {
	t.line("")
	t.row("ENTRY", "WHAT THE LEDGER DOES WITH IT", "SENT", "OUTCOME")
	for _, e := range doc.Entries {
		outcome := text(e.Outcome)
		if e.Reason != nil {
			outcome += " (" + *e.Reason + ")"
		}
		if !e.AsExpected {
			outcome += "  <- NOT AS EXPECTED"
		}
		t.row(e.CorrelationID, e.Ledger, e.Sends, outcome)
	}
	_ = t.w.Flush() // into memory; the next table has columns of its own
	t.line("")
	t.row("SLOT", "BALANCE IN THE LEDGER", "AS KNOWN HERE", "NOT IN THE LEDGER")
	for _, slot := range doc.Slots {
		var rest []string
		for _, sum := range slot.Outstanding {
			if sum.PendingCount > 0 {
				rest = append(rest, sum.Pending+" "+sum.Currency+" pending")
			}
			if sum.BlockedCount > 0 {
				rest = append(rest, sum.Blocked+" "+sum.Currency+" blocked")
			}
		}
		t.row(slot.SlotID, money(slot.LedgerBalance, slot.Currency), money(text(slot.KnownBalance), slot.Currency),
			strings.Join(rest, ", "))
	}
	_ = t.w.Flush() // as above
	t.line("")
	t.line("%d deliveries in %gs.", doc.Deliveries, doc.Elapsed)
}
