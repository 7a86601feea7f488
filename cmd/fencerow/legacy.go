package main

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/fourblocks2020/fencerow"
)

type legacyCmd struct {
	Count  legacyCountCmd  `cmd:"" default:"withargs" help:"Count the entries that have no owner."`
	Export legacyExportCmd `cmd:"" help:"Print an unowned entry as a line for \"fencerow enqueue\"."`
}

type legacyCountCmd struct {
	Own owned `embed:""`
}

// Help says what is counted.
func (*legacyCountCmd) Help() string {
	return `Entries from before ownership belong to no instance. They are never claimed, listed, summed or
changed; this is how many there are.`
}

// Run counts.
func (c *legacyCountCmd) Run(ctx context.Context, a *app) error {
	store, err := openStore(ctx, &c.Own.Database)
	if err != nil {
		return err
	}
	defer store.Close()
	n, err := store.LegacyCount(ctx)
	if err != nil {
		return err
	}
	return a.print(legacyDoc{n}, func(t *table) { t.line("%d entries have no owner", n) })
}

//nolint:lll // a struct tag cannot be wrapped
type legacyExportCmd struct {
	Own      owned  `embed:""`
	ID       string `arg:"" name:"id" help:"The entry's correlation id."`
	OutboxID *int64 `name:"outbox-id" env:"FENCEROW_LEGACY_OUTBOX_ID" placeholder:"N" help:"Which one, where several unowned entries have this correlation id."`
}

// Help says what is printed.
func (*legacyExportCmd) Help() string {
	return `Prints one line that "fencerow enqueue -" takes, so that the entry can be enqueued under an
instance's own key. That is a decision: whether the entry is in the ledger already, nobody here knows. The
unowned entry stays as it is.

What an older schema allowed and a new entry may not have is exported all the same, as far as a line can
hold it, and named on standard error.`
}

// Validate checks the arguments.
func (c *legacyExportCmd) Validate() error {
	if c.OutboxID != nil && *c.OutboxID < 1 {
		return usage("--outbox-id", "must be at least 1")
	}
	return named("<id>", fencerow.ValidateLegacyID(c.ID))
}

// Run exports one entry.
func (c *legacyExportCmd) Run(ctx context.Context, a *app) error {
	store, err := openStore(ctx, &c.Own.Database)
	if err != nil {
		return err
	}
	defer store.Close()
	found, err := store.LegacyExport(ctx, c.ID)
	if err != nil {
		return err
	}
	entry, err := c.pick(found)
	if err != nil {
		return err
	}
	line, problems := exportLine(entry)
	for _, problem := range problems {
		a.say("%s", problem)
	}
	return a.write(append(line, '\n'))
}

func (c *legacyExportCmd) pick(found []fencerow.LegacyEntry) (*fencerow.LegacyEntry, error) {
	if c.OutboxID != nil {
		found = slices.DeleteFunc(found, func(e fencerow.LegacyEntry) bool {
			return int64(e.OutboxID) != *c.OutboxID
		})
	}
	switch len(found) {
	case 0:
		return nil, ended(exitNothingDone, "no unowned entry has this correlation id")
	case 1:
		return &found[0], nil
	}
	ids := make([]string, len(found))
	for i := range found {
		ids[i] = strconv.FormatInt(int64(found[i].OutboxID), 10)
	}
	return nil, ended(exitNothingDone,
		"%d unowned entries have this correlation id; pick one with --outbox-id: %s",
		len(found), strings.Join(ids, ", "))
}

// exportLine renders an unowned entry as a line, without its end, and says what keeps it from being the entry
// it was or from being enqueued. The line holds no character that a terminal would obey.
func exportLine(e *fencerow.LegacyEntry) (line []byte, problems []string) {
	line = []byte("{")
	line = appendMember(line, memberCorrelationID, &e.CorrelationID)
	line = appendMember(line, memberEntryKind, &e.EntryKind)
	line = appendMember(line, memberSlotID, e.SlotID)
	line = appendMember(line, memberCashDelta, &e.CashDelta)
	line = appendMember(line, memberCurrency, e.Currency)
	payload := exportPayload(e.Payload)
	if !bytes.Equal(payload, e.Payload) {
		problems = append(problems, "the payload holds line breaks or control characters, which a line cannot "+
			"hold as they are: it means the same, but its bytes are not those of the old entry")
	}
	line = append(append(append(line, `,"`+memberPayload+`":`...), payload...), '}')
	if len(line) > maxLine {
		problems = append(problems, "as it is, \"fencerow enqueue\" refuses this line: it is too long")
	} else if _, err := parseEntryLine(line); err != nil {
		problems = append(problems, "as it is, \"fencerow enqueue\" refuses this line: "+err.Error())
	}
	return line, problems
}

// exportPayload puts the payload on one line. A line break can only stand between its parts, where a space
// means the same.
func exportPayload(payload []byte) []byte {
	flat := bytes.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, payload)
	return escapeControls(flat)
}
