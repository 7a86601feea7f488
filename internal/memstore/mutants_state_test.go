package memstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// The mutants of lease, epoch and count: when a row is free, and what it remembers.

func TestMutantsWithoutTheLeaseAreRejected(t *testing.T) {
	rejectEach(t, []guard{
		{"ExpiredLeaseNotClaimable", altered{batch: claimWithoutRecovery}, []string{
			"CrashedHoldersRowsComeBackAfterExpiryAndNotBefore", "ExpiryIsOneMoreAttempt",
		}},
		{"ExpiredLeaseNotClaimableByTarget", altered{one: claimOneWithoutRecovery},
			[]string{"TargetedReclaimFreesTheWholeClaim"}},
		{"LiveLeaseClaimable", altered{batch: claimFromTheLiving}, []string{
			"LeasedRowIsClaimedByNobodyElse", "SameWorkerIDDoesNotInheritALease", "ConcurrentClaimsAreDisjoint",
		}},
		{"LiveLeaseClaimableByTarget", altered{one: claimOneFromTheLiving}, []string{
			"LeasedRowIsClaimedByNobodyElse", "ConcurrentTargetedClaimsHaveOneWinner",
		}},
		{"LiveLeaseOfTheSameWorkerClaimable", altered{batch: claimFromNamesake},
			[]string{"SameWorkerIDDoesNotInheritALease"}},
		{"WaitingRowClaimable", altered{batch: claimTheWaiting}, []string{
			"RowWaitsForItsDelay", "UnclaimableRowsHideNothing",
		}},
		{"HeldRowsTakeThePlaceOfFreeOnes", altered{batch: claimFromTheFirstPage},
			[]string{"UnclaimableRowsHideNothing"}},
		{"HoldIgnored", altered{batch: claimInSpiteOfHold}, []string{
			"HeldInstanceClaimsNothing", "HoldConcernsOneInstance",
		}},
		{"HoldIgnoredByTarget", altered{one: claimOneInSpiteOfHold}, []string{"HeldInstanceClaimsNothing"}},
		{"AllExpiredClaimsEndedAtOnce", altered{batch: claimEndingAll},
			[]string{"OldestEightExpiredClaimsEndAtOnce"}},
		{"SuspectClaimedWithOthers", altered{batch: claimUnsuspecting}, []string{
			"SuspectAtTheFrontIsClaimedAlone", "SuspectBehindOthersEndsTheClaimBeforeIt",
			"TwoExpiriesMakeASuspectAndOneDoesNot",
		}},
	})
}

func TestMutantsThatForgetAreRejected(t *testing.T) {
	rejectEach(t, []guard{
		{"EpochLoweredByRequeue", altered{requeue: requeueFromZero}, []string{"EpochSurvivesRequeue"}},
		{"EpochLoweredByRelease", altered{release: releaseForgettingEpoch}, []string{
			"EpochSurvivesRelease", "EpochSurvivesReleaseOfAll",
		}},
		{"EpochLoweredByRetry", altered{record: recordForgettingEpoch}, []string{
			"EpochSurvivesRetry", "EpochSurvivesAnAttemptGivenBack",
		}},
		{"EpochLoweredByASteppedBackClock", altered{batch: claimByTheClock}, []string{
			"EpochSurvivesASteppedBackClock", "EpochSurvivesExpiry",
		}},
		{"EpochOfOwnProcessForgotten", altered{one: claimOneForgetful},
			[]string{"ProcessNeverGoesBelowAnEpochItHasSeen"}},
		{"AttemptsLoweredOnReclaim", altered{batch: claimLoweringAttempts}, []string{
			"ReclaimNeverLowersAttempts", "ExpiryIsOneMoreAttempt",
		}},
		{"UncertainDroppedOnRelease", altered{release: releaseCertain}, []string{
			"ReleaseSaysOfEachRowWhetherBytesWereSent", "ReleaseOfAllMarksAll",
		}},
		{"UncertainClearedByRelease", altered{release: releaseClearing}, []string{"ReleaseNeverClearsUncertainty"}},
		{"ReleaseUsesUpAnAttempt", altered{release: releaseCharging},
			[]string{"ReleasedRowIsDueAtOnceAndUsesNoAttempt"}},
		{"RequeueKeepsAttempts", altered{requeue: requeueKeepingAttempts},
			[]string{"RequeuedEntryBeginsItsNextLife"}},
		{"RequeueOfAnyStatus", altered{requeue: requeueFromAnyStatus},
			[]string{"RequeueFromAnotherStatusChangesNothing"}},
		{"ConflictTakenForADuplicate", altered{enqueue: enqueueIgnoringContent}, []string{
			"OtherContentIsAConflictAndChangesNothing", "OneCallMayRepeatAnEntry",
		}},
		{"OpenSkipPruned", altered{prune: pruneWithOpenSkips}, []string{"PruneLeavesAnOpenSkip"}},
		{"BlockedPruned", altered{prune: pruneBlocked}, []string{"PruneDeletesOldSuccessesOnly"}},
	})
}

