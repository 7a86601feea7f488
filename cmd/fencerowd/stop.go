package main

import (
	"context"
	"time"

	"github.com/fourblocks2020/fencerow"
)

const (
	// errOverdue says that stopping did not end within the grace period.
	errOverdue fencerow.Code = "stop_overdue"
	// errUnread says that the log's reader does not read: a line for people would block as well.
	errUnread fencerow.Code = "log_unread"
)

// lastRecords is how much of the grace period is kept for writing the last records of the log.
func lastRecords(grace time.Duration) time.Duration { return min(grace/4, time.Second/2) }

// runWithin runs, then closes. It returns what running did, or errOverdue if that had not ended this long
// after ctx ended. Closing has what is left of that time, and is then left alone: the connections to a
// database that does not answer end with the process.
func runWithin(
	ctx context.Context, grace time.Duration, run func(context.Context) error, closeAll func(),
) error {
	ended, closed := make(chan error, 1), make(chan struct{})
	go func() {
		ended <- run(ctx)
		closeAll()
		close(closed)
	}()
	var late <-chan time.Time
	var err error
	select {
	case err = <-ended:
		late = time.After(grace)
	case <-ctx.Done():
		late = time.After(grace)
		select {
		case err = <-ended:
		case <-late:
			return errOverdue
		}
	}
	select {
	case <-closed:
	case <-late:
	}
	return err
}
