package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/fourblocks2020/fencerow"
)

const (
	// lease is so long that a case which does not advance the clock never sees one end, however slow the
	// machine.
	lease = fencerow.MaxLease
	// tolerance is how much of the clock the calls of a case may use up by themselves.
	tolerance = time.Minute
	// farEpoch is ahead of any clock, in microseconds: a clock that has been there and was stepped back.
	farEpoch fencerow.ClaimEpoch = 1 << 53
)

// scene is one case at work: a world, and a worker of one instance in it.
type scene struct {
	TB
	*actor
	world World
}

func newScene(t TB, h Harness) *scene {
	t.Helper()
	w := h.World(t)
	s := &scene{TB: t, world: w}
	s.actor = s.worker(w.Instance())
	return s
}

// worker returns another process's worker of the instance.
func (s *scene) worker(key fencerow.InstanceKey) *actor {
	return &actor{t: s.TB, store: s.world.Open(), key: key, name: "worker-1"}
}

// other returns a worker of another, fresh instance.
func (s *scene) other() *actor { return s.worker(s.world.Instance()) }

// actor is a worker: a store opened by a process, an instance and a worker id. Its methods end the case if a
// call fails.
type actor struct {
	t     TB
	store fencerow.Store
	key   fencerow.InstanceKey
	name  fencerow.WorkerID
	count int // entries enqueued so far
}

// ref is an enqueued entry.
type ref struct {
	id   fencerow.OutboxID
	corr fencerow.CorrelationID
}

// must returns what a call returned, and ends the case if that is an error.
func must[T any](v T, err error) func(TB) T {
	return func(t TB) T {
		t.Helper()
		noError(t, err)
		return v
	}
}

func noError(t TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
}

// plain returns a valid entry with nothing optional.
func plain(corr fencerow.CorrelationID) fencerow.NewEntry {
	return fencerow.NewEntry{CorrelationID: corr, EntryKind: "fill", Payload: json.RawMessage(`{"n":1}`)}
}

// money returns a valid entry of a slot with a cash delta.
func money(corr fencerow.CorrelationID, slot fencerow.SlotID, delta, currency string) fencerow.NewEntry {
	n := plain(corr)
	n.SlotID, n.CashDelta, n.Currency = slot, decimal.RequireFromString(delta), currency
	return n
}

// put enqueues entries, all of which must be new.
func (a *actor) put(entries ...fencerow.NewEntry) []ref {
	a.t.Helper()
	results := must(a.enqueue(entries...))(a.t)
	refs := make([]ref, len(entries))
	for i, r := range results {
		if r.Result != fencerow.EnqueueInserted {
			a.t.Fatalf("enqueue of %s: got %s, want inserted", entries[i].CorrelationID, r.Result)
		}
		refs[i] = ref{id: r.OutboxID, corr: entries[i].CorrelationID}
	}
	return refs
}

func (a *actor) enqueue(entries ...fencerow.NewEntry) ([]fencerow.Enqueued, error) {
	return a.store.EnqueueMany(a.t.Context(), fencerow.EnqueueParams{Instance: a.key, Entries: entries})
}

// fill enqueues n plain entries.
func (a *actor) fill(n int) []ref {
	a.t.Helper()
	entries := make([]fencerow.NewEntry, n)
	for i := range entries {
		entries[i] = plain(a.fresh())
	}
	return a.put(entries...)
}

// fresh returns a correlation id that this worker has not used.
func (a *actor) fresh() fencerow.CorrelationID {
	a.count++
	return fencerow.CorrelationID(fmt.Sprintf("entry-%d", a.count))
}

func (a *actor) tryClaim(limit int) (*fencerow.Claim, error) {
	return a.store.ClaimBatch(a.t.Context(), fencerow.ClaimBatchParams{
		Instance: a.key, Worker: a.name, Token: fencerow.NewClaimToken(), Limit: limit, Lease: lease,
	})
}

// claim claims up to limit rows.
func (a *actor) claim(limit int) *fencerow.Claim {
	a.t.Helper()
	return must(a.tryClaim(limit))(a.t)
}

// claimAll claims what is due and demands that it is exactly the given rows, in any order.
func (a *actor) claimAll(want ...ref) *fencerow.Claim {
	a.t.Helper()
	c := a.claim(fencerow.MaxBatch)
	a.sameRows(c, want...)
	return c
}

func (a *actor) sameRows(c *fencerow.Claim, want ...ref) {
	a.t.Helper()
	got, expected := claimedIDs(c), make([]fencerow.OutboxID, len(want))
	for i, r := range want {
		expected[i] = r.id
	}
	slices.Sort(got)
	slices.Sort(expected)
	if !slices.Equal(got, expected) {
		a.t.Fatalf("claimed rows %v, want %v", got, expected)
	}
}