// shifted runs call while the leases of the chosen claims end later by d.
func shifted(
	s *Store, key fencerow.InstanceKey, d time.Duration, chosen func(*claim, time.Time) bool, call func(),
) {
	var moved []*claim
	s.within(key, func(in *instance, now time.Time) {
		for _, c := range in.claims {
			if chosen(c, now) {
				c.leaseExpiresAt = c.leaseExpiresAt.Add(d)
				moved = append(moved, c)
			}
		}
	})
	call()
	s.within(key, func(*instance, time.Time) {
		for _, c := range moved {
			c.leaseExpiresAt = c.leaseExpiresAt.Add(-d)
		}
	})
}

const ages = 1000 * time.Hour

func expired(c *claim, now time.Time) bool { return !c.activeAt(now) }
func living(c *claim, now time.Time) bool  { return c.activeAt(now) }

func claimWithoutRecovery(
	ctx context.Context, s *Store, p fencerow.ClaimBatchParams,
) (c *fencerow.Claim, err error) {
	shifted(s, p.Instance, ages, expired, func() { c, err = s.ClaimBatch(ctx, p) })
	return c, err
}

func claimOneWithoutRecovery(
	ctx context.Context, s *Store, p fencerow.ClaimOneParams,
) (c *fencerow.Claim, err error) {
	shifted(s, p.Instance, ages, expired, func() { c, err = s.ClaimOne(ctx, p) })
	return c, err
}

func claimFromTheLiving(
	ctx context.Context, s *Store, p fencerow.ClaimBatchParams,
) (c *fencerow.Claim, err error) {
	shifted(s, p.Instance, -ages, living, func() { c, err = s.ClaimBatch(ctx, p) })
	return c, err
}

func claimOneFromTheLiving(
	ctx context.Context, s *Store, p fencerow.ClaimOneParams,
) (c *fencerow.Claim, err error) {
	shifted(s, p.Instance, -ages, living, func() { c, err = s.ClaimOne(ctx, p) })
	return c, err
}

// claimFromTheFirstPage looks at no more rows than it may claim, held ones among them.
func claimFromTheFirstPage(
	ctx context.Context, s *Store, p fencerow.ClaimBatchParams,
) (*fencerow.Claim, error) {
	free := false
	s.within(p.Instance, func(in *instance, now time.Time) {
		page := in.sorted(func(*row) bool { return true })
		for _, r := range page[:min(len(page), max(p.Limit, 0))] {
			free = free || !r.claim.activeAt(now)
		}
	})
	if p.Validate() == nil && !free {
		return &fencerow.Claim{Instance: p.Instance, Token: p.Token}, nil
	}
	return s.ClaimBatch(ctx, p)
}

