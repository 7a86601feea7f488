package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/db"
)

// work claims, stalls, records some rows once or twice, releases some, forgets some, and now and then loses
// an answer.
func (tr *torture) work(ctx context.Context, n int) {
	var cut atomic.Bool
	store := tr.open(&cut)
	defer store.Close()
	worker := fmt.Sprint("worker-", n)
	for ctx.Err() == nil {
		if rand.IntN(20) == 0 {
			cut.Store(true)
		}
		claim := tr.claim(ctx, store, worker, 1+rand.IntN(40))
		if claim == nil {
			tr.stall(ctx, 5*time.Millisecond)
			continue
		}
		for round := rand.IntN(3); round >= 0 && ctx.Err() == nil; round-- {
			if rand.IntN(3) == 0 {
				tr.stall(ctx, 2*tortureLease)
			}
			if rand.IntN(15) == 0 {
				cut.Store(true)
			}
			if rand.IntN(4) == 0 {
				tr.release(ctx, store, claim)
			} else {
				tr.record(ctx, store, claim)
			}
		}
	}
}

func (tr *torture) stall(ctx context.Context, most time.Duration) {
	timer := time.NewTimer(rand.N(most))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

func (tr *torture) claim(ctx context.Context, store *Store, worker string, limit int) *fencerow.Claim {
	token := fencerow.NewClaimToken()
	claim, err := store.ClaimBatch(ctx, fencerow.ClaimBatchParams{
		Instance: tr.instance,
		Worker:   fencerow.WorkerID(worker),
		Token:    token,
		Limit:    limit,
		Lease:    fencerow.MinLease,
	})
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if err != nil {
		tr.counts["claim: "+string(errorCode(err))]++
		return nil
	}
	if len(claim.Entries) == 0 {
		return nil
	}
	tr.counts["claims"]++
	tr.tokens = append(tr.tokens, token)
	for i := range claim.Entries {
		e := &claim.Entries[i]
		if e.Reclaimed {
			tr.counts["rows reclaimed"]++
		}
		tr.holds[e.OutboxID] = append(tr.holds[e.OutboxID], &hold{
			epoch: claim.Epoch, worker: worker, from: claim.ClaimedAt, leaseEnd: claim.LeaseExpiresAt,
		})
	}
	return claim
}

// subset picks some rows of the claim, whether they were recorded before or not.
func subset(claim *fencerow.Claim) []*fencerow.ClaimedEntry {
	var rows []*fencerow.ClaimedEntry
	for i := range claim.Entries {
		if rand.IntN(3) > 0 {
			rows = append(rows, &claim.Entries[i])
		}
	}
	return rows
}

func (tr *torture) record(ctx context.Context, store *Store, claim *fencerow.Claim) {
	rows := subset(claim)
	if len(rows) == 0 {
		return
	}
	outcomes := make([]fencerow.Outcome, len(rows))
	for i, e := range rows {
		outcomes[i] = fencerow.Outcome{OutboxID: e.OutboxID, Kind: fencerow.OutcomeCompleted}
		switch rand.IntN(4) {
		case 0:
			outcomes[i].Kind = fencerow.OutcomeRetryableFailure
			outcomes[i].Reason = fencerow.ReasonLedgerError
			outcomes[i].Charge = fencerow.ChargeAttempt
			outcomes[i].Delay = rand.N(20 * time.Millisecond)
		case 1:
			outcomes[i].Kind = fencerow.OutcomeDeadLettered
			outcomes[i].Reason = fencerow.ReasonLedgerError
		}
	}
	tr.letGo(claim, rows)
	verdicts, err := store.RecordOutcomes(ctx, fencerow.RecordParams{
		Instance: tr.instance, Token: claim.Token, Outcomes: outcomes,
	})
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if err != nil {
		tr.counts["record: "+string(errorCode(err))]++
		return
	}
	for i, v := range verdicts {
		if !v.Applied {
			tr.counts["rows lost: "+string(v.Lost)]++
			continue
		}
		tr.counts["rows recorded"]++
		if outcomes[i].Kind.Terminal() {
			l := life{v.OutboxID, rows[i].Life}
			if tr.terminal[l]++; tr.terminal[l] > 1 {
				tr.found = append(tr.found, fmt.Sprintf("life %d of row %d ended twice", l.number, l.id))
			}
		}
	}
}

func (tr *torture) release(ctx context.Context, store *Store, claim *fencerow.Claim) {
	rows := subset(claim)
	if len(rows) == 0 {
		return
	}
	released := make([]fencerow.ReleaseRow, len(rows))
	for i, e := range rows {
		released[i] = fencerow.ReleaseRow{OutboxID: e.OutboxID, Uncertain: rand.IntN(2) == 0}
	}
	tr.letGo(claim, rows)
	_, err := store.Release(
		ctx,
		fencerow.ReleaseParams{Instance: tr.instance, Token: claim.Token, Rows: released},
	)
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if err != nil {
		tr.counts["release: "+string(errorCode(err))]++
	} else {
		tr.counts["releases"]++
	}
}

// letGo notes that from now on the rows may belong to others.
func (tr *torture) letGo(claim *fencerow.Claim, rows []*fencerow.ClaimedEntry) {
	now := time.Now()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, e := range rows {
		for _, h := range tr.holds[e.OutboxID] {
			if h.epoch == claim.Epoch && h.letGoFrom.IsZero() {
				h.letGoFrom = now
			}
		}
	}
}

func (tr *torture) produce(ctx context.Context) {
	var never atomic.Bool
	store := tr.open(&never)
	defer store.Close()
	for ctx.Err() == nil {
		entries := make([]fencerow.NewEntry, 50)
		tr.mu.Lock()
		first, waiting := tr.enqueued, tr.enqueued-len(tr.terminal)
		if waiting < tortureBacklog {
			tr.enqueued += len(entries)
		}
		tr.mu.Unlock()
		if waiting >= tortureBacklog {
			tr.stall(ctx, 20*time.Millisecond)
			continue
		}
		for i := range entries {
			size := 20
			if rand.IntN(50) == 0 {
				size = 64 << 10 // wide enough that a reader who stops fills its socket
			}
			entries[i] = fencerow.NewEntry{
				CorrelationID: fencerow.CorrelationID(fmt.Sprint("c-", first+i)),
				EntryKind:     "fill",
				Payload:       []byte(`{"pad":"` + strings.Repeat("x", size) + `"}`),
			}
		}
		tr.enqueue(store, entries)
		tr.stall(ctx, 20*time.Millisecond)
	}
}

// enqueue repeats the call until it is answered, which is safe: what was written becomes a duplicate.
func (tr *torture) enqueue(store *Store, entries []fencerow.NewEntry) {
	for {
		_, err := store.EnqueueMany(context.Background(), fencerow.EnqueueParams{
			Instance: tr.instance, Entries: entries,
		})
		if err == nil {
			return
		}
		tr.count("enqueue: " + string(errorCode(err)))
		if errors.Is(err, fencerow.ErrInvalidInput) {
			tr.t.Errorf("enqueue: %v", err)
			return
		}
	}
}

// requeue races every other verb for dead letters.
func (tr *torture) requeue(ctx context.Context) {
	var never atomic.Bool
	store := tr.open(&never)
	defer store.Close()
	for ctx.Err() == nil {
		tr.mu.Lock()
		n := tr.enqueued
		tr.mu.Unlock()
		if n == 0 {
			continue
		}
		err := store.Requeue(ctx, fencerow.RequeueParams{
			Instance:      tr.instance,
			CorrelationID: fencerow.CorrelationID(fmt.Sprint("c-", rand.IntN(n))),
			From:          fencerow.StatusDeadLettered,
		})
		tr.mu.Lock()
		if err == nil {
			tr.counts["requeues"]++
		}
		tr.mu.Unlock()
	}
}

// keepOutcomeOpen begins an outcome of somebody's claim and leaves its transaction open, within the lease or
// past it.
func (tr *torture) keepOutcomeOpen(ctx context.Context) {
	conn, err := pgx.Connect(ctx, tr.dsn)
	if err != nil {
		return
	}
	defer conn.Close(context.Background())
	for ctx.Err() == nil {
		tr.stall(ctx, 10*time.Millisecond)
		token, ok := tr.recentToken()
		if !ok {
			continue
		}
		tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
		if err != nil {
			return
		}
		_, err = db.New(
			tx,
		).ClaimLock(
			ctx,
			db.ClaimLockParams{ClaimToken: uuid(token), InstanceKey: string(tr.instance)},
		)
		if err == nil {
			tr.stall(ctx, 3*tortureLease)
			tr.count("outcome transactions left open")
		}
		tx.Rollback(context.Background()) //nolint:errcheck // ends with the connection
	}
}

// stopReading asks for a claim's entries and leaves the answer in the socket for a while.
func (tr *torture) stopReading(ctx context.Context) {
	conn, err := pgx.Connect(ctx, tr.dsn)
	if err != nil {
		return
	}
	defer conn.Close(context.Background())
	for ctx.Err() == nil {
		tr.stall(ctx, 20*time.Millisecond)
		token, ok := tr.recentToken()
		if !ok {
			continue
		}
		rows, err := conn.Query(ctx, db.ClaimEntries, uuid(token), tr.instance)
		if err != nil {
			continue
		}
		if rows.Next() {
			tr.stall(ctx, 4*tortureLease)
			tr.count("readers stopped")
		}
		rows.Close()
	}
}

func (tr *torture) recentToken() (fencerow.ClaimToken, bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if len(tr.tokens) == 0 {
		return fencerow.ClaimToken{}, false
	}
	recent := tr.tokens[max(0, len(tr.tokens)-tortureWorkers):]
	return recent[rand.IntN(len(recent))], true
}

func (tr *torture) count(what string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.counts[what]++
}
