package pgstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/db"
)

// ClaimBatch implements [fencerow.Store].
func (s *Store) ClaimBatch(ctx context.Context, p fencerow.ClaimBatchParams) (*fencerow.Claim, error) {
	const op = "claim batch"
	if err := p.Validate(); err != nil {
		return nil, err
	}
	state := s.instance(p.Instance)
	quiet, floor := state.hints(s.floorAge)
	p.Limit = state.limit(p.Limit)
	if quiet {
		due, err := s.claimDue(ctx, op, p.Instance)
		if err != nil {
			return nil, err
		}
		if !due {
			return emptyClaim(p.Instance, p.Token), nil
		}
	}
	made, err := s.claimBatch(ctx, op, p, floor)
	state.read(p.Limit, err)
	if err != nil {
		return nil, err
	}
	if made == nil {
		state.found(false, true, time.Time{})
		return emptyClaim(p.Instance, p.Token), nil
	}
	full := int(made.row.RowCount) == p.Limit
	more := full || made.row.Cut
	if len(made.entries) < int(made.row.RowCount) {
		orphans, err := s.forget(ctx, op, p.Instance, p.Token)
		if err == nil && orphans == 0 {
			// The claim is gone, since its lease ran out on a stalled connection: a time-out like any other, and the
			// caller gives the token back.
			err = fencerow.NewError(op, fencerow.ErrStoreTimeout, nil)
		}
		if err != nil {
			return nil, err
		}
		if more = true; len(made.entries) == 0 {
			state.wake()
			empty := emptyClaim(p.Instance, p.Token)
			empty.More = true
			return empty, nil
		}
	}
	claim := &fencerow.Claim{
		Instance:       p.Instance,
		Token:          p.Token,
		Epoch:          fencerow.ClaimEpoch(made.row.ClaimEpoch),
		ClaimedAt:      made.row.ClaimedAt.UTC(),
		LeaseExpiresAt: made.row.LeaseExpiresAt.UTC(),
		More:           more,
	}
	if err := s.fill(op, claim, claimedRows(&made.row), made.entries); err != nil {
		return nil, err
	}
	state.found(more, floor.IsZero() || !more, made.row.Reached)
	return claim, nil
}

// forget takes rows that cannot be ended out of a claim, such as those whose entries are gone, and returns
// how many there were.
func (s *Store) forget(
	ctx context.Context, op string, instance fencerow.InstanceKey, token fencerow.ClaimToken,
) (orphans int32, err error) {
	calls := []call{
		lockClaim(instance, token),
		func(ctx context.Context, q *db.Queries) error {
			var err error
			orphans, err = q.ClaimForget(ctx, db.ClaimForgetParams{
				ClaimToken: uuid(token), InstanceKey: string(instance),
			})
			return err
		},
	}
	err = s.transact(ctx, op, s.timeout, calls)
	return orphans, err
}

// limit bounds a claim by what was read in time of late.
func (st *instanceState) limit(limit int) int {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.most == 0 {
		return limit
	}
	return min(limit, st.most)
}

// read notes whether a claim of up to limit rows was made and read in time. Wide entries on a slow line are
// not, and a batch of the same size would not be the next time either; so it is halved until it is, and
// doubled again with each success.
func (st *instanceState) read(limit int, err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	switch {
	case errors.Is(err, fencerow.ErrStoreTimeout):
		st.most = max(limit/2, 1)
	case err == nil && st.most > 0:
		if st.most = max(st.most, 2*limit); st.most >= fencerow.MaxBatch {
			st.most = 0
		}
	}
}

// hints returns whether the next poll should look before it claims, and the floor, zero if a scan from the
// start is due.
func (st *instanceState) hints(floorAge time.Duration) (quiet bool, floor time.Time) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if time.Since(st.scannedAt) < floorAge {
		floor = st.floor
	}
	return st.quiet, floor
}

// found notes what a claim left behind: more due rows, from reached on, or nothing; and whether it scanned
// from the start.
func (st *instanceState) found(more, fromStart bool, reached time.Time) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if fromStart {
		st.scannedAt = time.Now()
	}
	st.quiet = !more
	st.floor = reached
}

// wake makes the next poll claim without looking first.
func (st *instanceState) wake() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.quiet = false
}