func claimFromNamesake(
	ctx context.Context, s *Store, p fencerow.ClaimBatchParams,
) (c *fencerow.Claim, err error) {
	namesake := func(c *claim, now time.Time) bool { return c.worker == p.Worker && c.activeAt(now) }
	shifted(s, p.Instance, -ages, namesake, func() { c, err = s.ClaimBatch(ctx, p) })
	return c, err
}

func claimTheWaiting(ctx context.Context, s *Store, p fencerow.ClaimBatchParams) (*fencerow.Claim, error) {
	s.within(p.Instance, func(in *instance, now time.Time) {
		for _, r := range in.pending {
			if r.pending.dueAt.After(now) {
				r.pending.dueAt = now
			}
		}
	})
	return s.ClaimBatch(ctx, p)
}

// unheld runs call while the instance is not on hold.
func unheld(s *Store, key fencerow.InstanceKey, call func()) {
	var heldAt *time.Time
	s.within(key, func(in *instance, _ time.Time) { heldAt, in.heldAt = in.heldAt, nil })
	call()
	s.within(key, func(in *instance, _ time.Time) { in.heldAt = heldAt })
}

func claimInSpiteOfHold(
	ctx context.Context, s *Store, p fencerow.ClaimBatchParams,
) (c *fencerow.Claim, err error) {
	unheld(s, p.Instance, func() { c, err = s.ClaimBatch(ctx, p) })
	return c, err
}

func claimOneInSpiteOfHold(
	ctx context.Context, s *Store, p fencerow.ClaimOneParams,
) (c *fencerow.Claim, err error) {
	unheld(s, p.Instance, func() { c, err = s.ClaimOne(ctx, p) })
	return c, err
}

func claimEndingAll(ctx context.Context, s *Store, p fencerow.ClaimBatchParams) (*fencerow.Claim, error) {
	s.within(p.Instance, func(in *instance, now time.Time) {
		for ended := 1; ended > 0; {
			_, ended = in.endExpired(now)
		}
	})
	return s.ClaimBatch(ctx, p)
}

func claimUnsuspecting(ctx context.Context, s *Store, p fencerow.ClaimBatchParams) (*fencerow.Claim, error) {
	s.within(p.Instance, func(in *instance, now time.Time) {
		in.endExpired(now)
		for _, r := range in.pending {
			r.pending.expiryCount = min(r.pending.expiryCount, 1)
		}
	})
	return s.ClaimBatch(ctx, p)
}

// forget sets the last epoch of all pending rows to zero.
func forget(s *Store, key fencerow.InstanceKey) {
	s.within(key, func(in *instance, _ time.Time) {
		for _, r := range in.pending {
			r.pending.lastEpoch = 0
		}
	})
}

func requeueFromZero(ctx context.Context, s *Store, p fencerow.RequeueParams) error {
	err := s.Requeue(ctx, p)
	forget(s, p.Instance)
	return err
}

func releaseForgettingEpoch(
	ctx context.Context, s *Store, p fencerow.ReleaseParams,
) ([]fencerow.Verdict, error) {
	verdicts, err := s.Release(ctx, p)
	forget(s, p.Instance)
	return verdicts, err
}

func recordForgettingEpoch(
	ctx context.Context, s *Store, p fencerow.RecordParams,
) ([]fencerow.Verdict, error) {
	verdicts, err := s.RecordOutcomes(ctx, p)
	forget(s, p.Instance)
	return verdicts, err
}

func claimByTheClock(ctx context.Context, s *Store, p fencerow.ClaimBatchParams) (*fencerow.Claim, error) {
	c, err := s.ClaimBatch(ctx, p)
	s.within(p.Instance, func(in *instance, now time.Time) {
		if standing := in.claims[p.Token]; standing != nil {
			standing.epoch = fencerow.ClaimEpoch(now.UnixMicro())
			c.Epoch = standing.epoch
		}
	})
	return c, err
}

