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
		{"SkipResolvedByAFailure", altered{record: recordResolving(func(o fencerow.Outcome, _ bool) bool { return !o.Kind.Success() })},
			[]string{"OnlySuccessResolvesASkip"}},
		{"SkipResolvedInSpiteOfARefusedSnapshot", altered{record: recordResolving(func(_ fencerow.Outcome, refused bool) bool {
			return refused
		})}, []string{"RefusedSnapshotIsDroppedAndTheOutcomeStands", "AcceptedSnapshotResolvesTheSlotsFinishedSkips"}},
		{"SkipsOfAllInstancesResolved", altered{record: recordResolvingEverywhere}, []string{"SlotsOfTwoInstancesAreTwoSlots"}},
		{"ExpiryCountKeptByOutcome", altered{record: recordKeepingSuspicion}, []string{"OutcomeResetsTheExpiryCount"}},
		{"UncertainClearedByOutcome", altered{record: recordClearing}, []string{"UncertaintyIsOnlyAdded"}},
		{"LedgerTextStored", altered{record: recordAnyReference}, []string{"LedgerReferenceIsKeptOnlyIfWellFormed"}},
	})
}

// afterRecord runs f for each item that was applied.
func afterRecord(
	s *Store, ctx context.Context, p fencerow.RecordParams, f func(*instance, *row, fencerow.Outcome, fencerow.Verdict, time.Time),
) ([]fencerow.Verdict, error) {
	verdicts, err := s.RecordOutcomes(ctx, p)
	for i, v := range verdicts {
		if v.Applied {
			s.within(p.Instance, func(in *instance, now time.Time) { f(in, in.rows[v.OutboxID], p.Outcomes[i], v, now) })
		}
	}
	return verdicts, err
}

type recordFunc = func(*Store, context.Context, fencerow.RecordParams) ([]fencerow.Verdict, error)

// recordAnySnapshot writes every snapshot of the entry's own slot, or every refused one too.
func recordAnySnapshot(onlyAccepted bool) recordFunc {
	return func(s *Store, ctx context.Context, p fencerow.RecordParams) ([]fencerow.Verdict, error) {
		return afterRecord(s, ctx, p, func(in *instance, r *row, o fencerow.Outcome, v fencerow.Verdict, now time.Time) {
			if o.Snapshot != nil && !(onlyAccepted && v.SnapshotRejected) {
				in.slot(r.entry.SlotID).snapshot, in.slot(r.entry.SlotID).updatedAt = o.Snapshot, now
			}
		})
	}
}

func recordResolving(when func(o fencerow.Outcome, refused bool) bool) recordFunc {
	return func(s *Store, ctx context.Context, p fencerow.RecordParams) ([]fencerow.Verdict, error) {
		return afterRecord(s, ctx, p, func(_ *instance, r *row, o fencerow.Outcome, v fencerow.Verdict, now time.Time) {
			if when(o, v.SnapshotRejected) {
				r.resolveSkip(now)
			}
		})
	}
}

func recordResolvingEverywhere(s *Store, ctx context.Context, p fencerow.RecordParams) ([]fencerow.Verdict, error) {
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

func recordKeepingSuspicion(s *Store, ctx context.Context, p fencerow.RecordParams) ([]fencerow.Verdict, error) {
	before := make(map[fencerow.OutboxID]int)
	s.within(p.Instance, func(in *instance, _ time.Time) {
		for id, r := range in.pending {
			before[id] = r.pending.expiryCount
		}
	})
	return afterRecord(s, ctx, p, func(_ *instance, r *row, o fencerow.Outcome, _ fencerow.Verdict, _ time.Time) {
		if r.pending != nil {
			r.pending.expiryCount = before[o.OutboxID]
		}
	})
}

func recordClearing(s *Store, ctx context.Context, p fencerow.RecordParams) ([]fencerow.Verdict, error) {
	return afterRecord(s, ctx, p, func(_ *instance, r *row, o fencerow.Outcome, _ fencerow.Verdict, _ time.Time) {
		if r.pending != nil {
			r.pending.uncertain = o.Uncertain
		}
	})
}

func recordAnyReference(s *Store, ctx context.Context, p fencerow.RecordParams) ([]fencerow.Verdict, error) {
	return afterRecord(s, ctx, p, func(_ *instance, r *row, o fencerow.Outcome, _ fencerow.Verdict, _ time.Time) {
		if r.pending == nil {
			r.lives[len(r.lives)-1].LedgerRef = o.LedgerRef
		}
	})
}