func claimedIDs(c *fencerow.Claim) []fencerow.OutboxID {
	ids := make([]fencerow.OutboxID, len(c.Entries))
	for i := range c.Entries {
		ids[i] = c.Entries[i].OutboxID
	}
	return ids
}

// claimed returns the row of the claim, which must hold it.
func (a *actor) claimed(c *fencerow.Claim, r ref) *fencerow.ClaimedEntry {
	a.t.Helper()
	i := slices.Index(claimedIDs(c), r.id)
	if i < 0 {
		a.t.Fatalf("the claim does not hold row %d", r.id)
	}
	return &c.Entries[i]
}

func (a *actor) tryOne(corr fencerow.CorrelationID, force bool) (*fencerow.Claim, error) {
	return a.store.ClaimOne(a.t.Context(), fencerow.ClaimOneParams{
		Instance: a.key, Worker: a.name, Token: fencerow.NewClaimToken(), CorrelationID: corr, Lease: lease,
		ForceDue: force,
	})
}

// one claims the entry, due or not, and returns the claim.
func (a *actor) one(r ref) *fencerow.Claim {
	a.t.Helper()
	c := must(a.tryOne(r.corr, true))(a.t)
	a.sameRows(c, r)
	return c
}

// refused demands that a targeted claim is refused for the given reason.
func (a *actor) refused(corr fencerow.CorrelationID, force bool, why fencerow.RefusedWhy) {
	a.t.Helper()
	c, err := a.tryOne(corr, force)
	refusal, ok := errors.AsType[*fencerow.ClaimRefusedError](err)
	if !ok || c != nil || refusal.Why != why {
		a.t.Fatalf("targeted claim: got %v, %v, want a refusal: %s", c, err, why)
	}
	foreign := why == fencerow.RefusedForeign
	if errors.Is(err, fencerow.ErrForeignInstance) != foreign ||
		errors.Is(err, fencerow.ErrUnavailable) == foreign {
		a.t.Fatalf("targeted claim: refusal %s is the wrong code", why)
	}
}

// record records outcomes under the claim's token and returns the verdicts.
func (a *actor) record(c *fencerow.Claim, outcomes ...fencerow.Outcome) []fencerow.Verdict {
	a.t.Helper()
	verdicts, err := a.store.RecordOutcomes(a.t.Context(), fencerow.RecordParams{
		Instance: a.key, Token: c.Token, Outcomes: outcomes,
	})
	noError(a.t, err)
	if len(verdicts) != len(outcomes) {
		a.t.Fatalf("%d verdicts for %d outcomes", len(verdicts), len(outcomes))
	}
	for i := range verdicts {
		if verdicts[i].OutboxID != outcomes[i].OutboxID {
			a.t.Fatalf("verdict %d is about row %d, want %d", i, verdicts[i].OutboxID, outcomes[i].OutboxID)
		}
	}
	return verdicts
}

// apply records outcomes that must all take effect, and returns the verdicts.
func (a *actor) apply(c *fencerow.Claim, outcomes ...fencerow.Outcome) []fencerow.Verdict {
	a.t.Helper()
	verdicts := a.record(c, outcomes...)
	for _, v := range verdicts {
		a.applied(v)
	}
	return verdicts
}

func (a *actor) applied(v fencerow.Verdict) {
	a.t.Helper()
	if !v.Applied || v.Lost != "" {
		a.t.Fatalf("row %d: got %+v, want applied", v.OutboxID, v)
	}
}

// lost demands a verdict of claim lost with what the row has now.
func (a *actor) lost(
	v fencerow.Verdict, why fencerow.LostReason, epoch fencerow.ClaimEpoch, kind fencerow.OutcomeKind,
) {
	a.t.Helper()
	// What was recorded last has cases of its own.
	want := fencerow.Verdict{
		OutboxID:      v.OutboxID,
		Lost:          why,
		Epoch:         epoch,
		Outcome:       kind,
		RecordedEpoch: v.RecordedEpoch,
		Reason:        v.Reason,
	}
	if v != want {
		a.t.Fatalf("row %d: got %+v, want %+v", v.OutboxID, v, want)
	}
}

func (a *actor) tryRelease(c *fencerow.Claim, rows ...fencerow.ReleaseRow) ([]fencerow.Verdict, error) {
	return a.store.Release(a.t.Context(), fencerow.ReleaseParams{Instance: a.key, Token: c.Token, Rows: rows})
}

// release releases rows under the claim's token, none of them uncertain, and returns the verdicts.
func (a *actor) release(c *fencerow.Claim, refs ...ref) []fencerow.Verdict {
	a.t.Helper()
	rows := make([]fencerow.ReleaseRow, len(refs))
	for i, r := range refs {
		rows[i].OutboxID = r.id
	}
	return must(a.tryRelease(c, rows...))(a.t)
}

