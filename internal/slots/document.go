package slots

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/observe"
)

// Document is an answer. Decimals are strings, times are UTC; what is not known yet is null.
type Document struct {
	Instance fencerow.InstanceKey `json:"instance_key"`
	Slots    []Slot               `json:"slots"`
	// Spy is there if it was asked for; its members stand at the top level, or not at all.
	*Spy
}

// Slot is one slot, as [fencerow.Slot] describes it.
type Slot struct {
	SlotID        fencerow.SlotID `json:"slot_id"`
	Strategy      *string         `json:"strategy"`
	Currency      *string         `json:"currency"`
	CashBalance   *string         `json:"cash_balance"`
	LedgerVersion *int64          `json:"ledger_version"`
	// PendingCash is what is not in the ledger yet, by currency.
	PendingCash []Cash     `json:"pending_cash_delta"`
	OpenSkips   int64      `json:"open_skips"`
	UpdatedAt   *time.Time `json:"updated_at"` // of the snapshot
}

// Cash sums the cash deltas of one currency: of pending entries, and separately of blocked ones.
type Cash struct {
	Currency     string `json:"currency"`
	Pending      string `json:"pending"`
	PendingCount int64  `json:"pending_count"`
	Blocked      string `json:"blocked"`
	BlockedCount int64  `json:"blocked_count"`
}

// Spy is what an operator is told besides.
type Spy struct {
	// Worker is which of the instance's daemons answered: the counters are its own.
	Worker fencerow.WorkerID `json:"worker"`
	// OldestDueAgeSec is how long the oldest due row that no active lease holds has been due, by the store's
	// clock: 0 if none is, null if it did not say.
	OldestDueAgeSec *float64        `json:"oldest_due_age_sec"`
	Metrics         observe.Metrics `json:"ledger_outbox_metrics"`
}

func newDocument(instance fencerow.InstanceKey, list []fencerow.Slot) *Document {
	doc := &Document{Instance: instance, Slots: make([]Slot, len(list))}
	for i := range list {
		s := &list[i]
		slot := Slot{
			SlotID: shown(s.SlotID), Strategy: optional(s.Strategy), Currency: optional(s.Currency),
			LedgerVersion: s.LedgerVersion, PendingCash: make([]Cash, len(s.PendingCash)), OpenSkips: s.OpenSkips,
		}
		if s.CashBalance != nil {
			slot.CashBalance = optional(s.CashBalance.String())
		}
		if s.UpdatedAt != nil {
			at := s.UpdatedAt.UTC()
			slot.UpdatedAt = &at
		}
		for j, d := range s.PendingCash {
			slot.PendingCash[j] = Cash{
				Currency: shown(d.Currency), Pending: d.Pending.String(), PendingCount: d.PendingCount,
				Blocked: d.Blocked.String(), BlockedCount: d.BlockedCount,
			}
		}
		doc.Slots[i] = slot
	}
	return doc
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	s = shown(s)
	return &s
}

// shown returns a text as it is if it is printable ASCII, else with everything else escaped as in Go. The
// database's checks keep other text out; one row that came past them must not make readers refuse all others.
func shown[T ~string](s T) T {
	if isPlain(string(s)) {
		return s
	}
	quoted := strconv.QuoteToASCII(string(s))
	return T(quoted[1 : len(quoted)-1])
}

func isPlain(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}

// render returns a document as one line.
func render(document any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(document); err != nil {
		panic("slots: a document of plain fields does not marshal")
	}
	return b.Bytes()
}

// refusal is the document of an answer that is no result.
type refusal struct {
	Error fencerow.Code `json:"error"`
}

// Refusal returns the document that says why there is no answer, as one line.
func Refusal(code fencerow.Code) []byte { return render(refusal{code}) }

// ErrAnswerUnreadable says that what answered is no daemon, one of another version, or one of another
// instance.
const ErrAnswerUnreadable fencerow.Code = "daemon_answer_unreadable"

// ReadAnswer reads the answer to a request, met while doing op. A refusal is an error of its code.
func ReadAnswer(op string, request Request, answer []byte) (*Document, error) {
	var r refusal
	var doc Document
	if json.Unmarshal(answer, &r) != nil {
		return nil, fencerow.NewError(op, ErrAnswerUnreadable, nil)
	}
	if KnownRefusal(r.Error) {
		return nil, fencerow.NewError(op, r.Error, nil)
	}
	if r.Error != "" || json.Unmarshal(answer, &doc) != nil ||
		doc.Instance != request.Instance || (doc.Spy != nil) != request.Spy || !doc.whole() || !doc.plain() {
		return nil, fencerow.NewError(op, ErrAnswerUnreadable, nil)
	}
	return &doc, nil
}

// whole reports whether nothing is missing, and no number is one that no daemon tells.
func (d *Document) whole() bool {
	if d.Slots == nil || d.Spy != nil && d.OldestDueAgeSec != nil &&
		(*d.OldestDueAgeSec < 0 || *d.OldestDueAgeSec > fencerow.MaxDueFor.Seconds()) {
		return false
	}
	return !slices.ContainsFunc(d.Slots, func(s Slot) bool {
		return s.SlotID == "" || s.PendingCash == nil || s.OpenSkips < 0 ||
			s.LedgerVersion != nil && *s.LedgerVersion < 0 || slices.ContainsFunc(s.PendingCash, func(c Cash) bool {
			return c.Pending == "" || c.Blocked == "" || c.PendingCount < 0 || c.BlockedCount < 0
		})
	})
}

// plain reports whether all texts are of printable ASCII, as those of a daemon are. Whoever can answer in its
// place must not command a terminal.
func (d *Document) plain() bool {
	var texts []string
	for i := range d.Slots {
		s := &d.Slots[i]
		texts = append(texts, string(s.SlotID))
		for _, text := range []*string{s.Strategy, s.Currency, s.CashBalance} {
			if text != nil {
				texts = append(texts, *text)
			}
		}
		for _, c := range s.PendingCash {
			texts = append(texts, c.Currency, c.Pending, c.Blocked)
		}
	}
	if d.Spy != nil {
		texts = append(texts, string(d.Worker), d.Metrics.Scope, string(d.Metrics.InstanceKey), d.Metrics.Reason)
	}
	return !slices.ContainsFunc(texts, func(text string) bool { return !isPlain(text) })
}
