package storetest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/fourblocks2020/fencerow"
)

func boundCases() []testCase {
	return []testCase{
		{"MalformedInstanceKeyIsRefusedByEveryMethod", malformedInstanceKey},
		{"MalformedParameterIsRefusedAndChangesNothing", malformedParameter},
		{"MalformedEntryIsRefused", malformedEntry},
		{"MalformedOutcomeIsRefused", malformedOutcome},
		{"RowNamedTwiceIsRefused", rowNamedTwice},
		{"ParametersAtTheirBoundsAreAccepted", parametersAtTheirBounds},
	}
}

// badInput demands an input error that does not repeat what was given.
func (a *actor) badInput(what string, got any, err error) {
	a.t.Helper()
	input, ok := errors.AsType[*fencerow.InputError](err)
	if !ok || !errors.Is(err, fencerow.ErrInvalidInput) {
		a.t.Errorf("%s: got %v, %v, want an input error", what, got, err)
		return
	}
	if input.Field == "" || input.Problem == "" || strings.Contains(err.Error(), sentinel) {
		a.t.Errorf("%s: %q does not name the field, or repeats its value", what, err)
	}
}

// sentinel is in every bad value here, and must be in no error.
const sentinel = "s3ntinel"

// tooLong is longer than any name may be.
const (
	fifty   = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
	tooLong = fifty + fifty + fifty + fifty + "x"
)

// everyCall returns a valid call of every method that takes an instance, on a row that the claim holds.
func everyCall(
	store fencerow.Store, key fencerow.InstanceKey, c *fencerow.Claim, r ref,
) map[string]func(context.Context) error {
	token := fencerow.NewClaimToken
	return map[string]func(context.Context) error{
		"EnqueueMany": func(ctx context.Context) error {
			_, err := store.EnqueueMany(ctx, fencerow.EnqueueParams{
				Instance: key, Entries: []fencerow.NewEntry{plain("fresh")},
			})
			return err
		},
		"Register": func(ctx context.Context) error { return store.Register(ctx, key) },
		"ClaimBatch": func(ctx context.Context) error {
			_, err := store.ClaimBatch(ctx, fencerow.ClaimBatchParams{
				Instance: key, Worker: "w", Token: token(), Limit: 1, Lease: lease,
			})
			return err
		},
		"ClaimOne": func(ctx context.Context) error {
			_, err := store.ClaimOne(ctx, fencerow.ClaimOneParams{
				Instance: key, Worker: "w", Token: token(), CorrelationID: r.corr, Lease: lease,
			})
			return err
		},
		"RecordOutcomes": func(ctx context.Context) error {
			_, err := store.RecordOutcomes(ctx, fencerow.RecordParams{
				Instance: key, Token: c.Token, Outcomes: []fencerow.Outcome{outcome(r, fencerow.OutcomeCompleted)},
			})
			return err
		},
		"Release": func(ctx context.Context) error {
			_, err := store.Release(ctx, fencerow.ReleaseParams{Instance: key, Token: c.Token, All: true})
			return err
		},
		"ListPending": func(ctx context.Context) error {
			_, err := store.ListPending(ctx, fencerow.ListPendingParams{Instance: key, Limit: 1})
			return err
		},
		"ListBlocked": func(ctx context.Context) error {
			_, err := store.ListBlocked(ctx, fencerow.ListBlockedParams{Instance: key, Limit: 1})
			return err
		},
		"PendingCashDelta": func(ctx context.Context) error {
			_, err := store.PendingCashDelta(ctx, fencerow.CashDeltaParams{Instance: key})
			return err
		},
		"Show": func(ctx context.Context) error {
			_, err := store.Show(ctx, fencerow.EntryParams{Instance: key, CorrelationID: r.corr})
			return err
		},
		"Counts": func(ctx context.Context) error {
			_, err := store.Counts(ctx, key)
			return err
		},
		"Claims": func(ctx context.Context) error {
			_, err := store.Claims(ctx, key)
			return err
		},
		"Slots": func(ctx context.Context) error {
			_, err := store.Slots(ctx, key)
			return err
		},
		"Requeue": func(ctx context.Context) error {
			return store.Requeue(ctx, fencerow.RequeueParams{
				Instance: key, CorrelationID: r.corr, From: fencerow.StatusDeadLettered,
			})
		},
		"Prune": func(ctx context.Context) error {
			_, err := store.Prune(ctx, fencerow.PruneParams{Instance: key, Limit: 1})
			return err
		},
		"Hold": func(ctx context.Context) error {
			_, err := store.Hold(ctx, key)
			return err
		},
		"Resume": func(ctx context.Context) error {
			_, err := store.Resume(ctx, key)
			return err
		},
		"NameSlot": func(ctx context.Context) error {
			return store.NameSlot(ctx, fencerow.NameSlotParams{Instance: key, Slot: "slot-1", Strategy: "carry"})
		},
	}
}

