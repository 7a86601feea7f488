package pgstore

import (
	"context"
	"errors"
	"slices"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/db"
)

// RecordOutcomes implements [fencerow.Store].
func (s *Store) RecordOutcomes(ctx context.Context, p fencerow.RecordParams) ([]fencerow.Verdict, error) {
	const op = "record outcomes"
	if err := p.Validate(); err != nil {
		return nil, err
	}
	verdicts, err := s.record(ctx, op, p.Instance, p.Token, p.Outcomes)
	switch {
	case errors.Is(err, fencerow.ErrStoreBusy) && hasSnapshot(p.Outcomes):
		// Somebody keeps a slot locked. The outcomes must not wait for it.
		verdicts, err = s.record(ctx, op, p.Instance, p.Token, withoutSnapshots(p.Outcomes))
	case errors.Is(err, fencerow.ErrStoreData):
		verdicts, err = s.recordSingly(ctx, op, &p)
	}
	if err != nil {
		return nil, err
	}
	return verdicts, s.explainLost(ctx, op, p.Instance, verdicts)
}

func hasSnapshot(outcomes []fencerow.Outcome) bool {
	return slices.ContainsFunc(outcomes, func(o fencerow.Outcome) bool { return o.Snapshot != nil })
}

// withoutSnapshots replaces each snapshot by one that is refused, so that its skip stays open.
func withoutSnapshots(outcomes []fencerow.Outcome) []fencerow.Outcome {
	plain := slices.Clone(outcomes)
	for i := range plain {
		if plain[i].Snapshot != nil {
			plain[i].Snapshot = &fencerow.Snapshot{}
		}
	}
	return plain
}

// recordSingly records one by one and without snapshots, after the database refused a value of the whole: one
// answer cannot make a batch unrecordable. An item that is refused even so, and without its reference, fails
// the call once the others are recorded.
func (s *Store) recordSingly(
	ctx context.Context,
	op string,
	p *fencerow.RecordParams,
) ([]fencerow.Verdict, error) {
	// A row put beside its own finished life by hand is what no reference or snapshot explains.
	if _, err := s.forget(ctx, op, p.Instance, p.Token); err != nil {
		return nil, err
	}
	verdicts := make([]fencerow.Verdict, len(p.Outcomes))
	var refused error
	for i, o := range withoutSnapshots(p.Outcomes) {
		one, err := s.record(ctx, op, p.Instance, p.Token, []fencerow.Outcome{o})
		if errors.Is(err, fencerow.ErrStoreData) {
			o.LedgerRef = ""
			one, err = s.record(ctx, op, p.Instance, p.Token, []fencerow.Outcome{o})
		}
		switch {
		case errors.Is(err, fencerow.ErrStoreData):
			refused = err
		case err != nil:
			return nil, err
		default:
			verdicts[i] = one[0]
		}
	}
	return verdicts, refused
}

func (s *Store) record(
	ctx context.Context,
	op string,
	instance fencerow.InstanceKey,
	token fencerow.ClaimToken,
	outcomes []fencerow.Outcome,
) ([]fencerow.Verdict, error) {
	params := recordParams(instance, token, outcomes)
	var row db.ClaimRecordRow
	calls := []call{
		lockClaim(instance, token),
		func(ctx context.Context, q *db.Queries) error {
			var err error
			row, err = q.ClaimRecord(ctx, params)
			return err
		},
	}
	err := s.transact(ctx, op, s.timeout, calls)
	if err != nil {
		return nil, err
	}
	all := int(row.AppliedCount) == len(outcomes)
	var applied map[int64]bool
	if !all {
		applied = set(row.AppliedIds)
	}
	rejected := set(row.SnapshotRejectedIds)
	verdicts := make([]fencerow.Verdict, len(outcomes))
	for i := range outcomes {
		id := int64(outcomes[i].OutboxID)
		verdicts[i] = fencerow.Verdict{
			OutboxID:         outcomes[i].OutboxID,
			Applied:          all || applied[id],
			SnapshotRejected: rejected[id],
		}
	}
	return verdicts, nil
}

// lockClaim locks the claim, or finds that it is gone; then everything in the batch is lost.
func lockClaim(instance fencerow.InstanceKey, token fencerow.ClaimToken) call {
	return func(ctx context.Context, q *db.Queries) error {
		_, err := q.ClaimLock(ctx, db.ClaimLockParams{ClaimToken: uuid(token), InstanceKey: string(instance)})
		return err
	}
}

// recordParams turns outcomes into arrays. A plain completion is an id and nothing else. A snapshot that no
// entry could have is dropped here; whether it is the entry's own is decided by the database, which knows the
// entry. A dropped snapshot keeps its place among the ids with an empty slot, which matches no entry, so that
// its skip stays open.
func recordParams(
	instance fencerow.InstanceKey, token fencerow.ClaimToken, outcomes []fencerow.Outcome,
) db.ClaimRecordParams {
	p := db.ClaimRecordParams{
		ClaimToken:  uuid(token),
		InstanceKey: string(instance),
		ItemCount:   int32(len(outcomes)),
	}
	finished := make([]int64, 0, len(outcomes))
	for i := range outcomes {
		o := &outcomes[i]
		if !o.Kind.Terminal() {
			p.RetriedIds = append(p.RetriedIds, int64(o.OutboxID))
			p.RetryReasons = append(p.RetryReasons, string(o.Reason))
			p.Delays = append(p.Delays, o.Delay.Microseconds())
			p.Charges = append(p.Charges, int32(o.Charge))
			p.Uncertain = append(p.Uncertain, o.Uncertain)
			continue
		}
		finished = append(finished, int64(o.OutboxID))
		addDetail(&p, o)
		addSnapshot(&p, o)
	}
	p.FinishedLows, p.FinishedHighs = runs(finished)
	return p
}

