package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// entryArg names one entry.
type entryArg struct {
	ID string `arg:"" name:"id" help:"The entry's correlation id."`
}

// Validate checks the id.
func (e *entryArg) Validate() error { return named("<id>", e.id().Validate()) }

func (e *entryArg) id() fencerow.CorrelationID { return fencerow.CorrelationID(e.ID) }

type showCmd struct {
	Own         owned    `embed:""`
	Entry       entryArg `embed:""`
	WithPayload bool     `name:"with-payload" env:"FENCEROW_WITH_PAYLOAD" help:"Show the payload too."`
}

// Run shows one entry.
func (c *showCmd) Run(ctx context.Context, a *app) error {
	store, err := openStore(ctx, &c.Own.Database)
	if err != nil {
		return err
	}
	defer store.Close()
	state, err := store.Show(ctx, fencerow.EntryParams{
		Instance: c.Own.Instance.Key(), CorrelationID: c.Entry.id(),
	})
	if err != nil {
		return err
	}
	doc := newShowDoc(state, c.WithPayload)
	return a.print(doc, func(t *table) { showEntry(t, &doc) })
}

func showEntry(t *table, doc *showDoc) {
	t.row("correlation id", doc.CorrelationID)
	t.row("status", doc.Status)
	t.row("kind", doc.EntryKind)
	t.row("slot", text(doc.SlotID))
	t.row("cash delta", money(doc.CashDelta, doc.Currency))
	t.row("enqueued", showTime(doc.EnqueuedAt))
	t.row("traceparent", text(doc.TraceParent))
	t.row("outbox id", doc.OutboxID)
	if p := doc.Pending; p != nil {
		due := "now"
		if !p.Due {
			due = showTime(p.DueAt)
		}
		t.row("due", due)
		t.row("attempts", fmt.Sprintf("%d in life %d", p.Attempts, p.Life))
		t.row("last attempt", lastAttempt(p.LastOutcome, p.LastReason))
		t.row("uncertain", uncertain(p.Uncertain))
	}
	if l := doc.Lease; l != nil {
		t.row("held by", fmt.Sprintf("%s, with %d rows, %gs left", l.Worker, l.Rows, l.Remaining))
	}
	if s := doc.Skip; s != nil {
		resolved := "open"
		if s.ResolvedAt != nil {
			resolved = "resolved " + showTime(*s.ResolvedAt)
		}
		t.row("skip", "opened "+showTime(s.OpenedAt)+", "+resolved)
	}
	if doc.Payload != nil {
		t.row("payload", showPayload(doc.Payload))
	}
	if len(doc.Outcomes) == 0 {
		return
	}
	t.line("")
	t.row("LIFE", "OUTCOME", "REASON", "ATTEMPTS", "AT", "LEDGER REF")
	for _, o := range doc.Outcomes {
		t.row(o.Life, o.Outcome, text(o.Reason), o.Attempts, showTime(o.At), text(o.LedgerRef))
	}
}

func lastAttempt(outcome, reason *string) string {
	if outcome == nil {
		return "none yet"
	}
	return *outcome + ", " + text(reason)
}

func uncertain(yes bool) string {
	if yes {
		return "bytes may have reached the ledger without an answer"
	}
	return "no"
}

// text is what a table shows of an optional text.
func text(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

func money(amount string, currency *string) string {
	if currency == nil {
		return amount
	}
	return amount + " " + *currency
}

func showTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// showDuration keeps three digits or so.
func showDuration(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// showPayload keeps the payload in its cell: a tab or a line break between its parts would not stay there.
func showPayload(p json.RawMessage) string {
	line, err := marshalLine(p)
	if err != nil {
		return "not valid JSON"
	}
	return string(line[:len(line)-1])
}
