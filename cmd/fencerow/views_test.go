package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
)

func TestViewsShowTheInstancesOwnOnly(t *testing.T) {
	t.Parallel()
	db := withLegacy(t, insertLegacy+`('unowned', 'fill', 'slot-1', 100, 'EUR', '{}')`)
	own, other := at(db.DSN(), desk), at(db.DSN(), "desk-2")
	enqueue(t, own, "a", "b")
	enqueue(t, other, "a", "c", "d")

	listed := document[pendingDoc](t, own, 0, "pending")
	if len(listed.Entries) != 2 || listed.Entries[0].CorrelationID != "a" || listed.Next != nil {
		t.Errorf("pending: %+v", listed)
	}
	sums := document[cashDeltaDoc](t, own, 0, "cash-delta")
	want := currencySumsDoc{Currency: "EUR", Pending: "-25", PendingCount: 2, Blocked: "0"}
	if len(sums.Currencies) != 1 || sums.Currencies[0] != want || sums.SlotID != nil {
		t.Errorf("cash-delta: %+v", sums)
	}
	if sums := document[cashDeltaDoc](t, own, 0, "cash-delta", "--slot", "slot-2"); len(sums.Currencies) != 0 {
		t.Errorf("cash-delta of a slot without entries: %+v", sums)
	}
	counts := document[countsDoc](t, other, 0, "counts")
	if counts.Statuses[fencerow.StatusPending] != 3 || counts.Due != 3 || len(counts.Statuses) != 5 {
		t.Errorf("counts: %+v", counts)
	}
	if n := document[legacyDoc](t, own, 0, "legacy").LegacyCount; n != 1 {
		t.Errorf("legacy: %d", n)
	}
	if claims := document[claimsDoc](t, own, 0, "claims"); claims.Claims == nil || len(claims.Claims) != 0 {
		t.Errorf("claims: %+v", claims)
	}
	mustContain(t, own.want(t, exitRefused, "show", "c").stderr, "foreign_instance")
	mustContain(t, own.want(t, exitRefused, "show", "unowned").stderr, "foreign_instance")
	mustContain(t, own.want(t, exitNothingDone, "show", "nobody").stderr, "not_found")
}

func TestPendingGoesOnWhereAPageEnded(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	c := at(db.DSN(), desk)
	var ids []string
	for i := range 7 {
		ids = append(ids, fmt.Sprintf("id-%d", i))
	}
	enqueue(t, c, ids...)
	var seen []string
	args := []string{"pending", "--limit", "3"}
	for pages := 0; ; pages++ {
		page := document[pendingDoc](t, c, 0, args...)
		for i := range page.Entries {
			seen = append(seen, string(page.Entries[i].CorrelationID))
		}
		if page.Next == nil {
			break
		}
		args = []string{"pending", "--limit", "3", "--after", *page.Next}
	}
	if strings.Join(seen, " ") != strings.Join(ids, " ") {
		t.Errorf("%v", seen)
	}
	mustContain(t, c.want(t, 0, "pending", "--limit", "3").stderr, "--after 20")
}

func TestPayloadIsShownOnlyWhenAskedFor(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	c := at(db.DSN(), desk)
	payload := `{"s3cret":  "` + "\u009b31m\x7f" + `","s3cret":1}`
	c.reading(`{"correlation_id":"a","entry_kind":"fill","payload":`+payload+"}\n").want(t, 0, "enqueue", "-")
	shown := `{"s3cret":"\u009b31m\u007f","s3cret":1}`
	for _, args := range [][]string{{"show", "a"}, {"pending"}, {"--json", "show", "a"}, {"--json", "pending"}} {
		r := c.want(t, 0, args...)
		if strings.Contains(r.stdout+r.stderr, "s3cret") {
			t.Errorf("%v shows the payload", args)
		}
		mustContain(t, c.want(t, 0, append(args, "--with-payload")...).stdout, shown)
	}
}

func TestShowTellsTheWholeStory(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	stub, url := startStub(t)
	c := at(db.DSN(), desk).with("FENCEROW_LEDGER_URL=" + url)
	enqueue(t, c, "a")
	addRule(t, stub, ledgerstub.Rule{Count: 1, Fault: status(422)})
	c.want(t, exitNotCompleted, "process", "a")
	if doc := document[cashDeltaDoc](t, c, 0, "cash-delta"); doc.Currencies[0].Blocked != "-12.5" {
		t.Errorf("%+v", doc)
	}
	c.want(t, 0, "requeue", "a", "--from", "permanent_failure")
	claimAll(t, db)
	held := document[showDoc](t, c, 0, "show", "a")
	if held.Lease == nil || held.Lease.Rows != 1 || held.Pending == nil || held.Pending.Life != 2 ||
		!held.Pending.Uncertain || len(held.Outcomes) != 1 {
		t.Errorf("%+v", held)
	}
	claims := document[claimsDoc](t, c, 0, "claims")
	if len(claims.Claims) != 1 || claims.Claims[0].Worker != "other" || claims.Claims[0].Remaining < 3000 {
		t.Errorf("%+v", claims)
	}
	mustContain(t, c.want(t, 0, "claims").stdout, "WORKER", "other", "left")
	mustContain(t, c.want(t, 0, "show", "a").stdout, "held by", "permanent_failure", "content_refused",
		"bytes may have reached the ledger")
	mustContain(t, c.want(t, 0, "counts").stdout, "1 of the pending ones are held by a worker")
}

// claimAll has another worker claim what is due, for an hour.
func claimAll(t *testing.T, db *pgtest.Database) {
	t.Helper()
	_, err := openTestStore(t, db.DSN()).ClaimBatch(t.Context(), fencerow.ClaimBatchParams{
		Instance: desk, Worker: "other", Token: fencerow.NewClaimToken(), Limit: 10, Lease: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
}
