package memstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// The mutants of claim and fence: who may hold a row, and whose word counts.

func TestMutantsWithoutTheFenceAreRejected(t *testing.T) {
	rejectEach(t, []guard{
		{"TokenIgnoredInOutcome", altered{record: recordUnderAnyToken}, []string{
			"StaleTokenChangesNothing", "UnknownTokenLosesEverything", "AnotherClaimsTokenDoesNotFit",
		}},
		{"TokenIgnoredInRelease", altered{release: releaseUnderAnyToken}, []string{
			"StaleTokenChangesNothing", "UnknownTokenLosesEverything", "AnotherClaimsTokenDoesNotFit",
		}},
		{"LateOutcomeAfterReclaimApplied", altered{record: recordAfterReclaim}, []string{
			"StaleTokenChangesNothing", "StaleTokenOfAFreedRowChangesNothing",
		}},
		{"RowThatTheClaimLetGoAccepted", altered{record: recordOfReleasedRow}, []string{
			"RowThatTheClaimLetGoIsLost", "ZombieOfAnEarlierLifeIsLost",
		}},
		{"LateOutcomeBeforeReclaimRefused", altered{record: recordWithinLeaseOnly}, []string{
			"OutcomeAfterTheLeaseButBeforeReclaimIsApplied",
		}},
		{"LeaseKeptAfterOutcome", altered{record: recordKeepingLease}, []string{
			"RetryableOutcomeEndsTheLeaseOnly", "RecordedRowLeavesTheRestLeased",
		}},
		{"SecondTerminalAccepted", altered{record: recordOnFinished}, []string{
			"SecondTerminalOutcomeIsLost", "RowThatWasFinishedByAnotherIsLost",
		}},
		{"SnapshotWrittenForALostClaim", altered{record: recordSnapshotsOfLost}, []string{
			"StaleTokenChangesNothing", "SnapshotOfALostItemIsNotWritten",
		}},
		{"SkipResolvedForALostClaim", altered{record: recordSkipsOfLost}, []string{
			"StaleTokenChangesNothing", "SkipOfALostItemStaysOpen",
		}},
	})
}

// itemwise records each outcome by itself, under the token that f gives for it.
func itemwise(
	ctx context.Context, s *Store, p fencerow.RecordParams, token func(fencerow.Outcome) fencerow.ClaimToken,
) ([]fencerow.Verdict, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	var all []fencerow.Verdict
	for _, o := range p.Outcomes {
		verdicts, err := s.RecordOutcomes(ctx, fencerow.RecordParams{
			Instance: p.Instance, Token: token(o), Outcomes: []fencerow.Outcome{o},
		})
		if err != nil {
			return nil, err
		}
		all = append(all, verdicts...)
	}
	return all, nil
}

func recordUnderAnyToken(ctx context.Context, s *Store, p fencerow.RecordParams) ([]fencerow.Verdict, error) {
	return itemwise(ctx, s, p, func(o fencerow.Outcome) fencerow.ClaimToken {
		return s.holder(p.Instance, o.OutboxID, p.Token)
	})
}

func releaseUnderAnyToken(
	ctx context.Context, s *Store, p fencerow.ReleaseParams,
) ([]fencerow.Verdict, error) {
	if p.Validate() != nil || p.All {
		return s.Release(ctx, p)
	}
	var all []fencerow.Verdict
	for _, r := range p.Rows {
		verdicts, err := s.Release(ctx, fencerow.ReleaseParams{
			Instance: p.Instance, Token: s.holder(p.Instance, r.OutboxID, p.Token), Rows: []fencerow.ReleaseRow{r},
		})
		if err != nil {
			return nil, err
		}
		all = append(all, verdicts...)
	}
	return all, nil
}

func recordAfterReclaim(ctx context.Context, s *Store, p fencerow.RecordParams) ([]fencerow.Verdict, error) {
	return itemwise(ctx, s, p, func(o fencerow.Outcome) fencerow.ClaimToken {
		s.force(p.Instance, p.Token, o.OutboxID, 1)
		return p.Token
	})
}

func recordOfReleasedRow(ctx context.Context, s *Store, p fencerow.RecordParams) ([]fencerow.Verdict, error) {
	return itemwise(ctx, s, p, func(o fencerow.Outcome) fencerow.ClaimToken {
		stands := false
		s.within(p.Instance, func(in *instance, _ time.Time) { stands = in.claims[p.Token] != nil })
		if stands {
			s.force(p.Instance, p.Token, o.OutboxID, 1)
		}
		return p.Token
	})
}