// runs sorts ids and returns the first and last of each run of ids that follow one another. The ids of a
// claim mostly do, and the database finds a run at the cost of one row.
func runs(ids []int64) (lows, highs []int64) {
	slices.Sort(ids)
	for i, id := range ids {
		if i > 0 && id <= ids[i-1]+1 {
			highs[len(highs)-1] = id
			continue
		}
		lows, highs = append(lows, id), append(highs, id)
	}
	return lows, highs
}

// addDetail says what an outcome is beyond a plain completion.
func addDetail(p *db.ClaimRecordParams, o *fencerow.Outcome) {
	ref := ""
	if fencerow.ValidLedgerRef(o.LedgerRef) {
		ref = o.LedgerRef
	}
	if o.Kind == fencerow.OutcomeCompleted && o.Reason == "" && ref == "" {
		return
	}
	p.DetailIds = append(p.DetailIds, int64(o.OutboxID))
	p.Outcomes = append(p.Outcomes, string(o.Kind))
	p.Reasons = append(p.Reasons, string(o.Reason))
	p.LedgerRefs = append(p.LedgerRefs, ref)
}

func addSnapshot(p *db.ClaimRecordParams, o *fencerow.Outcome) {
	if o.Snapshot == nil {
		return
	}
	snapshot := *o.Snapshot
	if !snapshot.WellFormed() {
		snapshot = fencerow.Snapshot{}
	}
	p.SnapshotOutboxIds = append(p.SnapshotOutboxIds, int64(o.OutboxID))
	p.SnapshotSlotIds = append(p.SnapshotSlotIds, string(snapshot.SlotID))
	p.SnapshotCurrencies = append(p.SnapshotCurrencies, snapshot.Currency)
	p.SnapshotBalances = append(p.SnapshotBalances, snapshot.CashBalance.String())
	p.SnapshotVersions = append(p.SnapshotVersions, snapshot.Version)
}

// explainLost fills in what became of lost rows, read after the transaction. Failing to read it does not undo
// what was recorded: the rows are lost either way.
func (s *Store) explainLost(
	ctx context.Context,
	op string,
	instance fencerow.InstanceKey,
	verdicts []fencerow.Verdict,
) error {
	var ids []int64
	for i := range verdicts {
		if !verdicts[i].Applied {
			ids = append(ids, int64(verdicts[i].OutboxID))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	var rows []db.ClaimLostReasonsRow
	calls := []call{func(ctx context.Context, q *db.Queries) error {
		var err error
		rows, err = q.ClaimLostReasons(ctx, db.ClaimLostReasonsParams{
			InstanceKey: string(instance),
			OutboxIds:   ids,
		})
		return err
	}}
	if err := s.transact(ctx, op, s.timeout, calls); err != nil {
		return err
	}
	found := make(map[fencerow.OutboxID]*db.ClaimLostReasonsRow, len(rows))
	for i := range rows {
		found[fencerow.OutboxID(rows[i].OutboxID)] = &rows[i]
	}
	for i := range verdicts {
		v := &verdicts[i]
		if v.Applied {
			continue
		}
		row := found[v.OutboxID]
		switch {
		case row == nil || !row.Known:
			v.Lost = fencerow.LostMissing
			continue
		case row.Unfinished:
			v.Lost = fencerow.LostReclaimed
		case row.Outcome == "":
			v.Lost = fencerow.LostMissing // its pending row was deleted by hand
		default:
			v.Lost = fencerow.LostFinished
		}
		v.Epoch = fencerow.ClaimEpoch(row.ClaimEpoch)
		v.RecordedEpoch = fencerow.ClaimEpoch(row.RecordedEpoch)
		v.Outcome = fencerow.OutcomeKind(row.Outcome)
		v.Reason = fencerow.ReasonCode(row.Reason)
	}
	return nil
}

// Release implements [fencerow.Store].
func (s *Store) Release(ctx context.Context, p fencerow.ReleaseParams) ([]fencerow.Verdict, error) {
	const op = "release"
	if err := p.Validate(); err != nil {
		return nil, err
	}
	params := db.ClaimReleaseParams{
		ClaimToken:   uuid(p.Token),
		InstanceKey:  string(p.Instance),
		OutboxIds:    make([]int64, len(p.Rows)),
		Uncertain:    make([]bool, len(p.Rows)),
		Everything:   p.All,
		AllUncertain: p.Uncertain,
	}
	for i, row := range p.Rows {
		params.OutboxIds[i] = int64(row.OutboxID)
		params.Uncertain[i] = row.Uncertain
	}
	var released []int64
	calls := []call{
		lockClaim(p.Instance, p.Token),
		func(ctx context.Context, q *db.Queries) error {
			var err error
			released, err = q.ClaimRelease(ctx, params)
			return err
		},
	}
	err := s.transact(ctx, op, s.timeout, calls)
	if err != nil {
		return nil, err
	}
	// Released rows are due at once; the next poll need not look first.
	if len(released) > 0 {
		s.instance(p.Instance).wake()
	}
	applied := set(released)
	ids := params.OutboxIds
	if p.All {
		ids = released
	}
	verdicts := make([]fencerow.Verdict, len(ids))
	for i, id := range ids {
		verdicts[i] = fencerow.Verdict{OutboxID: fencerow.OutboxID(id), Applied: applied[id]}
	}
	return verdicts, s.explainLost(ctx, op, p.Instance, verdicts)
}

func set(ids []int64) map[int64]bool {
	m := make(map[int64]bool, len(ids))
	for _, id := range ids {
		m[id] = true
	}
	return m
}
