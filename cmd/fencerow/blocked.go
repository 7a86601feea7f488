package main

import (
	"context"
	"strconv"

	"github.com/fourblocks2020/fencerow"
)

//nolint:lll // a struct tag cannot be wrapped
type blockedCmd struct {
	Own    owned  `embed:""`
	Status string `name:"status" env:"FENCEROW_BLOCKED_STATUS" placeholder:"STATUS" help:"Only entries of this status: conflict_blocked, permanent_failure or dead_lettered."`
	Limit  int    `name:"limit" env:"FENCEROW_BLOCKED_LIMIT" default:"100" help:"Entries at most, 1 to 10000."`
	After  string `name:"after" env:"FENCEROW_BLOCKED_AFTER" placeholder:"PLACE" help:"Go on after this place, which the page before named."`

	place fencerow.OutboxID
}

// Help says what is listed.
func (*blockedCmd) Help() string {
	return `Lists the instance's own entries that wait for an operator, in the order in which they were enqueued,
with why: those that the ledger refused or has other content for, and those whose attempts are used up.
"fencerow requeue" tries one again. Payloads are not shown; "fencerow show ID --with-payload" shows one.`
}

// Validate checks the status and the page.
func (c *blockedCmd) Validate() error {
	if c.Status != "" && !fencerow.Status(c.Status).Blocked() {
		return usage("--status", "must be conflict_blocked, permanent_failure or dead_lettered")
	}
	if c.Limit < 1 || c.Limit > fencerow.MaxPage {
		return usage("--limit", "must be from 1 to %d", fencerow.MaxPage)
	}
	if c.After == "" {
		return nil
	}
	id, err := strconv.ParseInt(c.After, 10, 64)
	if err != nil || id < 1 {
		return usage("--after", "is not a place that a page before named")
	}
	c.place = fencerow.OutboxID(id)
	return nil
}

// Run lists one page.
func (c *blockedCmd) Run(ctx context.Context, a *app) error {
	store, err := openStore(ctx, &c.Own.Database)
	if err != nil {
		return err
	}
	defer store.Close()
	entries, err := store.ListBlocked(ctx, fencerow.ListBlockedParams{
		Instance: c.Own.Instance.Key(), Status: fencerow.Status(c.Status), Limit: c.Limit, After: c.place,
	})
	if err != nil {
		return err
	}
	doc := blockedDoc{Entries: []blockedEntryDoc{}}
	for i := range entries {
		e := &entries[i]
		doc.Entries = append(doc.Entries, blockedEntryDoc{
			newEntryDoc(&e.Entry, false), newLifeDoc(&e.FinishedLife),
		})
	}
	if len(entries) == c.Limit {
		doc.Next = optional(strconv.FormatInt(int64(entries[len(entries)-1].OutboxID), 10))
	}
	err = a.print(doc, func(t *table) {
		t.row("CORRELATION ID", "KIND", "SLOT", "CASH DELTA", "STATUS", "REASON", "ATTEMPTS", "SINCE")
		for i := range doc.Entries {
			e := &doc.Entries[i]
			t.row(e.CorrelationID, e.EntryKind, text(e.SlotID), money(e.CashDelta, e.Currency), e.Status,
				text(e.Reason), e.Attempts, showTime(e.At))
		}
	})
	if err == nil && doc.Next != nil && !a.json {
		a.say("there may be more: go on with --after %s", *doc.Next)
	}
	return err
}
