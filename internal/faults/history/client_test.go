package history

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/fourblocks2020/fencerow"
)

// scene is a store, some rows and the history of what was done to them.
type scene struct {
	t        testing.TB
	instance fencerow.InstanceKey
	now      func() time.Time // the store's clock
	pace     time.Duration    // the longest pause between two calls of one client
	rows     int
	lease    time.Duration
	// abandon ends the run: a call did not say whether it was done, so that the history proves nothing.
	abandon context.CancelFunc

	mu      sync.Mutex
	history []porcupine.Operation
	ids     []fencerow.OutboxID
}

func rowID(row int) fencerow.CorrelationID {
	return fencerow.CorrelationID(fmt.Sprintf("row-%d", row))
}

// fill enqueues the rows.
func (s *scene) fill(ctx context.Context, store fencerow.Store) {
	s.t.Helper()
	if err := store.Register(ctx, s.instance); err != nil {
		s.t.Fatal(err)
	}
	entries := make([]fencerow.NewEntry, s.rows)
	for row := range entries {
		entries[row] = fencerow.NewEntry{CorrelationID: rowID(row), EntryKind: "fill", Payload: []byte(`{}`)}
	}
	results, err := store.EnqueueMany(ctx, fencerow.EnqueueParams{Instance: s.instance, Entries: entries})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, r := range results {
		s.ids = append(s.ids, r.OutboxID)
	}
}

// run lets clients work for a while, each on a store of its own, and returns what the checker says. It is
// unknown if a call did not say whether it was done.
func (s *scene) run(d time.Duration, open func() fencerow.Store) porcupine.CheckResult {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), d)
	defer cancel()
	doubtful := false
	s.abandon = func() { doubtful = true; cancel() } // under the lock
	var working sync.WaitGroup
	for n := range clients {
		c := &client{scene: s, number: n, store: open(), random: rand.New(rand.NewPCG(uint64(n), 7))}
		working.Go(func() { c.work(ctx) })
	}
	working.Wait()
	if doubtful {
		return porcupine.Unknown
	}
	counts := map[string]int{}
	for _, op := range s.history {
		//nolint:errcheck // the history holds nothing else
		counts[fmt.Sprintf("%s %t", op.Input.(call).verb, op.Output.(answer).done)]++
	}
	s.t.Logf("%d calls on %d rows: %v", len(s.history), s.rows, counts)
	for _, what := range []string{"claim true", "claim false", "record true", "record false", "release true",
		"release false", "requeue true"} {
		if counts[what] == 0 {
			s.t.Errorf("the history has no %q", what)
		}
	}
	return porcupine.CheckOperationsTimeout(model, s.history, time.Minute)
}

// held is a claim as a client remembers it, for ever: it comes back to claims that it has long lost.
type held struct {
	row   int
	token fencerow.ClaimToken
}

// client does one call after the other.
type client struct {
	*scene
	number int
	store  fencerow.Store
	random *rand.Rand
	claims []held
}

func (c *client) work(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		// A call that has begun is let end: whether it was done would not be known otherwise.
		c.call(context.WithoutCancel(ctx))
		pause.Reset(time.Duration(c.random.Int64N(int64(c.pace))))
	}
}

func (c *client) call(ctx context.Context) {
	switch n := c.random.IntN(20); {
	case n < 6 || len(c.claims) == 0:
		c.claimOne(ctx)
	case n < 8:
		c.claimBatch(ctx)
	case n < 10:
		c.requeue(ctx)
	default:
		// Mostly the latest claim, else any earlier one.
		h := c.claims[len(c.claims)-1]
		if c.random.IntN(3) == 0 {
			h = c.claims[c.random.IntN(len(c.claims))]
		}
		if n < 13 {
			c.release(ctx, h)
			return
		}
		c.record(ctx, h)
	}
}

// note adds an operation to the history.
func (c *client) note(in call, out answer, began, returned time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = append(c.history, porcupine.Operation{
		ClientId: c.number, Input: in, Output: out, Call: began.UnixNano(), Return: returned.UnixNano(),
	})
}

func (c *client) claimOne(ctx context.Context) {
	row, token := c.random.IntN(c.rows), fencerow.NewClaimToken()
	began := c.now()
	made, err := c.store.ClaimOne(ctx, fencerow.ClaimOneParams{
		Instance: c.instance, Worker: fencerow.WorkerID(fmt.Sprint("client-", c.number)), Token: token,
		CorrelationID: rowID(row), Lease: c.lease, ForceDue: true,
	})
	in, returned := call{verb: claim, row: row, token: token, begun: began}, c.now()
	refused, isRefused := errors.AsType[*fencerow.ClaimRefusedError](err)
	switch {
	case err == nil:
		c.note(in, answerOf(made, 0, returned), began, returned)
		c.claims = append(c.claims, held{row, token})
	case isRefused:
		c.note(in, answer{refused: refused.Why, returned: returned}, began, returned)
	default:
		c.unexpected("claim one", err)
	}
}