func malformedInstanceKey(s *scene) {
	r := s.fill(1)[0]
	c := s.one(r)
	before := s.picture(r)
	for _, key := range []fencerow.InstanceKey{
		"", " ", "a b" + sentinel, "tab\t" + sentinel, "nul\x00" + sentinel, "ü" + sentinel, "\xff" + sentinel,
		"del\x7f" + sentinel,
		sentinel + "\n", fencerow.InstanceKey(strings.Repeat("k", fencerow.MaxInstanceKey+1)),
	} {
		for name, call := range everyCall(s.store, key, c, r) {
			s.badInput(name+" by a malformed key", nil, call(s.Context()))
		}
	}
	s.unchanged(before, s.picture(r))
}

func malformedParameter(s *scene) {
	r := s.fill(1)[0]
	c := s.one(r)
	before := s.picture(r)
	ctx := s.Context()
	batch := func(change func(*fencerow.ClaimBatchParams)) error {
		p := fencerow.ClaimBatchParams{
			Instance: s.key, Worker: "w", Token: fencerow.NewClaimToken(), Limit: 1, Lease: lease,
		}
		change(&p)
		_, err := s.store.ClaimBatch(ctx, p)
		return err
	}
	one := func(change func(*fencerow.ClaimOneParams)) error {
		p := fencerow.ClaimOneParams{
			Instance: s.key, Worker: "w", Token: fencerow.NewClaimToken(), CorrelationID: r.corr, Lease: lease,
			ForceDue: true,
		}
		change(&p)
		_, err := s.store.ClaimOne(ctx, p)
		return err
	}
	release := func(change func(*fencerow.ReleaseParams)) error {
		p := fencerow.ReleaseParams{Instance: s.key, Token: c.Token, Rows: []fencerow.ReleaseRow{{OutboxID: r.id}}}
		change(&p)
		_, err := s.store.Release(ctx, p)
		return err
	}
	list := func(change func(*fencerow.ListPendingParams)) error {
		p := fencerow.ListPendingParams{Instance: s.key, Limit: 1}
		change(&p)
		_, err := s.store.ListPending(ctx, p)
		return err
	}
	blocked := func(change func(*fencerow.ListBlockedParams)) error {
		p := fencerow.ListBlockedParams{Instance: s.key, Limit: 1}
		change(&p)
		_, err := s.store.ListBlocked(ctx, p)
		return err
	}
	prune := func(change func(*fencerow.PruneParams)) error {
		p := fencerow.PruneParams{Instance: s.key, Limit: 1}
		change(&p)
		_, err := s.store.Prune(ctx, p)
		return err
	}
	show := func(corr fencerow.CorrelationID) error {
		_, err := s.tryShow(corr)
		return err
	}
	requeue := func(corr fencerow.CorrelationID, from fencerow.Status) error {
		return s.tryRequeue(ref{corr: corr}, from)
	}
	name := func(slot fencerow.SlotID, strategy string) error {
		return s.store.NameSlot(ctx, fencerow.NameSlotParams{Instance: s.key, Slot: slot, Strategy: strategy})
	}
	record := func(change func(*fencerow.RecordParams)) error {
		p := fencerow.RecordParams{
			Instance: s.key, Token: c.Token, Outcomes: []fencerow.Outcome{outcome(r, fencerow.OutcomeCompleted)},
		}
		change(&p)
		_, err := s.store.RecordOutcomes(ctx, p)
		return err
	}
	sum := func(slot fencerow.SlotID) error {
		_, err := s.store.PendingCashDelta(ctx, fencerow.CashDeltaParams{Instance: s.key, Slot: slot})
		return err
	}
	export := func(corr string) error {
		_, err := s.store.LegacyExport(ctx, corr)
		return err
	}
	tooMany := make([]fencerow.ReleaseRow, fencerow.MaxBatch+1)
	outcomes := make([]fencerow.Outcome, fencerow.MaxBatch+1)
	for i := range tooMany {
		tooMany[i].OutboxID = fencerow.OutboxID(i + 1)
		outcomes[i] = outcome(ref{id: fencerow.OutboxID(i + 1)}, fencerow.OutcomeCompleted)
	}
	for what, err := range map[string]error{
		"claim of 0":              batch(func(p *fencerow.ClaimBatchParams) { p.Limit = 0 }),
		"claim of -1":             batch(func(p *fencerow.ClaimBatchParams) { p.Limit = -1 }),
		"claim of too many":       batch(func(p *fencerow.ClaimBatchParams) { p.Limit = fencerow.MaxBatch + 1 }),
		"lease too short":         batch(func(p *fencerow.ClaimBatchParams) { p.Lease = fencerow.MinLease - 1 }),
		"lease too long":          batch(func(p *fencerow.ClaimBatchParams) { p.Lease = fencerow.MaxLease + 1 }),
		"lease below zero":        batch(func(p *fencerow.ClaimBatchParams) { p.Lease = -lease }),
		"no token":                batch(func(p *fencerow.ClaimBatchParams) { p.Token = fencerow.ClaimToken{} }),
		"no worker":               batch(func(p *fencerow.ClaimBatchParams) { p.Worker = "" }),
		"worker with a space":     batch(func(p *fencerow.ClaimBatchParams) { p.Worker = sentinel + " x" }),
		"worker too long":         batch(func(p *fencerow.ClaimBatchParams) { p.Worker = tooLong }),
		"targeted, no token":      one(func(p *fencerow.ClaimOneParams) { p.Token = fencerow.ClaimToken{} }),
		"targeted, no worker":     one(func(p *fencerow.ClaimOneParams) { p.Worker = "" }),
		"targeted, lease":         one(func(p *fencerow.ClaimOneParams) { p.Lease = 0 }),
		"targeted, no id":         one(func(p *fencerow.ClaimOneParams) { p.CorrelationID = "" }),
		"targeted, id":            one(func(p *fencerow.ClaimOneParams) { p.CorrelationID = sentinel + "\x00" }),
		"release, no token":       release(func(p *fencerow.ReleaseParams) { p.Token = fencerow.ClaimToken{} }),
		"release of nothing":      release(func(p *fencerow.ReleaseParams) { p.Rows = nil }),
		"release of too many":     release(func(p *fencerow.ReleaseParams) { p.Rows = tooMany }),
		"release of all and some": release(func(p *fencerow.ReleaseParams) { p.All = true }),
		"uncertain of some":       release(func(p *fencerow.ReleaseParams) { p.Uncertain = true }),
		"release of row 0":        release(func(p *fencerow.ReleaseParams) { p.Rows[0].OutboxID = 0 }),
		"record, no token":        record(func(p *fencerow.RecordParams) { p.Token = fencerow.ClaimToken{} }),
		"record of nothing":       record(func(p *fencerow.RecordParams) { p.Outcomes = nil }),
		"record of too many":      record(func(p *fencerow.RecordParams) { p.Outcomes = outcomes }),
		"list of 0":               list(func(p *fencerow.ListPendingParams) { p.Limit = 0 }),
		"list of too many":        list(func(p *fencerow.ListPendingParams) { p.Limit = fencerow.MaxPage + 1 }),
		"list after row -1":       list(func(p *fencerow.ListPendingParams) { p.After.OutboxID = -1 }),
		"list after all time": list(func(p *fencerow.ListPendingParams) {
			p.After.DueAt = time.Unix(1<<55, 0)
		}),
		"list before all time": list(func(p *fencerow.ListPendingParams) {
			p.After.DueAt = time.Unix(-1<<55, 0)
		}),
		"blocked of 0":             blocked(func(p *fencerow.ListBlockedParams) { p.Limit = 0 }),
		"blocked of too many":      blocked(func(p *fencerow.ListBlockedParams) { p.Limit = fencerow.MaxPage + 1 }),
		"blocked after row -1":     blocked(func(p *fencerow.ListBlockedParams) { p.After = -1 }),
		"blocked that are pending": blocked(func(p *fencerow.ListBlockedParams) { p.Status = "pending" }),
		"blocked of no status":     blocked(func(p *fencerow.ListBlockedParams) { p.Status = sentinel }),
		"prune of 0":               prune(func(p *fencerow.PruneParams) { p.Limit = 0 }),
		"prune of too many":        prune(func(p *fencerow.PruneParams) { p.Limit = fencerow.MaxBatch + 1 }),
		"prune of the future":      prune(func(p *fencerow.PruneParams) { p.OlderThan = -1 }),
		"prune after row -1":       prune(func(p *fencerow.PruneParams) { p.After = -1 }),
		"show of no id":            show(""),
		"show of a long id":        show(tooLong),
		"requeue of no id":         requeue("", fencerow.StatusDeadLettered),
		"requeue from pending":     requeue(r.corr, fencerow.StatusPending),
		"requeue from completed":   requeue(r.corr, fencerow.StatusCompleted),
		"requeue from nowhere":     requeue(r.corr, ""),
		"requeue from elsewhere":   requeue(r.corr, sentinel),
		"sum of a malformed slot":  sum("a b" + sentinel),
		"naming of no slot":        name("", "carry"),
		"naming of a long slot":    name(fencerow.SlotID(strings.Repeat("s", fencerow.MaxSlotID+1)), "carry"),
		"no strategy":              name("slot-1", ""),
		"long strategy":            name("slot-1", strings.Repeat("s", fencerow.MaxStrategy+1)),
		"strategy begun by space":  name("slot-1", " "+sentinel),
		"strategy ended by space":  name("slot-1", sentinel+" "),
		"strategy of two lines":    name("slot-1", sentinel+"\n"+sentinel),
		"strategy beyond ASCII":    name("slot-1", sentinel+"ü"),
		"export of a NUL":          export(sentinel + "\x00"),
		"export of invalid UTF-8":  export(sentinel + "\xff"),
		"export of a very long id": export(strings.Repeat("x", fencerow.MaxPayload+1)),
	} {
		s.badInput(what, nil, err)
	}
	s.unchanged(before, s.picture(r))
}

