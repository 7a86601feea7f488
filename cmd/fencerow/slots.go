package main

import (
	"context"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/fourblocks2020/fencerow/internal/config"
	"github.com/fourblocks2020/fencerow/internal/slots"
	"github.com/fourblocks2020/fencerow/internal/slots/natsrpc"
)

//nolint:lll // a struct tag cannot be wrapped
type slotsCmd struct {
	Instance config.Instance  `embed:""`
	Ops      config.OpsClient `embed:""`
	NATS     config.NATS      `embed:""`
	Spy      bool             `name:"spy" env:"FENCEROW_SPY" help:"Also show the counters of the daemon's process and the age of the oldest due entry."`
}

// Help says who answers.
func (*slotsCmd) Help() string {
	return `Asks the running daemon of the instance: by its ops listener with --ops-url, or over NATS with
--nats-url, where any one of the instance's daemons answers. Counters are those of the daemon that answers,
since its start.

Exit status: 0 answered; 1 nobody answered, or the daemon cannot; 3 the daemon at --ops-url serves another
instance.`
}

// BeforeApply has a flag win over the other's variable: a file of settings may name a NATS server for the
// daemon.
//
//nolint:unparam // kong demands the result
func (c *slotsCmd) BeforeApply(parsed *kong.Context) error {
	given := map[string]bool{}
	for _, element := range parsed.Path {
		if element.Flag != nil {
			given[element.Flag.Name] = true
		}
	}
	switch ops, nats := given["ops-url"], given["nats-url"]; {
	case ops && !nats:
		c.NATS = config.NATS{}
	case nats && !ops:
		c.Ops = config.OpsClient{}
	}
	return nil
}

// Validate demands one way to ask.
func (c *slotsCmd) Validate() error {
	if c.Ops.Given() == c.NATS.Given() {
		return usage("either --ops-url (FENCEROW_OPS_URL) or --nats-url (FENCEROW_NATS_URL)",
			"must be given, and not both; a flag wins over the other's variable")
	}
	return nil
}

// Run asks and shows the answer.
func (c *slotsCmd) Run(ctx context.Context, a *app) error {
	doc, err := c.ask(ctx, slots.Request{Instance: c.Instance.Key(), Spy: c.Spy})
	if err != nil {
		return err
	}
	return a.print(doc, func(t *table) {
		t.row("SLOT", "STRATEGY", "BALANCE", "VERSION", "UPDATED", "PENDING", "BLOCKED", "OPEN SKIPS")
		for i := range doc.Slots {
			s := &doc.Slots[i]
			pending, blocked := sums(s.PendingCash)
			t.row(s.SlotID, text(s.Strategy), balance(s), version(s), updated(s), pending, blocked, s.OpenSkips)
		}
		if doc.Spy != nil {
			spied(t, doc.Spy)
		}
	})
}

func (c *slotsCmd) ask(ctx context.Context, request slots.Request) (*slots.Document, error) {
	if c.NATS.Given() {
		cfg, err := c.NATS.Config()
		if err != nil {
			return nil, err
		}
		doc, err := natsrpc.Ask(ctx, cfg, request)
		return doc, told(err)
	}
	client, err := c.Ops.Open()
	if err != nil {
		return nil, err
	}
	doc, err := client.Slots(ctx, request)
	return doc, told(err)
}

// sums shows what is pending and what is blocked, each currency that has any.
func sums(cash []slots.Cash) (pending, blocked string) {
	var p, b []string
	for _, c := range cash {
		if c.PendingCount > 0 {
			p = append(p, c.Pending+" "+c.Currency)
		}
		if c.BlockedCount > 0 {
			b = append(b, c.Blocked+" "+c.Currency)
		}
	}
	return strings.Join(p, ", "), strings.Join(b, ", ")
}

func balance(s *slots.Slot) string {
	if s.CashBalance == nil {
		return ""
	}
	return money(*s.CashBalance, s.Currency)
}

func version(s *slots.Slot) any {
	if s.LedgerVersion == nil {
		return nil
	}
	return *s.LedgerVersion
}

func updated(s *slots.Slot) string {
	if s.UpdatedAt == nil {
		return ""
	}
	return showTime(*s.UpdatedAt)
}

func spied(t *table, spy *slots.Spy) {
	t.line("")
	t.line("Answered by worker %s.", spy.Worker)
	switch age := spy.OldestDueAgeSec; {
	case age == nil:
		t.line("How long the oldest due entry has been due is not known.")
	case *age == 0:
		t.line("Nothing that could be claimed is due.")
	default:
		t.line("The oldest due entry has been due for %s.", showDuration(time.Duration(*age*float64(time.Second))))
	}
	t.line("")
	m := &spy.Metrics
	if !m.Available || m.Claims == nil || m.Outcomes == nil {
		t.line("The daemon's counters cannot be read.")
		return
	}
	t.row("SINCE THE DAEMON STARTED", "TOTAL")
	t.row("empty polls", m.Claims.EmptyPolls)
	t.row("claimed batches", m.Claims.ClaimedBatches)
	t.row("unavailable", m.Claims.Unavailable)
	t.row("lost", m.Claims.Lost)
	t.row("foreign instance", m.Claims.ForeignInstance)
	t.row("completed", m.Outcomes.Completed)
	t.row("duplicate completed", m.Outcomes.DuplicateCompleted)
	t.row("retryable failure", m.Outcomes.RetryableFailure)
	t.row("conflict blocked", m.Outcomes.ConflictBlocked)
	t.row("permanent failure", m.Outcomes.PermanentFailure)
	t.row("dead lettered", m.Outcomes.DeadLettered)
}
