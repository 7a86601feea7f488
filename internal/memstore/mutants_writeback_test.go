package memstore

import (
	"context"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// The mutants of write-back: what an applied outcome may write beside its row.

func TestMutantsThatWriteTooMuchAreRejected(t *testing.T) {
	rejectEach(t, []guard{
		{"OlderSnapshotWritten", altered{record: recordAnySnapshot(true)}, []string{
			"OlderSnapshotIsNotWritten", "NewestSnapshotOfACallWins",
		}},
		{"RefusedSnapshotWritten", altered{record: recordAnySnapshot(false)}, []string{
			"RefusedSnapshotIsDroppedAndTheOutcomeStands",
		}},
		{"SkipResolvedByAFailure", altered{record: recordResolving(byFailure)},
			[]string{"OnlySuccessResolvesASkip"}},
		{"SkipResolvedInSpiteOfARefusedSnapshot", altered{record: recordResolving(inSpiteOfRefusal)}, []string{
			"RefusedSnapshotIsDroppedAndTheOutcomeStands", "AcceptedSnapshotResolvesTheSlotsFinishedSkips",
		}},
		{"SkipsOfAllInstancesResolved", altered{record: recordResolvingEverywhere},
			[]string{"SlotsOfTwoInstancesAreTwoSlots"}},
		{"ExpiryCountKeptByOutcome", altered{record: recordKeepingSuspicion},
			[]string{"OutcomeResetsTheExpiryCount"}},
		{"UncertainClearedByOutcome", altered{record: recordClearing}, []string{"UncertaintyIsOnlyAdded"}},
		{"LedgerTextStored", altered{record: recordAnyReference},
			[]string{"LedgerReferenceIsKeptOnlyIfWellFormed"}},
	})
}

// appliedItem is an item of a record that took effect.
type appliedItem struct {
	row     *row
	outcome *fencerow.Outcome
	refused bool // its snapshot was
	now     time.Time
}

// afterRecord runs f for each item that was applied.
func afterRecord(
	ctx context.Context, s *Store, p fencerow.RecordParams, f func(*instance, appliedItem),
) ([]fencerow.Verdict, error) {
	verdicts, err := s.RecordOutcomes(ctx, p)
	for i, v := range verdicts {
		if v.Applied {
			s.within(p.Instance, func(in *instance, now time.Time) {
				f(in, appliedItem{in.rows[v.OutboxID], &p.Outcomes[i], v.SnapshotRejected, now})
			})
		}
	}
	return verdicts, err
}

type recordFunc = func(context.Context, *Store, fencerow.RecordParams) ([]fencerow.Verdict, error)

// recordAnySnapshot writes every snapshot of the entry's own slot, or every refused one too.
func recordAnySnapshot(onlyAccepted bool) recordFunc {
	return func(ctx context.Context, s *Store, p fencerow.RecordParams) ([]fencerow.Verdict, error) {
		return afterRecord(ctx, s, p, func(in *instance, a appliedItem) {
			if a.outcome.Snapshot != nil && (!onlyAccepted || !a.refused) {
				slot := in.slot(a.row.entry.SlotID)
				slot.snapshot, slot.updatedAt = a.outcome.Snapshot, a.now
			}
		})
	}
}

func byFailure(a appliedItem) bool        { return !a.outcome.Kind.Success() }
func inSpiteOfRefusal(a appliedItem) bool { return a.refused }

func recordResolving(when func(appliedItem) bool) recordFunc {
	return func(ctx context.Context, s *Store, p fencerow.RecordParams) ([]fencerow.Verdict, error) {
		return afterRecord(ctx, s, p, func(_ *instance, a appliedItem) {
			if when(a) {
				a.row.resolveSkip(a.now)
			}
		})
	}
}

func recordResolvingEverywhere(
	ctx context.Context, s *Store, p fencerow.RecordParams,
) ([]fencerow.Verdict, error) {
	verdicts, err := s.RecordOutcomes(ctx, p)
	if err != nil {
		return nil, err
	}
	for _, key := range s.keys(p.Instance) {
		s.within(key, func(in *instance, now time.Time) {
			for _, r := range in.rows {
				r.resolveSkip(now)
			}
		})
	}
	return verdicts, nil
}

func recordKeepingSuspicion(
	ctx context.Context, s *Store, p fencerow.RecordParams,
) ([]fencerow.Verdict, error) {
	before := make(map[fencerow.OutboxID]int)
	s.within(p.Instance, func(in *instance, _ time.Time) {
		for id, r := range in.pending {
			before[id] = r.pending.expiryCount
		}
	})
	return afterRecord(ctx, s, p, func(_ *instance, a appliedItem) {
		if a.row.pending != nil {
			a.row.pending.expiryCount = before[a.outcome.OutboxID]
		}
	})
}

func recordClearing(ctx context.Context, s *Store, p fencerow.RecordParams) ([]fencerow.Verdict, error) {
	return afterRecord(ctx, s, p, func(_ *instance, a appliedItem) {
		if a.row.pending != nil {
			a.row.pending.uncertain = a.outcome.Uncertain
		}
	})
}

func recordAnyReference(ctx context.Context, s *Store, p fencerow.RecordParams) ([]fencerow.Verdict, error) {
	return afterRecord(ctx, s, p, func(_ *instance, a appliedItem) {
		if r := a.row; r.pending == nil {
			r.lives[len(r.lives)-1].LedgerRef = a.outcome.LedgerRef
		}
	})
}
