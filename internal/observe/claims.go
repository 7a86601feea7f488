package observe

import (
	"log/slog"

	"github.com/fourblocks2020/fencerow"
)

// ClaimResult says what came of a claim. The vocabulary is closed.
type ClaimResult string

// The claim results.
const (
	ResultClaimed     ClaimResult = "claimed"
	ResultUnavailable ClaimResult = "unavailable"
	ResultForeign     ClaimResult = "foreign_instance"
	ResultLost        ClaimResult = "lost"
)

// EmptyPoll counts a poll that found nothing due. It never logs.
func (o *Observer) EmptyPoll() { o.counters.emptyPolls.Add(1) }

// BatchClaimed counts and logs a batch claim that holds rows.
func (o *Observer) BatchClaimed(claim *fencerow.Claim, limit int) {
	o.counters.claimedBatches.Add(1)
	if !o.log.Enabled(always, slog.LevelInfo) {
		return
	}
	ids := make([]string, len(claim.Entries))
	reclaimed := 0
	for i := range claim.Entries {
		ids[i] = safe(claim.Entries[i].CorrelationID)
		if claim.Entries[i].Reclaimed {
			reclaimed++
		}
	}
	attrs := []slog.Attr{
		slog.String(keyClaimResult, string(ResultClaimed)),
		slog.Int(keyCount, len(ids)),
		slog.Int(keyLimit, limit),
		slog.Any(keyCorrelationIDs, ids),
	}
	if reclaimed > 0 {
		attrs = append(attrs, slog.Int(keyReclaimed, reclaimed))
	}
	o.write(slog.LevelInfo, "batch claimed", attrs...)
}

// TargetedClaim counts and logs the result of a targeted claim, or of a refusal.
func (o *Observer) TargetedClaim(result ClaimResult, id fencerow.CorrelationID) {
	level := slog.LevelInfo
	switch result {
	case ResultUnavailable:
		o.counters.unavailable.Add(1)
	case ResultForeign:
		o.counters.foreign.Add(1)
		level = slog.LevelWarn
	case ResultClaimed, ResultLost:
	}
	o.write(level, "targeted claim",
		slog.String(keyClaimResult, string(result)), slog.String(keyCorrelationID, safe(id)))
}

// DroppedNothing stands for the outcome of a row that was to be released.
const DroppedNothing fencerow.OutcomeKind = "none"

// ClaimLost counts and logs one row whose outcome or release was refused because the claim, that of the epoch
// given, does not hold it any more, and raises an alert if claims are lost in series. dropped is the outcome
// that was not recorded.
func (o *Observer) ClaimLost(
	epoch fencerow.ClaimEpoch, why fencerow.LostReason, id fencerow.CorrelationID, dropped fencerow.OutcomeKind,
) {
	o.counters.lost.Add(1)
	o.write(slog.LevelWarn, "claim lost",
		slog.String(keyClaimResult, string(ResultLost)), slog.String(keyReason, safe(why)),
		slog.String(keyCorrelationID, safe(id)), slog.String(keyDropped, safe(dropped)))
	o.claimLost(epoch, why)
}
