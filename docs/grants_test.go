package docs

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/migrate"
	"github.com/fourblocks2020/fencerow/internal/pgstore"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

const desk fencerow.InstanceKey = "desk-1"

var migrated = pgtest.NewTemplate(func(ctx context.Context, dsn string) error {
	_, err := migrate.Up(ctx, dsn)
	return err
})

func newEntry(id fencerow.CorrelationID) fencerow.NewEntry {
	return fencerow.NewEntry{
		CorrelationID: id, EntryKind: "fill", SlotID: "s", CashDelta: decimal.New(1, 0), Currency: "EUR",
		Payload: json.RawMessage(`{}`), OpenSkip: true,
	}
}

// What the page gives to the daemon's role is enough for every verb of a store.
func TestGrantsOfTheDaemonAreEnough(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, migrated)
	role := database.NewRole(t, nil)
	given := block(t, section(t, read(t, "docs/operations.md"), "## Roles and grants"), "sql")
	database.Exec(t, strings.ReplaceAll(given, "fencerow_daemon", `"`+role.Name+`"`))
	store, err := pgstore.Open(pgstore.Config{DSN: fencerow.NewSecret(database.DSN(pgtest.As(role)))})
	check(t, err)
	defer store.Close()
	ctx := t.Context()
	_, err = store.Ready(ctx)
	check(t, err)
	_, err = store.EnqueueMany(ctx, fencerow.EnqueueParams{
		Instance: desk, Entries: []fencerow.NewEntry{newEntry("a"), newEntry("b"), newEntry("c")},
	})
	check(t, err)
	token := fencerow.NewClaimToken()
	claim, err := store.ClaimBatch(ctx, fencerow.ClaimBatchParams{
		Instance: desk, Worker: "w", Token: token, Limit: 3, Lease: time.Minute,
	})
	check(t, err)
	if len(claim.Entries) != 3 {
		t.Fatalf("%d entries were claimed", len(claim.Entries))
	}
	balance := &fencerow.Snapshot{SlotID: "s", Currency: "EUR", CashBalance: decimal.New(1, 0), Version: 1}
	booked, parked := claim.Entries[0].OutboxID, claim.Entries[1].OutboxID
	_, err = store.RecordOutcomes(ctx, fencerow.RecordParams{
		Instance: desk, Token: token, Outcomes: []fencerow.Outcome{
			{OutboxID: booked, Kind: fencerow.OutcomeCompleted, Snapshot: balance},
			{OutboxID: parked, Kind: fencerow.OutcomeDeadLettered, Reason: fencerow.ReasonLedgerError},
		},
	})
	check(t, err)
	_, err = store.Release(ctx, fencerow.ReleaseParams{Instance: desk, Token: token, All: true})
	check(t, err)
	check(t, store.Requeue(ctx, fencerow.RequeueParams{
		Instance: desk, CorrelationID: "b", From: fencerow.StatusDeadLettered,
	}))
	_, err = store.Hold(ctx, desk)
	check(t, err)
	_, err = store.Resume(ctx, desk)
	check(t, err)
	check(t, store.NameSlot(ctx, fencerow.NameSlotParams{Instance: desk, Slot: "s", Strategy: "carry"}))
	views(t, store)
	_, err = store.Diagnose(ctx)
	check(t, err)
	pruned, err := store.Prune(ctx, fencerow.PruneParams{Instance: desk, Limit: 10})
	check(t, err)
	if pruned.Deleted != 1 {
		t.Errorf("%d entries were pruned", pruned.Deleted)
	}
}

// What doctor looks for is what the page gives, each and no more.
func TestDoctorMissesEveryGrantOfTheDaemon(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, migrated)
	role := database.NewRole(t, nil)
	store, err := pgstore.Open(pgstore.Config{DSN: fencerow.NewSecret(database.DSN(pgtest.As(role)))})
	check(t, err)
	defer store.Close()
	missing := func() []string {
		t.Helper()
		d, err := store.Diagnose(t.Context())
		check(t, err)
		return d.MissingGrants
	}
	given := block(t, section(t, read(t, "docs/operations.md"), "## Roles and grants"), "sql")
	var want []string
	for line := range strings.Lines(given) {
		grant, _, ok := strings.Cut(strings.TrimPrefix(line, "GRANT "), " TO ")
		if !ok {
			continue
		}
		privileges, objects, _ := strings.Cut(grant, " ON ")
		kind := ""
		if word, rest, ok := strings.Cut(objects, " "); ok && word == strings.ToUpper(word) {
			kind, objects = word+" ", rest
		}
		for privilege := range strings.SplitSeq(privileges, ", ") {
			for i, object := range strings.Split(objects, ", fencerow.") {
				if i > 0 {
					object = "fencerow." + object
				}
				want = append(want, privilege+" ON "+kind+object)
			}
		}
	}
	sameSet(t, "grants", want, missing())
	database.Exec(t, strings.ReplaceAll(given, "fencerow_daemon", `"`+role.Name+`"`))
	if left := missing(); len(left) > 0 {
		t.Errorf("still missing once it was given: %q", left)
	}
}

func views(t *testing.T, store *pgstore.Store) {
	t.Helper()
	ctx := t.Context()
	_, err := store.Counts(ctx, desk)
	check(t, err)
	_, err = store.Claims(ctx, desk)
	check(t, err)
	_, err = store.Slots(ctx, desk)
	check(t, err)
	_, err = store.ListPending(ctx, fencerow.ListPendingParams{Instance: desk, Limit: 10, WithPayload: true})
	check(t, err)
	_, err = store.ListBlocked(ctx, fencerow.ListBlockedParams{Instance: desk, Limit: 10})
	check(t, err)
	_, err = store.PendingCashDelta(ctx, fencerow.CashDeltaParams{Instance: desk})
	check(t, err)
	_, err = store.Show(ctx, fencerow.EntryParams{Instance: desk, CorrelationID: "a"})
	check(t, err)
	_, err = store.LegacyCount(ctx)
	check(t, err)
	_, err = store.LegacyExport(ctx, "a")
	check(t, err)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