// with returns the outcome, changed.
func with(o fencerow.Outcome, change func(*fencerow.Outcome)) fencerow.Outcome {
	change(&o)
	return o
}

func rowNamedTwice(s *scene) {
	refs := s.fill(2)
	c := s.claimAll(refs...)
	before := s.picture(refs...)
	done, again := outcome(refs[0], fencerow.OutcomeCompleted), outcome(refs[1], fencerow.OutcomeCompleted)
	verdicts, err := s.store.RecordOutcomes(s.Context(), fencerow.RecordParams{
		Instance: s.key, Token: c.Token, Outcomes: []fencerow.Outcome{done, again, retry(refs[0], 0)},
	})
	s.badInput("a record that names a row twice", verdicts, err)
	verdicts, err = s.tryRelease(c, fencerow.ReleaseRow{OutboxID: refs[0].id},
		fencerow.ReleaseRow{OutboxID: refs[0].id})
	s.badInput("a release that names a row twice", verdicts, err)
	s.unchanged(before, s.picture(refs...))
}

func parametersAtTheirBounds(s *scene) {
	s.fill(2)
	ctx := s.Context()
	for _, p := range []fencerow.ClaimBatchParams{
		{Limit: 1, Lease: fencerow.MaxLease, Worker: "w"},
		{
			Limit: fencerow.MaxBatch, Lease: fencerow.MinLease,
			Worker: fencerow.WorkerID(strings.Repeat("~", fencerow.MaxWorkerID)),
		},
	} {
		p.Instance, p.Token = s.key, fencerow.NewClaimToken()
		if c := must(s.store.ClaimBatch(ctx, p))(s); len(c.Entries) != 1 ||
			c.LeaseExpiresAt.Sub(c.ClaimedAt) != p.Lease {
			s.Errorf("claimed %d rows with lease %v", len(c.Entries), p.Lease)
		}
	}
	r := s.put(plain("at-the-bounds"))[0]
	c := s.one(r)
	s.apply(c, with(retry(r, fencerow.MaxDelay), func(o *fencerow.Outcome) {
		o.Reason = fencerow.ReasonCode("r" + strings.Repeat("_", 63))
	}))
	if p := s.pending(r); p.Due || len(p.LastReason) != 64 {
		s.Errorf("pending %+v is due, or lost its reason", *p)
	}
	s.world.Advance(fencerow.MaxDelay)
	s.one(r)
	must(s.store.ListPending(ctx, fencerow.ListPendingParams{Instance: s.key, Limit: 1}))(s)
	must(s.store.ListBlocked(ctx, fencerow.ListBlockedParams{Instance: s.key, Limit: fencerow.MaxPage}))(s)
	must(s.store.Prune(ctx, fencerow.PruneParams{
		Instance: s.key, Limit: fencerow.MaxBatch, OlderThan: 1<<63 - 1,
	}))(s)
	noError(s, s.store.NameSlot(ctx, fencerow.NameSlotParams{
		Instance: s.key, Slot: "s", Strategy: "a " + strings.Repeat("~", fencerow.MaxStrategy-2),
	}))
	rest := strings.Repeat("k", fencerow.MaxInstanceKey-len(s.key))
	longest := s.worker(s.key + fencerow.InstanceKey(rest))
	longest.fill(1)
	if len(longest.claim(1).Entries) != 1 {
		s.Errorf("an instance of the longest key cannot claim")
	}
}