// claimDue is all that an idle poll costs: one statement without lock or transaction.
func (s *Store) claimDue(ctx context.Context, op string, instance fencerow.InstanceKey) (bool, error) {
	var row db.ClaimDueRow
	err := s.run(ctx, op, s.timeout, func(ctx context.Context, conn *pgx.Conn) error {
		var err error
		row, err = s.queries(conn).ClaimDue(ctx, db.ClaimDueParams{
			InstanceKey: string(instance), Program: int32(MaxSchemaVersion),
		})
		return err
	})
	if err != nil {
		return false, err
	}
	switch {
	case row.Outgrown:
		return false, fencerow.NewError(op, fencerow.ErrStoreSchema, nil)
	case row.Held:
		return false, fencerow.NewError(op, fencerow.ErrInstanceHeld, nil)
	}
	return row.Due, nil
}

// madeClaim is a claim as the database answered it.
type madeClaim struct {
	row     db.ClaimBatchRow
	entries []db.ClaimEntriesRow
}

// claimBatch makes one claim, from the floor on if there is one; nil if nothing is due.
func (s *Store) claimBatch(
	ctx context.Context, op string, p fencerow.ClaimBatchParams, floor time.Time,
) (*madeClaim, error) {
	var made madeClaim
	var lock []db.InstanceLockRow
	var nothing bool
	calls := []call{
		lockInstance(p.Instance, &lock),
		func(ctx context.Context, q *db.Queries) error {
			var err error
			made.row, err = q.ClaimBatch(ctx, db.ClaimBatchParams{
				InstanceKey: string(p.Instance),
				ClaimToken:  uuid(p.Token),
				ClaimedBy:   string(p.Worker),
				RowLimit:    int32(p.Limit),
				Lease:       p.Lease,
				FromStart:   floor.IsZero(),
				Floor:       floor,
				MinEpoch:    s.highestEpoch.Load() + 1,
			})
			return ignoreNoRows(err, &nothing)
		},
	}
	err := s.claimTransaction(
		ctx,
		op,
		p.Instance,
		p.Lease,
		&lock,
		calls,
		readEntries(p.Instance, p.Token, &made.entries),
	)
	if err != nil || nothing {
		return nil, err
	}
	return &made, nil
}

// claimTransaction runs the calls of a claim, the first of which locks the instance into lock, and reads the
// entries in the same round trip. An instance that is not registered is registered, and the claim repeated
// once.
func (s *Store) claimTransaction(
	ctx context.Context, op string, instance fencerow.InstanceKey, lease time.Duration,
	lock *[]db.InstanceLockRow, calls []call, entries call,
) error {
	bound := min(s.timeout, max(lease/15, 100*time.Millisecond))
	for registered := false; ; registered = true {
		err := s.transact(ctx, op, bound, calls, entries)
		switch {
		case err != nil:
			return err
		case len(*lock) == 1 && (*lock)[0].Outgrown:
			return fencerow.NewError(op, fencerow.ErrStoreSchema, nil)
		case len(*lock) == 1 && (*lock)[0].Held:
			return fencerow.NewError(op, fencerow.ErrInstanceHeld, nil)
		case len(*lock) == 1:
			return nil
		case registered:
			return fencerow.NewError(op, fencerow.ErrStoreFailed, nil)
		}
		if err := s.Register(ctx, instance); err != nil {
			return err
		}
	}
}

func instanceLock(instance fencerow.InstanceKey) db.InstanceLockParams {
	return db.InstanceLockParams{InstanceKey: string(instance), Program: int32(MaxSchemaVersion)}
}

func lockInstance(instance fencerow.InstanceKey, lock *[]db.InstanceLockRow) call {
	return func(ctx context.Context, q *db.Queries) error {
		var err error
		*lock, err = q.InstanceLock(ctx, instanceLock(instance))
		return err
	}
}

func readEntries(
	instance fencerow.InstanceKey,
	token fencerow.ClaimToken,
	entries *[]db.ClaimEntriesRow,
) call {
	return func(ctx context.Context, q *db.Queries) error {
		var err error
		*entries, err = q.ClaimEntries(
			ctx,
			db.ClaimEntriesParams{ClaimToken: uuid(token), InstanceKey: string(instance)},
		)
		return err
	}
}

// ignoreNoRows turns the absence of a row into a flag.
func ignoreNoRows(err error, absent *bool) error {
	*absent = errors.Is(err, pgx.ErrNoRows)
	if *absent {
		return nil
	}
	return err
}

