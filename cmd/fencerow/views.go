package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// maxPayloadPage bounds a page with payloads: a thousand of full size are 256 MiB.
const maxPayloadPage = 1000

//nolint:lll // a struct tag cannot be wrapped
type pendingCmd struct {
	Own         owned  `embed:""`
	Limit       int    `name:"limit" env:"FENCEROW_PENDING_LIMIT" default:"100" help:"Entries at most, 1 to 10000; 1 to 1000 with payloads."`
	After       string `name:"after" env:"FENCEROW_PENDING_AFTER" placeholder:"PLACE" help:"Go on after this place, which the page before named."`
	WithPayload bool   `name:"with-payload" env:"FENCEROW_WITH_PAYLOAD" help:"Show payloads too."`

	place fencerow.PendingPosition
}

// Help says what is listed.
func (*pendingCmd) Help() string {
	return `Lists the instance's own pending entries that are under no active lease, due or waiting, by due
time, with their age since they were enqueued. Entries that a worker holds right now are not listed;
"fencerow counts" counts them.`
}

// Validate checks the page.
func (c *pendingCmd) Validate() error {
	highest := fencerow.MaxPage
	if c.WithPayload {
		highest = maxPayloadPage
	}
	if c.Limit < 1 || c.Limit > highest {
		return usage("--limit", "must be from 1 to %d", highest)
	}
	var err error
	c.place, err = parsePlace(c.After)
	return err
}

// Run lists one page.
func (c *pendingCmd) Run(ctx context.Context, a *app) error {
	store, err := openStore(ctx, &c.Own.Database)
	if err != nil {
		return err
	}
	defer store.Close()
	entries, err := store.ListPending(ctx, fencerow.ListPendingParams{
		Instance: c.Own.Instance.Key(), Limit: c.Limit, After: c.place, WithPayload: c.WithPayload,
	})
	if err != nil {
		return err
	}
	doc := pendingDoc{Entries: []pendingEntryDoc{}}
	for i := range entries {
		e := &entries[i]
		doc.Entries = append(doc.Entries, pendingEntryDoc{newEntryDoc(&e.Entry, c.WithPayload), newWaitingDoc(e)})
	}
	if len(entries) == c.Limit {
		last := &entries[len(entries)-1]
		doc.Next = optional(formatPlace(fencerow.PendingPosition{DueAt: last.DueAt, OutboxID: last.OutboxID}))
	}
	err = a.print(doc, func(t *table) { c.table(t, &doc) })
	if err == nil && doc.Next != nil && !a.json {
		a.say("there may be more: go on with --after %s", *doc.Next)
	}
	return err
}

func (c *pendingCmd) table(t *table, doc *pendingDoc) {
	header := []any{"CORRELATION ID", "KIND", "SLOT", "CASH DELTA", "AGE", "DUE", "ATTEMPTS", "LAST REASON"}
	if c.WithPayload {
		header = append(header, "PAYLOAD")
	}
	t.row(header...)
	now := time.Now() // the entries are of the server's clock; doctor says how far that is off
	for i := range doc.Entries {
		e := &doc.Entries[i]
		due := "now"
		if !e.Due {
			due = showTime(e.DueAt)
		}
		cells := []any{
			e.CorrelationID, e.EntryKind, text(e.SlotID), money(e.CashDelta, e.Currency),
			showDuration(max(0, now.Sub(e.EnqueuedAt))), due, e.Attempts, text(e.LastReason),
		}
		if c.WithPayload {
			cells = append(cells, showPayload(e.Payload))
		}
		t.row(cells...)
	}
}

// A place is written <due time>/<outbox id>.
func formatPlace(p fencerow.PendingPosition) string {
	return p.DueAt.UTC().Format(time.RFC3339Nano) + "/" + strconv.FormatInt(int64(p.OutboxID), 10)
}

func parsePlace(s string) (fencerow.PendingPosition, error) {
	var p fencerow.PendingPosition
	if s == "" {
		return p, nil
	}
	refused := usage("--after", "is not a place that a page before named")
	due, number, found := strings.Cut(s, "/")
	id, err := strconv.ParseInt(number, 10, 64)
	if !found || err != nil || id < 1 {
		return p, refused
	}
	if p.DueAt, err = time.Parse(time.RFC3339Nano, due); err != nil {
		return p, refused
	}
	p.OutboxID = fencerow.OutboxID(id)
	return p, nil
}

