package pgstore

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

func TestRunsHoldEachIDOnceAndNoOther(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 1))
	for range 500 {
		want := map[int64]bool{}
		ids := []int64{}
		for id := range int64(random.IntN(40)) {
			if random.IntN(3) > 0 {
				want[id], ids = true, append(ids, id)
			}
		}
		random.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		given := slices.Clone(ids)
		lows, highs := runs(ids)
		got := map[int64]bool{}
		for i := range lows {
			if lows[i] > highs[i] || i > 0 && lows[i] <= highs[i-1]+1 {
				t.Fatalf("the runs of %d are %d to %d", given, lows, highs)
			}
			for id := lows[i]; id <= highs[i]; id++ {
				got[id] = true
			}
		}
		if len(got) != len(want) || len(want) != len(given) {
			t.Fatalf("the runs of %d are %d to %d", given, lows, highs)
		}
		for id := range want {
			if !got[id] {
				t.Fatalf("the runs of %d are %d to %d, without %d", given, lows, highs, id)
			}
		}
	}
}

// The entries of a claim are read, and its rows ended, by spans of ids. Others' rows lie between its own, in
// every density.
func TestRowsBetweenThoseOfAClaimAreLeftAlone(t *testing.T) {
	t.Parallel()
	database := pgtest.NewDatabase(t, schema)
	store := openOn(t, database)
	random := rand.New(rand.NewPCG(7, 7))
	for _, gap := range []int{0, 1, 3, 4, 9, 300} {
		for i := range 40 {
			name := fmt.Sprintf("%d-%d", gap, i)
			enqueueNamed(t, store, "i", name, 1+random.IntN(3))
			enqueueNamed(t, store, "other", name, random.IntN(2*gap+1))
		}
	}
	conn := database.Connect(t)
	count := func(instance string) (pending, done int) {
		err := conn.QueryRow(t.Context(), `SELECT
			(SELECT count(*) FROM fencerow.ledger_pending WHERE instance_key = $1),
			(SELECT count(*) FROM fencerow.ledger_outcome WHERE instance_key = $1)`, instance).Scan(&pending, &done)
		if err != nil {
			t.Fatal(err)
		}
		return pending, done
	}
	all, _ := count("i")
	foreign, _ := count("other")
	seen := map[fencerow.CorrelationID]bool{}
	for len(seen) < all {
		c := claim(t, store, "i", 1+random.IntN(150))
		if len(c.Entries) == 0 {
			t.Fatalf("%d of %d entries were claimed", len(seen), all)
		}
		for i := range c.Entries {
			if e := &c.Entries[i]; e.Instance != "i" || seen[e.CorrelationID] {
				t.Fatalf("%s was claimed twice, or is another's", e.CorrelationID)
			}
			seen[c.Entries[i].CorrelationID] = true
		}
		random.Shuffle(len(c.Entries), func(i, j int) { c.Entries[i], c.Entries[j] = c.Entries[j], c.Entries[i] })
		part := *c
		for rest := c.Entries; len(rest) > 0; rest = rest[len(part.Entries):] {
			part.Entries = rest[:1+random.IntN(len(rest))]
			if n := applied(record(t, store, &part)); n != len(part.Entries) {
				t.Fatalf("%d of %d rows were recorded", n, len(part.Entries))
			}
		}
	}
	if pending, done := count("i"); pending != 0 || done != all {
		t.Errorf("%d rows are pending and %d finished, want 0 and %d", pending, done, all)
	}
	if pending, done := count("other"); pending != foreign || done != 0 {
		t.Errorf("of %d rows of another instance %d are pending and %d finished", foreign, pending, done)
	}
}