func recordWithinLeaseOnly(
	ctx context.Context, s *Store, p fencerow.RecordParams,
) ([]fencerow.Verdict, error) {
	s.within(p.Instance, func(in *instance, now time.Time) {
		if c := in.claims[p.Token]; c != nil && !c.activeAt(now) {
			p.Token = fencerow.NewClaimToken()
		}
	})
	return s.RecordOutcomes(ctx, p)
}

func recordKeepingLease(ctx context.Context, s *Store, p fencerow.RecordParams) ([]fencerow.Verdict, error) {
	var epoch fencerow.ClaimEpoch
	s.within(p.Instance, func(in *instance, _ time.Time) {
		if c := in.claims[p.Token]; c != nil {
			epoch = c.epoch
		}
	})
	verdicts, err := s.RecordOutcomes(ctx, p)
	for _, v := range verdicts {
		if v.Applied {
			s.force(p.Instance, p.Token, v.OutboxID, epoch)
		}
	}
	return verdicts, err
}

func recordOnFinished(ctx context.Context, s *Store, p fencerow.RecordParams) ([]fencerow.Verdict, error) {
	verdicts, err := s.RecordOutcomes(ctx, p)
	for i, v := range verdicts {
		if kind := p.Outcomes[i].Kind; v.Lost == fencerow.LostFinished && kind.Terminal() {
			s.within(p.Instance, func(in *instance, _ time.Time) {
				lives := in.rows[v.OutboxID].lives
				lives[len(lives)-1].Outcome, lives[len(lives)-1].Status = kind, kind.Status()
			})
			verdicts[i] = fencerow.Verdict{OutboxID: v.OutboxID, Applied: true}
		}
	}
	return verdicts, err
}

// afterLoss runs f for each row of a success that was lost.
func afterLoss(
	ctx context.Context, s *Store, p fencerow.RecordParams, f func(*instance, *row, fencerow.Outcome, time.Time),
) ([]fencerow.Verdict, error) {
	verdicts, err := s.RecordOutcomes(ctx, p)
	for i, v := range verdicts {
		s.within(p.Instance, func(in *instance, now time.Time) {
			if r := in.rows[v.OutboxID]; !v.Applied && r != nil && p.Outcomes[i].Kind.Success() {
				f(in, r, p.Outcomes[i], now)
			}
		})
	}
	return verdicts, err
}

func recordSnapshotsOfLost(
	ctx context.Context, s *Store, p fencerow.RecordParams,
) ([]fencerow.Verdict, error) {
	return afterLoss(ctx, s, p, func(in *instance, r *row, o fencerow.Outcome, now time.Time) {
		if o.Snapshot != nil && r.entry.CheckSnapshot(o.Snapshot) {
			in.slot(r.entry.SlotID).snapshot, in.slot(r.entry.SlotID).updatedAt = o.Snapshot, now
		}
	})
}

func recordSkipsOfLost(ctx context.Context, s *Store, p fencerow.RecordParams) ([]fencerow.Verdict, error) {
	return afterLoss(ctx, s, p, func(_ *instance, r *row, _ fencerow.Outcome, now time.Time) {
		r.resolveSkip(now)
	})
}

func TestMutantsWithoutIsolationAreRejected(t *testing.T) {
	rejectEach(t, []guard{
		{"InstanceIgnoredInClaim", altered{batch: claimFromAnyone}, []string{
			"InstanceClaimsItsOwnRowsOnly", "BulkVerbsLeaveKindsThatOnlyAnotherInstanceHas",
		}},
		{"InstanceIgnoredInTargetedClaim", altered{one: claimOneFromAnyone}, []string{
			"TargetedClaimOfAForeignEntryIsRefused", "TargetedClaimIsRefusedWithItsReason",
		}},
		{"InstanceIgnoredInExpiry", altered{batch: claimEndingForeignClaims}, []string{
			"ForeignExpiredClaimIsNotEnded", "BulkVerbsLeaveKindsThatOnlyAnotherInstanceHas",
		}},
		{"InstanceIgnoredInOutcome", altered{record: recordForAnyone}, []string{"ForeignTokenRecordsNothing"}},
		{"InstanceIgnoredInRelease", altered{release: releaseForAnyone}, []string{"ForeignTokenRecordsNothing"}},
		{"InstanceIgnoredInList", altered{list: listOfEveryone}, []string{"InstanceListsItsOwnRowsOnly"}},
		{"InstanceIgnoredInBlocked", altered{blocked: blockedOfEveryone}, []string{
			"InstanceListsItsOwnBlockedOnly",
		}},
		{"InstanceIgnoredInSum", altered{sum: sumOfEveryone}, []string{"InstanceSumsItsOwnRowsOnly"}},
		{"InstanceIgnoredInRequeue", altered{requeue: requeueForAnyone},
			[]string{"RequeueOfAForeignEntryIsRefused"}},
		{"InstanceIgnoredInPrune", altered{prune: pruneForEveryone}, []string{
			"PruneLeavesForeignEntries", "BulkVerbsLeaveKindsThatOnlyAnotherInstanceHas",
		}},
	})
}

