package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/config"
	"github.com/fourblocks2020/fencerow/internal/pgstore"
)

//nolint:lll // a struct tag cannot be wrapped
type enqueueCmd struct {
	Own  owned  `embed:""`
	File string `arg:"" optional:"" name:"file" help:"File of JSON lines, one entry a line; - for standard input."`

	CorrelationID *string `name:"correlation-id" env:"FENCEROW_ENQUEUE_CORRELATION_ID" placeholder:"ID" group:"One entry" help:"The entry's identity within the instance: 1 to 200 printable ASCII characters without space."`
	EntryKind     *string `name:"entry-kind" env:"FENCEROW_ENQUEUE_ENTRY_KIND" placeholder:"WORD" group:"One entry" help:"Such as fill, fee or dividend."`
	SlotID        *string `name:"slot-id" env:"FENCEROW_ENQUEUE_SLOT_ID" placeholder:"ID" group:"One entry" help:"The strategy slot that the entry belongs to."`
	CashDelta     *string `name:"cash-delta" env:"FENCEROW_ENQUEUE_CASH_DELTA" placeholder:"DECIMAL" group:"One entry" help:"Effect on the slot's cash, such as -12.50. Write --cash-delta=-12.50 for a negative one."`
	Currency      *string `name:"currency" env:"FENCEROW_ENQUEUE_CURRENCY" placeholder:"CODE" group:"One entry" help:"Required with a cash delta other than 0."`
	Payload       *string `name:"payload" env:"FENCEROW_ENQUEUE_PAYLOAD" placeholder:"JSON" group:"One entry" help:"A JSON object, sent byte for byte. Other users of this machine can read flags; a file cannot be read by them."`
	PayloadFile   *string `name:"payload-file" env:"FENCEROW_ENQUEUE_PAYLOAD_FILE" placeholder:"FILE" group:"One entry" help:"File that holds the payload; - for standard input. Line breaks at its end are not part of it."`
	TraceParent   *string `name:"traceparent" env:"FENCEROW_ENQUEUE_TRACEPARENT" group:"One entry" help:"W3C trace context."`
	Skip          bool    `name:"skip" env:"FENCEROW_ENQUEUE_SKIP" group:"One entry" help:"Record that the slot's step was skipped because this entry is not in the ledger yet. Without a slot it is of none, and ends with this entry alone."`
}

// Help describes the lines.
func (*enqueueCmd) Help() string {
	return `A line is a JSON object with correlation_id, entry_kind and payload (an object, kept byte for byte),
and optionally slot_id, cash_delta (a decimal in quotes), currency, traceparent and skip (true or false); null
is the same as absent, an empty text is refused. Other members are refused. Empty lines are passed over.

A file is checked whole before its first entry is written. Standard input is not kept: entries are written a
thousand at a time, and a bad line ends the command with its own thousand unwritten. Running the command
again is always safe: what is enqueued already is a duplicate. A line whose correlation id is enqueued with
other content is a conflict: it is named, the others are enqueued, and the exit status is 1.`
}

// Validate checks that either lines or one entry are given, and the entry as far as it is in flags. An empty
// text is most likely a variable of a script that was not set, and means nothing.
func (c *enqueueCmd) Validate() error {
	one := c.Skip || c.CashDelta != nil
	for _, text := range []struct {
		flag  string
		given *string
	}{
		{"--correlation-id", c.CorrelationID}, {"--entry-kind", c.EntryKind},
		{"--slot-id", c.SlotID}, {"--currency", c.Currency}, {"--payload", c.Payload},
		{"--payload-file", c.PayloadFile}, {"--traceparent", c.TraceParent},
	} {
		if text.given != nil && *text.given == "" {
			return usage(text.flag, "must not be empty; leave it out")
		}
		one = one || text.given != nil
	}
	switch {
	case c.File != "" && one:
		return usage("<file>", "and flags of one entry are both given; give one of them")
	case c.File == "" && !one:
		return usage("<file>", "is missing; give a file, - for standard input, or --correlation-id and so on")
	case c.File == "" && c.Payload == nil && c.PayloadFile == nil:
		return usage("--payload", "is missing; give a JSON object, or its file with --payload-file "+
			"(FENCEROW_ENQUEUE_PAYLOAD_FILE)")
	case c.Payload != nil && c.PayloadFile != nil:
		return usage("--payload", "and --payload-file are both given; give one of them")
	}
	return nil
}