//nolint:lll // a struct tag cannot be wrapped
type cashDeltaCmd struct {
	Own  owned  `embed:""`
	Slot string `name:"slot" env:"FENCEROW_CASH_DELTA_SLOT" placeholder:"ID" help:"Sum the entries of this slot only."`
}

// Help says what is summed.
func (*cashDeltaCmd) Help() string {
	return `Sums cash deltas by currency: over all pending entries, those that a worker holds included, since
the money is not in the ledger yet, and separately over blocked ones (conflict_blocked, permanent_failure,
dead_lettered), which wait for an operator.`
}

// Validate checks the slot.
func (c *cashDeltaCmd) Validate() error {
	if c.Slot == "" {
		return nil
	}
	return named("--slot", fencerow.SlotID(c.Slot).Validate())
}

// Run sums.
func (c *cashDeltaCmd) Run(ctx context.Context, a *app) error {
	store, err := openStore(ctx, &c.Own.Database)
	if err != nil {
		return err
	}
	defer store.Close()
	sums, err := store.PendingCashDelta(ctx, fencerow.CashDeltaParams{
		Instance: c.Own.Instance.Key(), Slot: fencerow.SlotID(c.Slot),
	})
	if err != nil {
		return err
	}
	doc := cashDeltaDoc{SlotID: optional(c.Slot), Currencies: []currencySumsDoc{}}
	for _, s := range sums {
		doc.Currencies = append(doc.Currencies, currencySumsDoc{
			Currency: s.Currency, Pending: s.Pending.String(), PendingCount: s.PendingCount,
			Blocked: s.Blocked.String(), BlockedCount: s.BlockedCount,
		})
	}
	return a.print(doc, func(t *table) {
		t.row("CURRENCY", "PENDING", "ENTRIES", "BLOCKED", "ENTRIES")
		for _, s := range doc.Currencies {
			t.row(s.Currency, s.Pending, s.PendingCount, s.Blocked, s.BlockedCount)
		}
	})
}

type countsCmd struct {
	Own owned `embed:""`
}

// Run counts.
func (c *countsCmd) Run(ctx context.Context, a *app) error {
	store, err := openStore(ctx, &c.Own.Database)
	if err != nil {
		return err
	}
	defer store.Close()
	counts, err := store.Counts(ctx, c.Own.Instance.Key())
	if err != nil {
		return err
	}
	doc := countsDoc{
		Statuses: counts.ByStatus, Leased: counts.Leased, Due: counts.Due, OldestDue: seconds(counts.OldestDue),
		OldestPending: seconds(counts.OldestPending), HeldSince: utc(counts.HeldSince),
	}
	return a.print(doc, func(t *table) {
		t.row("STATUS", "ENTRIES")
		for _, status := range fencerow.Statuses() {
			t.row(status, doc.Statuses[status])
		}
		t.line("")
		t.line("%d of the pending ones are held by a worker, %d could be claimed now.", doc.Leased, doc.Due)
		if counts.OldestDue > 0 {
			t.line("The oldest of those has been due for %s.", showDuration(counts.OldestDue))
		}
		if counts.OldestPending > 0 {
			t.line("The oldest of the pending ones was enqueued %s ago.", showDuration(counts.OldestPending))
		}
		if doc.HeldSince != nil {
			t.line("The instance is on hold since %s: nothing is claimed.", showTime(*doc.HeldSince))
		}
	})
}

type claimsCmd struct {
	Own owned `embed:""`
}

// Run lists the claims.
func (c *claimsCmd) Run(ctx context.Context, a *app) error {
	store, err := openStore(ctx, &c.Own.Database)
	if err != nil {
		return err
	}
	defer store.Close()
	claims, err := store.Claims(ctx, c.Own.Instance.Key())
	if err != nil {
		return err
	}
	doc := claimsDoc{Claims: []leaseDoc{}}
	for i := range claims {
		doc.Claims = append(doc.Claims, newLeaseDoc(&claims[i]))
	}
	return a.print(doc, func(t *table) {
		t.row("WORKER", "ROWS", "AGE", "LEASE", "EPOCH")
		for i := range claims {
			lease := showDuration(claims[i].Remaining) + " left"
			if doc.Claims[i].Expired {
				lease = "expired " + showDuration(-claims[i].Remaining) + " ago"
			}
			t.row(claims[i].Worker, claims[i].Rows, showDuration(claims[i].Age), lease, claims[i].Epoch)
		}
	})
}