func claimOneForgetful(ctx context.Context, s *Store, p fencerow.ClaimOneParams) (*fencerow.Claim, error) {
	s.within(p.Instance, func(*instance, time.Time) { s.seen = 0 })
	return s.ClaimOne(ctx, p)
}

func claimLoweringAttempts(
	ctx context.Context, s *Store, p fencerow.ClaimBatchParams,
) (*fencerow.Claim, error) {
	c, err := s.ClaimBatch(ctx, p)
	if err != nil {
		return nil, err
	}
	for i := range c.Entries {
		if e := &c.Entries[i]; e.Reclaimed {
			e.Attempt = 1
			s.within(p.Instance, func(in *instance, _ time.Time) { in.rows[e.OutboxID].pending.attempts = 0 })
		}
	}
	return c, nil
}

func releaseCertain(ctx context.Context, s *Store, p fencerow.ReleaseParams) ([]fencerow.Verdict, error) {
	if p.Validate() == nil {
		p.Uncertain = false
		rows := make([]fencerow.ReleaseRow, len(p.Rows))
		for i := range rows {
			rows[i].OutboxID = p.Rows[i].OutboxID
		}
		p.Rows = rows
	}
	return s.Release(ctx, p)
}

// afterRelease changes each row that was released.
func afterRelease(
	ctx context.Context, s *Store, p fencerow.ReleaseParams, f func(*pending),
) ([]fencerow.Verdict, error) {
	verdicts, err := s.Release(ctx, p)
	for _, v := range verdicts {
		if v.Applied {
			s.within(p.Instance, func(in *instance, _ time.Time) { f(in.rows[v.OutboxID].pending) })
		}
	}
	return verdicts, err
}

func releaseClearing(ctx context.Context, s *Store, p fencerow.ReleaseParams) ([]fencerow.Verdict, error) {
	return afterRelease(ctx, s, p, func(row *pending) { row.uncertain = p.Uncertain })
}

func releaseCharging(ctx context.Context, s *Store, p fencerow.ReleaseParams) ([]fencerow.Verdict, error) {
	return afterRelease(ctx, s, p, func(row *pending) { row.attempts++ })
}

func requeueKeepingAttempts(ctx context.Context, s *Store, p fencerow.RequeueParams) error {
	err := s.Requeue(ctx, p)
	if err == nil {
		s.within(p.Instance, func(in *instance, _ time.Time) {
			r := in.byKey[p.CorrelationID]
			r.pending.attempts = r.lives[len(r.lives)-1].Attempts
		})
	}
	return err
}

func requeueFromAnyStatus(ctx context.Context, s *Store, p fencerow.RequeueParams) error {
	err := s.Requeue(ctx, p)
	if wrong, ok := errors.AsType[*fencerow.WrongStatusError](err); ok && wrong.Status.Blocked() {
		p.From = wrong.Status
		return s.Requeue(ctx, p)
	}
	return err
}

func enqueueIgnoringContent(
	ctx context.Context, s *Store, p fencerow.EnqueueParams,
) ([]fencerow.Enqueued, error) {
	results, err := s.EnqueueMany(ctx, p)
	for i := range results {
		if results[i].Result == fencerow.EnqueueConflict {
			results[i].Result = fencerow.EnqueueDuplicate
		}
	}
	return results, err
}

func pruneWithOpenSkips(ctx context.Context, s *Store, p fencerow.PruneParams) (fencerow.PruneResult, error) {
	s.within(p.Instance, func(in *instance, now time.Time) {
		for _, r := range in.rows {
			r.resolveSkip(now)
		}
	})
	return s.Prune(ctx, p)
}

func pruneBlocked(ctx context.Context, s *Store, p fencerow.PruneParams) (fencerow.PruneResult, error) {
	s.within(p.Instance, func(in *instance, _ time.Time) {
		for _, r := range in.rows {
			if r.pending == nil {
				r.lives[len(r.lives)-1].Status = fencerow.StatusCompleted
			}
		}
	})
	return s.Prune(ctx, p)
}
