package pgstore

import (
	"time"

	"github.com/shopspring/decimal"

	"github.com/fourblocks2020/fencerow"
)

// entryColumns are the columns of an entry, as every query that reads entries returns them.
type entryColumns struct {
	id            int64
	correlationID string
	kind          string
	slot          string // empty if there is none
	cashDelta     string
	currency      string
	payload       []byte // empty if it was not asked for
	traceParent   string
	enqueuedAt    time.Time
}

func (c entryColumns) into(e *fencerow.Entry, instance fencerow.InstanceKey) error {
	delta, err := parseDecimal(c.cashDelta)
	if err != nil {
		return err
	}
	*e = fencerow.Entry{
		OutboxID:      fencerow.OutboxID(c.id),
		Instance:      instance,
		CorrelationID: fencerow.CorrelationID(c.correlationID),
		EntryKind:     c.kind,
		SlotID:        fencerow.SlotID(c.slot),
		CashDelta:     delta,
		Currency:      c.currency,
		TraceParent:   c.traceParent,
		EnqueuedAt:    c.enqueuedAt.UTC(),
	}
	if len(c.payload) > 0 {
		e.Payload = c.payload
	}
	return nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func parseDecimal(s string) (decimal.Decimal, error) {
	if s == "0" {
		return decimal.Decimal{}, nil
	}
	return decimal.NewFromString(s)
}