// Run enqueues.
func (c *enqueueCmd) Run(ctx context.Context, a *app) error {
	if c.File == "" {
		return c.enqueueOne(ctx, a)
	}
	in, size, closeInput, err := a.openLines(ctx, c.File)
	if err != nil {
		return a.finishEnqueue(enqueueDoc{}, err)
	}
	defer closeInput()
	store, err := c.openStore(ctx)
	if err != nil {
		return a.finishEnqueue(enqueueDoc{}, err)
	}
	defer store.Close()
	show := newProgress(a.stderr)
	e := enqueuer{
		app: &app{stdout: a.stdout, stderr: show, json: a.json}, store: store, instance: c.Own.Instance.Key(),
		step: func(bytes int64) { show.update(bytes, size, "bytes") },
	}
	err = e.enqueueLines(ctx, in)
	show.end()
	return a.finishEnqueue(e.doc, err)
}

// openStore opens the store as other commands do, but takes a role that may not read the schema's version, as
// a producer's: the SQL functions are the same in every version.
func (c *enqueueCmd) openStore(ctx context.Context) (*pgstore.Store, error) {
	store, err := c.Own.Database.Open("fencerow")
	if err != nil {
		return nil, err
	}
	if _, err := store.Ready(ctx); err != nil && !errors.Is(err, fencerow.ErrStorePermission) {
		store.Close()
		return nil, err
	}
	return store, nil
}

// finishEnqueue prints what was done, also when an error ended it, but for wrong usage.
func (a *app) finishEnqueue(doc enqueueDoc, err error) error {
	if _, wrong := config.UsageText(err); wrong {
		return err
	}
	printed := a.print(doc, func(t *table) {
		t.line("%d inserted, %d duplicate, %d in conflict", doc.Inserted, doc.Duplicate, doc.Conflict)
	})
	switch {
	case err != nil:
		return err
	case printed != nil:
		return printed
	case doc.Conflict > 0:
		return &statusError{status: 1}
	}
	return nil
}

func (c *enqueueCmd) enqueueOne(ctx context.Context, a *app) error {
	entry, err := c.entry(ctx, a.stdin)
	if err != nil {
		return err
	}
	store, err := c.openStore(ctx)
	if err != nil {
		return a.finishEnqueue(enqueueDoc{}, err)
	}
	defer store.Close()
	e := enqueuer{app: a, store: store, instance: c.Own.Instance.Key()}
	e.add(entry, 0)
	err = e.flush(ctx)
	return a.finishEnqueue(e.doc, err)
}

// entry reads the entry from the flags.
func (c *enqueueCmd) entry(ctx context.Context, stdin io.Reader) (fencerow.NewEntry, error) {
	e := fencerow.NewEntry{
		CorrelationID: fencerow.CorrelationID(orAbsent(c.CorrelationID)), EntryKind: orAbsent(c.EntryKind),
		SlotID: fencerow.SlotID(orAbsent(c.SlotID)), Currency: orAbsent(c.Currency),
		Payload: []byte(orAbsent(c.Payload)), TraceParent: orAbsent(c.TraceParent), OpenSkip: c.Skip,
	}
	var err error
	if c.CashDelta != nil {
		if e.CashDelta, err = fencerow.ParseDecimal("cash_delta", *c.CashDelta); err != nil {
			return e, flagged(err)
		}
	}
	if c.PayloadFile != nil {
		if e.Payload, err = readPayload(ctx, *c.PayloadFile, stdin); err != nil {
			return e, err
		}
	}
	err = flagged(e.Validate())
	if input, ok := errors.AsType[*fencerow.InputError](err); ok && input.Field == "--payload" &&
		c.PayloadFile != nil {
		err = named("--payload-file", err)
	}
	return e, err
}