// releaseAll releases whatever the claim holds.
func (a *actor) releaseAll(c *fencerow.Claim, uncertain bool) []fencerow.Verdict {
	a.t.Helper()
	verdicts, err := a.store.Release(a.t.Context(), fencerow.ReleaseParams{
		Instance: a.key, Token: c.Token, All: true, Uncertain: uncertain,
	})
	return must(verdicts, err)(a.t)
}

func (a *actor) tryRequeue(r ref, from fencerow.Status) error {
	return a.store.Requeue(a.t.Context(), fencerow.RequeueParams{
		Instance: a.key, CorrelationID: r.corr, From: from,
	})
}

func (a *actor) requeue(r ref, from fencerow.Status) {
	a.t.Helper()
	noError(a.t, a.tryRequeue(r, from))
}

// finish claims the entry and ends it with the given outcome.
func (a *actor) finish(r ref, kind fencerow.OutcomeKind) fencerow.ClaimEpoch {
	a.t.Helper()
	c := a.one(r)
	a.apply(c, outcome(r, kind))
	return c.Epoch
}

// outcome returns a valid outcome of the kind; a retryable one counts its attempt and is due again at once.
func outcome(r ref, kind fencerow.OutcomeKind) fencerow.Outcome {
	o := fencerow.Outcome{OutboxID: r.id, Kind: kind, Charge: fencerow.ChargeAttempt}
	if !kind.Success() {
		o.Reason = fencerow.ReasonLedgerError
	}
	return o
}

// retry returns a retryable outcome that is due again after the delay.
func retry(r ref, delay time.Duration) fencerow.Outcome {
	o := outcome(r, fencerow.OutcomeRetryableFailure)
	o.Delay = delay
	return o
}

func (a *actor) tryShow(corr fencerow.CorrelationID) (*fencerow.EntryState, error) {
	return a.store.Show(a.t.Context(), fencerow.EntryParams{Instance: a.key, CorrelationID: corr})
}

func (a *actor) show(r ref) *fencerow.EntryState {
	a.t.Helper()
	return must(a.tryShow(r.corr))(a.t)
}

// pending returns the pending half of an entry that must be pending.
func (a *actor) pending(r ref) *fencerow.PendingEntry {
	a.t.Helper()
	state := a.show(r)
	if state.Pending == nil || state.Status != fencerow.StatusPending {
		a.t.Fatalf("row %d is %s, want pending", r.id, state.Status)
	}
	return state.Pending
}

func (a *actor) list() []fencerow.PendingEntry {
	a.t.Helper()
	listed, err := a.store.ListPending(a.t.Context(), fencerow.ListPendingParams{
		Instance: a.key, Limit: fencerow.MaxPage,
	})
	return must(listed, err)(a.t)
}

func (a *actor) sum(slot fencerow.SlotID) []fencerow.CashDelta {
	a.t.Helper()
	sums, err := a.store.PendingCashDelta(a.t.Context(), fencerow.CashDeltaParams{Instance: a.key, Slot: slot})
	return must(sums, err)(a.t)
}

func (a *actor) counts() *fencerow.Counts {
	a.t.Helper()
	return must(a.store.Counts(a.t.Context(), a.key))(a.t)
}

func (a *actor) claims() []fencerow.LeaseInfo {
	a.t.Helper()
	return must(a.store.Claims(a.t.Context(), a.key))(a.t)
}

func (a *actor) slots() []fencerow.Slot {
	a.t.Helper()
	return must(a.store.Slots(a.t.Context(), a.key))(a.t)
}

// picture renders all that can be seen of the instance and the given entries, but for ages. Two pictures are
// equal if nothing changed; the clock must not be advanced between them.
func (a *actor) picture(refs ...ref) string {
	a.t.Helper()
	var b strings.Builder
	show := func(v any) {
		text, err := json.MarshalIndent(v, "", " ")
		noError(a.t, err)
		b.Write(text)
		b.WriteByte('\n')
	}
	for _, r := range refs {
		state := a.show(r)
		if state.Lease != nil {
			state.Lease.Age, state.Lease.Remaining = 0, 0
		}
		if state.Pending != nil {
			state.Pending.DueFor = 0
		}
		show(state)
	}
	leases := a.claims()
	for i := range leases {
		leases[i].Age, leases[i].Remaining = 0, 0
	}
	counts := a.counts()
	counts.OldestDue, counts.OldestPending = 0, 0
	show(leases)
	show(counts)
	show(a.slots())
	return b.String()
}

// unchanged demands that two pictures are the same.
func (a *actor) unchanged(before, after string) {
	a.t.Helper()
	if before != after {
		a.t.Fatalf("something changed; before:\n%s\nafter:\n%s", before, after)
	}
}

// near reports whether a duration is at least want and not more than the tolerance above it.
func near(got, want time.Duration) bool { return got >= want && got <= want+tolerance }
