package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/pgstore"
)

const instance fencerow.InstanceKey = "desk-1"

// Correlation ids of rows without an owner. The instance enqueues the shared one too, the others not.
const shared = fencerow.CorrelationID("plain-1")

var unowned = []fencerow.CorrelationID{"plain-2", "repeated", "scalar"}

// legacyIDs are numbers of rows without an owner that a caller could name.
var legacyIDs = []fencerow.OutboxID{1, 2, 3, 13, 101, 200, 4294967296, 9223372036854775807}

// verb is one use of a method of the store that must not reach the rows without an owner.
type verb struct {
	method string // of fencerow.Store
	use    func(context.Context, fencerow.Store) error
}

func want(ok bool, have ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf("got %+v", have)
}

// mustBeForeign wants a refusal of each unowned correlation id.
func mustBeForeign(use func(fencerow.CorrelationID) error) error {
	for _, id := range unowned {
		if err := use(id); !errors.Is(err, fencerow.ErrForeignInstance) {
			return fmt.Errorf("%s: %w", id, err)
		}
	}
	return nil
}

// mustLose wants each of the numbers to be lost as one that this instance does not have.
func mustLose(verdicts []fencerow.Verdict, err error) error {
	if err != nil || len(verdicts) != len(legacyIDs) {
		return want(false, verdicts, err)
	}
	for _, v := range verdicts {
		if v.Applied || v.Lost != fencerow.LostMissing || v.Epoch != 0 || v.Outcome != "" {
			return want(false, v)
		}
	}
	return nil
}