// orAbsent returns a text that was given, or the empty one that stands for an absent one.
func orAbsent(given *string) string {
	if given == nil {
		return ""
	}
	return *given
}

func readPayload(ctx context.Context, path string, stdin io.Reader) ([]byte, error) {
	in := stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, usage("--payload-file", "%s", unopened(err))
		}
		defer file.Close() //nolint:errcheck // only read
		in = file
	}
	// One byte more than allowed, and the line break at the end, are enough to see that it is too large.
	b, err := io.ReadAll(io.LimitReader(stoppable(ctx, in), fencerow.MaxPayload+3))
	if errors.Is(err, context.Canceled) {
		return nil, err
	}
	if err != nil {
		return nil, usage("--payload-file", "cannot be read")
	}
	for len(b) > 0 && (b[len(b)-1] == '\n' || b[len(b)-1] == '\r') {
		b = b[:len(b)-1]
	}
	return b, nil
}

// enqueuer enqueues in chunks.
type enqueuer struct {
	app      *app
	store    fencerow.Producer
	instance fencerow.InstanceKey
	step     func(bytes int64) // called after each chunk

	doc     enqueueDoc
	entries []fencerow.NewEntry
	lines   []int // of the entries; 0 for one from flags
	size    int   // of their payloads, in bytes
}

const (
	chunkEntries = 1000
	chunkBytes   = 4 << 20
)

func (e *enqueuer) add(entry fencerow.NewEntry, line int) {
	e.entries, e.lines = append(e.entries, entry), append(e.lines, line)
	e.size += len(entry.Payload)
}

func (e *enqueuer) full() bool { return len(e.entries) >= chunkEntries || e.size >= chunkBytes }

// flush enqueues what was added and says which entries are in conflict.
func (e *enqueuer) flush(ctx context.Context) error {
	if len(e.entries) == 0 {
		return nil
	}
	results, err := e.store.EnqueueMany(ctx, fencerow.EnqueueParams{Instance: e.instance, Entries: e.entries})
	if err != nil {
		return err
	}
	for i, r := range results {
		switch r.Result {
		case fencerow.EnqueueInserted:
			e.doc.Inserted++
		case fencerow.EnqueueDuplicate:
			e.doc.Duplicate++
		case fencerow.EnqueueConflict:
			e.doc.Conflict++
			conflict := &fencerow.EnqueueConflictError{CorrelationID: e.entries[i].CorrelationID, OutboxID: r.OutboxID}
			e.app.say("%s%v", lineName(e.lines[i]), conflict)
		}
	}
	e.entries, e.lines, e.size = e.entries[:0], e.lines[:0], 0
	return nil
}

func lineName(line int) string {
	if line == 0 {
		return ""
	}
	return fmt.Sprintf("line %d: ", line)
}

// enqueueLines enqueues an entry a line until the end of the input.
func (e *enqueuer) enqueueLines(ctx context.Context, in io.Reader) error {
	lines := newLineReader(in)
	for {
		entry, err := lines.next()
		switch {
		case errors.Is(err, io.EOF):
			return e.stopped(e.flush(ctx), lines)
		case err != nil:
			return e.stopped(err, lines)
		}
		e.add(entry, lines.number)
		if e.full() {
			if err := e.flush(ctx); err != nil {
				return e.stopped(err, lines)
			}
			if e.step != nil {
				e.step(lines.bytes)
			}
		}
	}
}

// stopped says how far it came before the error, if there is one.
func (e *enqueuer) stopped(err error, lines *lineReader) error {
	if err == nil {
		return nil
	}
	if first := e.firstUnwritten(lines); first > 1 {
		e.app.say("the lines before line %d are enqueued; run the same again to go on: they become duplicates",
			first)
	} else {
		e.app.say("nothing was enqueued")
	}
	return err
}

func (e *enqueuer) firstUnwritten(lines *lineReader) int {
	if len(e.lines) > 0 {
		return e.lines[0]
	}
	return lines.number
}