func answerOf(made *fencerow.Claim, i int, returned time.Time) answer {
	e := &made.Entries[i]
	return answer{
		done: true, returned: returned, epoch: made.Epoch, attempt: e.Attempt, life: e.Life,
		uncertain: e.Uncertain, at: made.ClaimedAt, leaseEnd: made.LeaseExpiresAt,
	}
}

// claimBatch is a claim of each row that it brings, and says nothing of the others.
func (c *client) claimBatch(ctx context.Context) {
	token, began := fencerow.NewClaimToken(), c.now()
	made, err := c.store.ClaimBatch(ctx, fencerow.ClaimBatchParams{
		Instance: c.instance, Worker: fencerow.WorkerID(fmt.Sprint("client-", c.number)), Token: token,
		Limit: 1 + c.random.IntN(3), Lease: c.lease,
	})
	returned := c.now()
	if err != nil {
		c.unexpected("claim batch", err)
		return
	}
	for i := range made.Entries {
		var row int
		if _, err := fmt.Sscanf(string(made.Entries[i].CorrelationID), "row-%d", &row); err != nil {
			c.t.Errorf("claimed %s", made.Entries[i].CorrelationID)
			continue
		}
		in := call{verb: claim, row: row, token: token, begun: began}
		c.note(in, answerOf(made, i, returned), began, returned)
		c.claims = append(c.claims, held{row, token})
	}
}

func (c *client) record(ctx context.Context, h held) {
	o := fencerow.Outcome{
		OutboxID: c.ids[h.row], Kind: fencerow.OutcomeRetryableFailure, Reason: fencerow.ReasonLedgerError,
		Charge: fencerow.Charge(c.random.IntN(3) - 1), Uncertain: c.random.IntN(4) == 0,
	}
	switch c.random.IntN(40) {
	case 0:
		o = fencerow.Outcome{OutboxID: o.OutboxID, Kind: fencerow.OutcomeCompleted}
	case 1, 2, 3, 4, 5, 6, 7, 8:
		o = fencerow.Outcome{
			OutboxID: o.OutboxID, Kind: fencerow.OutcomeDeadLettered, Reason: fencerow.ReasonLedgerError,
		}
	}
	began := c.now()
	verdicts, err := c.store.RecordOutcomes(ctx, fencerow.RecordParams{
		Instance: c.instance, Token: h.token, Outcomes: []fencerow.Outcome{o},
	})
	returned := c.now()
	if err != nil {
		c.unexpected("record", err)
		return
	}
	c.note(call{
		verb: record, row: h.row, token: h.token, outcome: o.Kind, charge: o.Charge, uncertain: o.Uncertain,
		begun: began,
	}, answer{done: verdicts[0].Applied, returned: returned}, began, returned)
}

func (c *client) release(ctx context.Context, h held) {
	row := fencerow.ReleaseRow{OutboxID: c.ids[h.row], Uncertain: c.random.IntN(2) == 0}
	began := c.now()
	verdicts, err := c.store.Release(ctx, fencerow.ReleaseParams{
		Instance: c.instance, Token: h.token, Rows: []fencerow.ReleaseRow{row},
	})
	returned := c.now()
	if err != nil {
		c.unexpected("release", err)
		return
	}
	c.note(call{verb: release, row: h.row, token: h.token, uncertain: row.Uncertain, begun: began},
		answer{done: verdicts[0].Applied, returned: returned}, began, returned)
}

func (c *client) requeue(ctx context.Context) {
	row, began := c.random.IntN(c.rows), c.now()
	err := c.store.Requeue(ctx, fencerow.RequeueParams{
		Instance: c.instance, CorrelationID: rowID(row), From: fencerow.StatusDeadLettered,
	})
	returned := c.now()
	if err != nil && !errors.Is(err, fencerow.ErrWrongStatus) {
		c.unexpected("requeue", err)
		return
	}
	out := answer{done: err == nil, returned: returned}
	c.note(call{verb: requeue, row: row, begun: began}, out, began, returned)
}

// unexpected fails the test unless the store said that it was busy, and so did nothing, or that it could not
// say in time what it did.
func (c *client) unexpected(what string, err error) {
	switch {
	case errors.Is(err, fencerow.ErrStoreBusy):
	case errors.Is(err, fencerow.ErrStoreTimeout):
		c.mu.Lock()
		defer c.mu.Unlock()
		c.abandon()
	default:
		c.t.Errorf("%s: %v", what, err)
	}
}