// verbs use every method of the store, in an order in which each has something of its own to work on.
func verbs(before int) []verb {
	token := fencerow.NewClaimToken()
	entry := func(id fencerow.CorrelationID) fencerow.NewEntry {
		return fencerow.NewEntry{
			CorrelationID: id, EntryKind: "fill", SlotID: "slot-1", Currency: "USD", OpenSkip: true,
			CashDelta: decimal.RequireFromString("2.5"), Payload: json.RawMessage(`{"own": true}`),
		}
	}
	own := func(name string) fencerow.EntryParams {
		return fencerow.EntryParams{Instance: instance, CorrelationID: fencerow.CorrelationID(name)}
	}
	claimOne := func(ctx context.Context, s fencerow.Store, id fencerow.CorrelationID, force bool) error {
		claim, err := s.ClaimOne(ctx, fencerow.ClaimOneParams{
			Instance: instance, Worker: "w", Token: fencerow.NewClaimToken(), CorrelationID: id,
			Lease: time.Minute, ForceDue: force,
		})
		if err != nil {
			return err
		}
		return want(len(claim.Entries) == 1 && claim.Entries[0].CorrelationID == id, claim)
	}
	claimed := map[fencerow.CorrelationID]fencerow.OutboxID{}
	return []verb{
		{"Register", func(ctx context.Context, s fencerow.Store) error { return s.Register(ctx, instance) }},
		{"Ready", func(ctx context.Context, s fencerow.Store) error { _, err := s.Ready(ctx); return err }},
		{"EnqueueMany", func(ctx context.Context, s fencerow.Store) error {
			for _, result := range []fencerow.EnqueueResult{fencerow.EnqueueInserted, fencerow.EnqueueDuplicate} {
				all, err := s.EnqueueMany(ctx, fencerow.EnqueueParams{Instance: instance, Entries: []fencerow.NewEntry{
					entry(shared), entry("own-2"), entry("own-3"), entry("own-4"),
				}})
				if err != nil || slices.ContainsFunc(all, func(e fencerow.Enqueued) bool { return e.Result != result }) {
					return want(false, all, err)
				}
			}
			return nil
		}},
		{"ClaimBatch", func(ctx context.Context, s fencerow.Store) error {
			claim, err := s.ClaimBatch(ctx, fencerow.ClaimBatchParams{
				Instance: instance, Worker: "w", Token: token, Limit: fencerow.MaxBatch, Lease: time.Minute,
			})
			if err != nil {
				return err
			}
			for _, e := range claim.Entries {
				claimed[e.CorrelationID] = e.OutboxID
			}
			return want(len(claimed) == 4 && !claim.More, claim)
		}},
		{"RecordOutcomes", func(ctx context.Context, s fencerow.Store) error {
			p := fencerow.RecordParams{Instance: instance, Token: token}
			for _, id := range legacyIDs {
				p.Outcomes = append(p.Outcomes, fencerow.Outcome{OutboxID: id, Kind: fencerow.OutcomeCompleted})
			}
			return mustLose(s.RecordOutcomes(ctx, p))
		}},
		{"RecordOutcomes", func(ctx context.Context, s fencerow.Store) error {
			verdicts, err := s.RecordOutcomes(ctx, fencerow.RecordParams{
				Instance: instance, Token: token, Outcomes: []fencerow.Outcome{
					{OutboxID: claimed[shared], Kind: fencerow.OutcomeCompleted, Snapshot: &fencerow.Snapshot{
						SlotID: "slot-1", Currency: "USD", CashBalance: decimal.NewFromInt(9), Version: 1,
					}},
					{OutboxID: claimed["own-2"], Kind: fencerow.OutcomeDeadLettered, Reason: "http_500"},
				},
			})
			return want(err == nil && len(verdicts) == 2 && verdicts[0].Applied && verdicts[1].Applied, verdicts, err)
		}},
		{"Release", func(ctx context.Context, s fencerow.Store) error {
			p := fencerow.ReleaseParams{Instance: instance, Token: token}
			for _, id := range legacyIDs {
				p.Rows = append(p.Rows, fencerow.ReleaseRow{OutboxID: id, Uncertain: true})
			}
			return mustLose(s.Release(ctx, p))
		}},
		{"Release", func(ctx context.Context, s fencerow.Store) error {
			rows, err := s.Release(ctx, fencerow.ReleaseParams{Instance: instance, Token: token, All: true})
			return want(err == nil && len(rows) == 2, rows, err)
		}},
		{"ClaimOne", func(ctx context.Context, s fencerow.Store) error {
			for _, force := range []bool{false, true} {
				err := mustBeForeign(func(id fencerow.CorrelationID) error { return claimOne(ctx, s, id, force) })
				if err != nil {
					return err
				}
			}
			return claimOne(ctx, s, "own-3", false)
		}},
		{"Claims", func(ctx context.Context, s fencerow.Store) error {
			claims, err := s.Claims(ctx, instance)
			return want(err == nil && len(claims) == 1, claims, err)
		}},
		{"ListPending", func(ctx context.Context, s fencerow.Store) error {
			rows, err := s.ListPending(ctx, fencerow.ListPendingParams{
				Instance: instance, Limit: fencerow.MaxPage, WithPayload: true,
			})
			return want(err == nil && len(rows) == 1 && rows[0].CorrelationID == "own-4", rows, err)
		}},
		{"ListBlocked", func(ctx context.Context, s fencerow.Store) error {
			rows, err := s.ListBlocked(ctx, fencerow.ListBlockedParams{Instance: instance, Limit: fencerow.MaxPage})
			return want(err == nil && len(rows) == 1 && rows[0].CorrelationID == "own-2", rows, err)
		}},
		{"PendingCashDelta", func(ctx context.Context, s fencerow.Store) error {
			for _, slot := range []fencerow.SlotID{"", "slot-1"} {
				sums, err := s.PendingCashDelta(ctx, fencerow.CashDeltaParams{Instance: instance, Slot: slot})
				if err != nil || len(sums) != 1 || sums[0].PendingCount != 2 || sums[0].BlockedCount != 1 ||
					sums[0].Pending.String() != "5" {
					return want(false, sums, err)
				}
			}
			return nil
		}},
		{"Counts", func(ctx context.Context, s fencerow.Store) error {
			counts, err := s.Counts(ctx, instance)
			if err != nil {
				return err
			}
			n := int64(0)
			for _, c := range counts.ByStatus {
				n += c
			}
			return want(n == 4, counts)
		}},
		{"Show", func(ctx context.Context, s fencerow.Store) error {
			err := mustBeForeign(func(id fencerow.CorrelationID) error {
				_, err := s.Show(ctx, own(string(id)))
				return err
			})
			if err != nil {
				return err
			}
			state, err := s.Show(ctx, own(string(shared)))
			return want(err == nil && state.Entry.OutboxID == claimed[shared], state, err)
		}},
		{"Slots", func(ctx context.Context, s fencerow.Store) error {
			slots, err := s.Slots(ctx, instance)
			return want(err == nil && len(slots) == 1 && slots[0].OpenSkips == 3, slots, err)
		}},
		{"Requeue", func(ctx context.Context, s fencerow.Store) error {
			requeue := func(id fencerow.CorrelationID) error {
				return s.Requeue(ctx, fencerow.RequeueParams{
					Instance: instance, CorrelationID: id, From: fencerow.StatusDeadLettered,
				})
			}
			if err := mustBeForeign(requeue); err != nil {
				return err
			}
			return requeue("own-2")
		}},
		{"NameSlot", func(ctx context.Context, s fencerow.Store) error {
			return s.NameSlot(ctx, fencerow.NameSlotParams{Instance: instance, Slot: "slot-1", Strategy: "carry"})
		}},
		{"Hold", func(ctx context.Context, s fencerow.Store) error {
			changed, err := s.Hold(ctx, instance)
			return want(err == nil && changed, changed, err)
		}},
		{"Resume", func(ctx context.Context, s fencerow.Store) error {
			changed, err := s.Resume(ctx, instance)
			return want(err == nil && changed, changed, err)
		}},
		{"Prune", func(ctx context.Context, s fencerow.Store) error {
			p := fencerow.PruneParams{Instance: instance, Limit: fencerow.MaxBatch}
			result, err := s.Prune(ctx, p)
			return want(err == nil && result.Deleted == 1, result, err)
		}},
		{"LegacyCount", func(ctx context.Context, s fencerow.Store) error {
			n, err := s.LegacyCount(ctx)
			return want(err == nil && n == int64(before), n, err)
		}},
		{"LegacyExport", func(ctx context.Context, s fencerow.Store) error {
			for id, n := range map[string]int{string(shared): 1, "repeated": 3, "not a number": 1, "": 1, "own-2": 0} {
				entries, err := s.LegacyExport(ctx, id)
				if err != nil || len(entries) != n {
					return want(false, id, len(entries), err)
				}
			}
			return nil
		}},
	}
}

func TestNoVerbReachesRowsWithoutAnOwner(t *testing.T) {
	t.Parallel()
	r, db, before := newHostile(t)
	store, err := pgstore.Open(pgstore.Config{DSN: fencerow.NewSecret(db.DSN())})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	used := map[string]bool{}
	for _, v := range verbs(len(before)) {
		if err := v.use(t.Context(), store); err != nil {
			t.Fatalf("%s: %v", v.method, err)
		}
		mustHold(t, r, contentAfterSQL, before)
		used[v.method] = true
	}
	contract := reflect.TypeFor[fencerow.Store]()
	for i := range contract.NumMethod() {
		if name := contract.Method(i).Name; !used[name] {
			t.Errorf("%s is not tried", name)
		}
	}
}