func claimFromAnyone(ctx context.Context, s *Store, p fencerow.ClaimBatchParams) (*fencerow.Claim, error) {
	if p.Validate() != nil {
		return s.ClaimBatch(ctx, p)
	}
	for _, p.Instance = range s.keys(p.Instance) {
		if c, err := s.ClaimBatch(ctx, p); err != nil || len(c.Entries) > 0 {
			return c, err
		}
	}
	return &fencerow.Claim{}, nil
}

func claimOneFromAnyone(ctx context.Context, s *Store, p fencerow.ClaimOneParams) (*fencerow.Claim, error) {
	c, err := s.ClaimOne(ctx, p)
	if errors.Is(err, fencerow.ErrForeignInstance) {
		for _, p.Instance = range s.keys(p.Instance)[1:] {
			if c, err = s.ClaimOne(ctx, p); err == nil {
				break
			}
		}
	}
	return c, err
}

func claimEndingForeignClaims(
	ctx context.Context, s *Store, p fencerow.ClaimBatchParams,
) (*fencerow.Claim, error) {
	if p.Validate() == nil {
		for _, key := range s.keys(p.Instance) {
			s.within(key, func(in *instance, now time.Time) { in.endExpired(now) })
		}
	}
	return s.ClaimBatch(ctx, p)
}

func recordForAnyone(ctx context.Context, s *Store, p fencerow.RecordParams) ([]fencerow.Verdict, error) {
	verdicts, err := s.RecordOutcomes(ctx, p)
	if err == nil && verdicts[0].Lost == fencerow.LostMissing {
		for _, p.Instance = range s.keys(p.Instance)[1:] {
			if verdicts, err = s.RecordOutcomes(ctx, p); err != nil || verdicts[0].Applied {
				break
			}
		}
	}
	return verdicts, err
}

func releaseForAnyone(ctx context.Context, s *Store, p fencerow.ReleaseParams) ([]fencerow.Verdict, error) {
	verdicts, err := s.Release(ctx, p)
	if err == nil && len(verdicts) == 0 {
		for _, p.Instance = range s.keys(p.Instance)[1:] {
			if verdicts, err = s.Release(ctx, p); err != nil || len(verdicts) > 0 {
				break
			}
		}
	}
	return verdicts, err
}

func listOfEveryone(
	ctx context.Context, s *Store, p fencerow.ListPendingParams,
) ([]fencerow.PendingEntry, error) {
	if p.Validate() != nil {
		return s.ListPending(ctx, p)
	}
	var all []fencerow.PendingEntry
	for _, p.Instance = range s.keys(p.Instance) {
		listed, err := s.ListPending(ctx, p)
		if err != nil {
			return nil, err
		}
		all = append(all, listed...)
	}
	return all, nil
}

func blockedOfEveryone(
	ctx context.Context, s *Store, p fencerow.ListBlockedParams,
) ([]fencerow.BlockedEntry, error) {
	if p.Validate() != nil {
		return s.ListBlocked(ctx, p)
	}
	var all []fencerow.BlockedEntry
	for _, p.Instance = range s.keys(p.Instance) {
		listed, err := s.ListBlocked(ctx, p)
		if err != nil {
			return nil, err
		}
		all = append(all, listed...)
	}
	return all, nil
}

func sumOfEveryone(ctx context.Context, s *Store, p fencerow.CashDeltaParams) ([]fencerow.CashDelta, error) {
	if p.Validate() != nil {
		return s.PendingCashDelta(ctx, p)
	}
	var all []fencerow.CashDelta
	for _, p.Instance = range s.keys(p.Instance) {
		sums, err := s.PendingCashDelta(ctx, p)
		if err != nil {
			return nil, err
		}
		all = append(all, sums...)
	}
	return all, nil
}

func requeueForAnyone(ctx context.Context, s *Store, p fencerow.RequeueParams) error {
	err := s.Requeue(ctx, p)
	if errors.Is(err, fencerow.ErrForeignInstance) {
		for _, p.Instance = range s.keys(p.Instance)[1:] {
			if err = s.Requeue(ctx, p); err == nil {
				break
			}
		}
	}
	return err
}

func pruneForEveryone(ctx context.Context, s *Store, p fencerow.PruneParams) (fencerow.PruneResult, error) {
	result, err := s.Prune(ctx, p)
	if err == nil {
		for _, p.Instance = range s.keys(p.Instance)[1:] {
			if _, err := s.Prune(ctx, p); err != nil {
				return result, err
			}
		}
	}
	return result, err
}
