package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/pgstore"
)

// viewRepeats is how often each view is read; medians of them are shown.
const viewRepeats = 21

// listPage is how many rows a page of list_pending has.
const listPage = 100

// runViews is workload i: what the views cost as more rows are pending.
func runViews(ctx context.Context, b *bench) error {
	sizes := []int{10, 10_000, 1_000_000}
	if b.short {
		sizes = []int{10, 100, 1000}
	}
	for _, size := range sizes {
		if err := b.views(ctx, size); err != nil {
			return fmt.Errorf("%d pending: %w", size, err)
		}
	}
	return nil
}

func (b *bench) views(ctx context.Context, size int) (err error) {
	q := atLargeBatches()
	db, err := b.grow(ctx, q, &grownState{waiting: size})
	if db != nil {
		defer func() { err = errors.Join(err, db.drop()) }()
	}
	if err != nil {
		return err
	}
	store, err := openStore(db.dsn, 1)
	if err != nil {
		return err
	}
	defer store.Close()
	return db.with(ctx, func(conn *pgx.Conn) error {
		var sums, plain, lists []float64
		for range viewRepeats {
			for _, measured := range []struct {
				times *[]float64
				read  func() error
			}{
				{&sums, func() error { return readDelta(ctx, store, size) }},
				{&plain, func() error { return readPlain(ctx, conn, size) }},
				{&lists, func() error { return readList(ctx, store, size) }},
			} {
				start := time.Now()
				if err := measured.read(); err != nil {
					return err
				}
				*measured.times = append(*measured.times, float64(time.Since(start).Microseconds())/1000)
			}
		}
		name := fmt.Sprintf("_%d_pending", size)
		b.figure("i_cash_delta"+name, median(sums), "ms")
		b.figure("i_plain_sum"+name, median(plain), "ms")
		b.figure("i_cash_delta_over_plain"+name, median(sums)/median(plain), "times")
		b.figure("i_list_pending"+name, median(lists), "ms")
		return nil
	})
}

func readDelta(ctx context.Context, store *pgstore.Store, size int) error {
	deltas, err := store.PendingCashDelta(ctx, fencerow.CashDeltaParams{Instance: instance})
	if err == nil && (len(deltas) != 1 || deltas[0].PendingCount != int64(size)) {
		err = fmt.Errorf("the view counts %+v", deltas)
	}
	return err
}

func readPlain(ctx context.Context, conn *pgx.Conn, size int) error {
	var currency, sum string
	var count int64
	err := conn.QueryRow(ctx, query("views", "plain_sum"), string(instance)).Scan(&currency, &sum, &count)
	if err == nil && count != int64(size) {
		err = fmt.Errorf("the plain sum counts %d", count)
	}
	return err
}

func readList(ctx context.Context, store *pgstore.Store, size int) error {
	page, err := store.ListPending(ctx, fencerow.ListPendingParams{Instance: instance, Limit: listPage})
	if err == nil && len(page) != min(size, listPage) {
		err = fmt.Errorf("the page has %d rows", len(page))
	}
	return err
}
