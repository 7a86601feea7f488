package main

import (
	"context"
	"sync"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// watchedClaimer notes what a writer asks of its store.
type watchedClaimer struct {
	fencerow.Claimer

	mu       sync.Mutex
	claims   []claimTime
	recorded map[fencerow.OutboxID]time.Time
}

// claimTime is how long a claim that found rows took.
type claimTime struct {
	at   time.Time
	took time.Duration
}

// watch returns what wraps a daemon's store, and what was noted.
func watch() (*watchedClaimer, func(fencerow.Claimer) fencerow.Claimer) {
	w := &watchedClaimer{recorded: map[fencerow.OutboxID]time.Time{}}
	return w, func(c fencerow.Claimer) fencerow.Claimer { w.Claimer = c; return w }
}

// ClaimBatch implements [fencerow.Claimer].
func (w *watchedClaimer) ClaimBatch(
	ctx context.Context, p fencerow.ClaimBatchParams,
) (*fencerow.Claim, error) {
	start := time.Now()
	claim, err := w.Claimer.ClaimBatch(ctx, p)
	took := time.Since(start)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil && len(claim.Entries) > 0 {
		w.claims = append(w.claims, claimTime{at: start, took: took})
	}
	return claim, err
}

// RecordOutcomes implements [fencerow.Claimer].
func (w *watchedClaimer) RecordOutcomes(
	ctx context.Context, p fencerow.RecordParams,
) ([]fencerow.Verdict, error) {
	verdicts, err := w.Claimer.RecordOutcomes(ctx, p)
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, v := range verdicts {
		if v.Applied {
			w.recorded[v.OutboxID] = now
		}
	}
	return verdicts, err
}

// claimed returns the claims that found rows so far.
func (w *watchedClaimer) claimed() []claimTime {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]claimTime(nil), w.claims...)
}

// recordedAt returns when an entry's outcome was recorded.
func (w *watchedClaimer) recordedAt(id fencerow.OutboxID) (at time.Time, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, ok = w.recorded[id]
	return at, ok
}
