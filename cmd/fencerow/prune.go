package main

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/fourblocks2020/fencerow"
)

//nolint:lll // a struct tag cannot be wrapped
type pruneCmd struct {
	Own       owned `embed:""`
	OlderThan age   `name:"older-than" env:"FENCEROW_PRUNE_OLDER_THAN" required:"" placeholder:"AGE" help:"How long ago the entry must have been completed: 90d, 36h or 15m. 0s is all that is completed."`
	Limit     int   `name:"limit" env:"FENCEROW_PRUNE_LIMIT" default:"0" help:"Entries to delete at most; 0 is no limit."`
}

// Help says what is lost.
func (*pruneCmd) Help() string {
	return `Deletes entries whose latest life ended in success, with their outcomes, in transactions of at most
a thousand. Entries whose skip is still open stay. After that, only the ledger's own idempotency guards a
correlation id that is used again.`
}

// Validate checks the limit.
func (c *pruneCmd) Validate() error {
	if c.Limit < 0 {
		return usage("--limit", "must not be negative")
	}
	return nil
}

// Run prunes in bounded calls until nothing is left to look at.
func (c *pruneCmd) Run(ctx context.Context, a *app) error {
	store, err := openStore(ctx, &c.Own.Database)
	if err != nil {
		return err
	}
	defer store.Close()
	show := newProgress(a.stderr)
	deleted, err := c.prune(ctx, store, func(deleted int) {
		show.update(int64(deleted), int64(c.Limit), "entries deleted")
	})
	show.end()
	if err != nil && deleted > 0 {
		a.say("%d entries were deleted before this:", deleted)
	}
	if err != nil {
		return err
	}
	return a.print(pruneDoc{deleted}, func(t *table) { t.line("%d entries deleted", deleted) })
}

func (c *pruneCmd) prune(
	ctx context.Context, store fencerow.Operator, step func(deleted int),
) (deleted int, err error) {
	p := fencerow.PruneParams{
		Instance: c.Own.Instance.Key(), OlderThan: time.Duration(c.OlderThan), Limit: fencerow.MaxBatch,
	}
	for {
		if c.Limit > 0 {
			p.Limit = min(fencerow.MaxBatch, c.Limit-deleted)
		}
		result, err := store.Prune(ctx, p)
		if err != nil {
			return deleted, err
		}
		deleted += result.Deleted
		step(deleted)
		if result.Next == 0 || c.Limit > 0 && deleted >= c.Limit {
			return deleted, nil
		}
		p.After = result.Next
	}
}

// age is a duration that may be given in days.
type age time.Duration

const day = 24 * time.Hour

// UnmarshalText reads a duration with its unit as [time.ParseDuration] does, or a number of days such as 90d.
func (g *age) UnmarshalText(text []byte) error {
	refused := errors.New("expected an age such as 90d, 36h or 15m")
	if days, ok := strings.CutSuffix(string(text), "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil {
			return refused
		}
		*g = age(time.Duration(n) * day)
		return nil
	}
	d, err := time.ParseDuration(string(text))
	bare := bytes.Trim(text, "+-0") // ParseDuration takes a 0 without a unit: it may be a slip, and deletes all.
	if err != nil || d < 0 || len(bare) == 0 {
		return refused
	}
	*g = age(d)
	return nil
}