func emptyClaim(instance fencerow.InstanceKey, token fencerow.ClaimToken) *fencerow.Claim {
	return &fencerow.Claim{Instance: instance, Token: token}
}

// claimedRow is the state of a row when it was claimed.
type claimedRow struct {
	id        int64
	dueAt     time.Time
	attempts  int32
	life      int32
	expiries  int32
	uncertain bool
	reclaimed bool
	reason    string
}

// claimedRows takes apart what ClaimBatch returns. Most rows are in their first life and were never
// attempted; what the others have been through is told in arrays of its own.
func claimedRows(r *db.ClaimBatchRow) []claimedRow {
	rows := make([]claimedRow, len(r.OutboxIds))
	for i, id := range r.OutboxIds {
		rows[i] = claimedRow{id: id, dueAt: r.DueTimes[i], life: 1}
	}
	if len(r.SeasonedIds) == 0 {
		return rows
	}
	position := make(map[int64]int, len(rows))
	for i := range rows {
		position[rows[i].id] = i
	}
	for i, id := range r.SeasonedIds {
		row := &rows[position[id]]
		row.attempts, row.life, row.expiries = r.AttemptCounts[i], r.Lives[i], r.ExpiryCounts[i]
		row.uncertain, row.reason = r.Uncertain[i], r.Reasons[i]
	}
	for _, id := range r.ReclaimedIds { // all of them are seasoned
		rows[position[id]].reclaimed = true
	}
	return rows
}

// fill puts the rows whose entries were read into the claim, in order of due time, and notes its epoch.
func (s *Store) fill(
	op string, claim *fencerow.Claim, rows []claimedRow, entries []db.ClaimEntriesRow,
) error {
	for epoch := int64(claim.Epoch); ; {
		seen := s.highestEpoch.Load()
		if epoch <= seen || s.highestEpoch.CompareAndSwap(seen, epoch) {
			break
		}
	}
	byID := func(a, b db.ClaimEntriesRow) int { return cmp.Compare(a.OutboxID, b.OutboxID) }
	if !slices.IsSortedFunc(entries, byID) {
		slices.SortFunc(entries, byID)
	}
	claim.Entries = make([]fencerow.ClaimedEntry, 0, len(entries))
	for i := range rows {
		row := &rows[i]
		at, found := i, i < len(entries) && entries[i].OutboxID == row.id
		if !found {
			at, found = slices.BinarySearchFunc(entries, row.id, func(e db.ClaimEntriesRow, id int64) int {
				return cmp.Compare(e.OutboxID, id)
			})
		}
		if !found {
			continue
		}
		claim.Entries = append(claim.Entries, fencerow.ClaimedEntry{})
		if err := mapClaimed(&claim.Entries[len(claim.Entries)-1], claim.Instance, row, &entries[at]); err != nil {
			return fencerow.NewError(op, fencerow.ErrStoreFailed, err)
		}
	}
	if !slices.IsSortedFunc(claim.Entries, byDueTime) {
		slices.SortFunc(claim.Entries, byDueTime)
	}
	return nil
}

func byDueTime(a, b fencerow.ClaimedEntry) int {
	return cmp.Or(a.DueAt.Compare(b.DueAt), cmp.Compare(a.OutboxID, b.OutboxID))
}

func mapClaimed(
	e *fencerow.ClaimedEntry, instance fencerow.InstanceKey, row *claimedRow, r *db.ClaimEntriesRow,
) error {
	err := entryColumns{
		id: r.OutboxID, correlationID: r.CorrelationID, kind: r.EntryKind, slot: r.SlotID, cashDelta: r.CashDelta,
		currency: r.Currency, payload: r.Payload, traceParent: r.Traceparent, enqueuedAt: r.EnqueuedAt,
	}.into(&e.Entry, instance)
	if err != nil {
		return err
	}
	e.Attempt = int(min(row.attempts, maxAttemptCount)) + 1
	e.Life = int(row.life)
	e.DueAt = row.dueAt.UTC()
	e.Uncertain = row.uncertain
	e.Reclaimed = row.reclaimed
	e.ExpiryCount = int(row.expiries)
	e.LastReason = fencerow.ReasonCode(row.reason)
	return nil
}

// maxAttemptCount is where the count of attempts stops rising: one below what its column holds.
const maxAttemptCount = 1<<31 - 2

func uuid(t fencerow.ClaimToken) pgtype.UUID { return pgtype.UUID{Bytes: t, Valid: true} }
