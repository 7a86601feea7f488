package fencerow

import (
	"regexp"
	"strings"
	"testing"

	"github.com/shopspring/decimal"
)

func TestEveryOutcomeHasAStatus(t *testing.T) {
	t.Parallel()
	statuses := make(map[Status]bool)
	for _, kind := range OutcomeKinds() {
		if !kind.Valid() || kind.Terminal() != (kind != OutcomeRetryableFailure) {
			t.Errorf("%s: valid %v, terminal %v", kind, kind.Valid(), kind.Terminal())
		}
		if kind.Success() != (kind.Status() == StatusCompleted) {
			t.Errorf("%s: success %v, but status %s", kind, kind.Success(), kind.Status())
		}
		if want := kind.Terminal() && !kind.Success(); kind.Status().Blocked() != want {
			t.Errorf("%s: blocked %v, want %v", kind, kind.Status().Blocked(), want)
		}
		statuses[kind.Status()] = true
	}
	for _, s := range Statuses() {
		if !statuses[s] {
			t.Errorf("no outcome leads to %s", s)
		}
		delete(statuses, s)
	}
	if len(statuses) != 0 {
		t.Errorf("statuses that are not listed: %v", statuses)
	}
	for _, kind := range []OutcomeKind{"", "COMPLETED", "completed ", "pending"} {
		if kind.Valid() || kind.Terminal() || kind.Success() || kind.Status() != "" {
			t.Errorf("%q counts as an outcome", kind)
		}
	}
}

func TestEveryReasonFitsTheDatabase(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)
	seen := make(map[ReasonCode]bool)
	for _, r := range ReasonCodes() {
		marked := r.AsUnverified()
		for _, code := range []ReasonCode{r, marked} {
			if !code.Valid() || !form.MatchString(string(code)) {
				t.Errorf("%q is not a reason", code)
			}
			if seen[code] {
				t.Errorf("%q is listed twice", code)
			}
			seen[code] = true
		}
		if marked.AsUnverified() != marked || !strings.HasSuffix(string(marked), Unverified) {
			t.Errorf("%q marked twice is %q", marked, marked.AsUnverified())
		}
	}
}

func TestClaimTokensAreRandomUUIDs(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := make(map[ClaimToken]bool)
	for range 1000 {
		token := NewClaimToken()
		if !form.MatchString(token.UUID()) || token.IsZero() || seen[token] {
			t.Fatalf("token %s", token.UUID())
		}
		seen[token] = true
	}
	if zero := (ClaimToken{}); !zero.IsZero() || zero.UUID() != "00000000-0000-0000-0000-000000000000" {
		t.Errorf("the zero token is %s", zero.UUID())
	}
}

func TestSnapshotMustBeOfTheEntrysSlotAndCurrency(t *testing.T) {
	t.Parallel()
	good := Snapshot{SlotID: "s", Currency: "EUR", CashBalance: decimal.New(-15, -1), Version: 0}
	for _, tc := range []struct {
		name   string
		entry  Entry
		change func(*Snapshot)
		want   bool
	}{
		{"its own", Entry{SlotID: "s", Currency: "EUR"}, func(*Snapshot) {}, true},
		{"entry without currency", Entry{SlotID: "s"}, func(*Snapshot) {}, true},
		{"entry without slot", Entry{Currency: "EUR"}, func(s *Snapshot) { s.SlotID = "" }, false},
		{"another slot", Entry{SlotID: "t", Currency: "EUR"}, func(*Snapshot) {}, false},
		{"another currency", Entry{SlotID: "s", Currency: "USD"}, func(*Snapshot) {}, false},
		{"no currency", Entry{SlotID: "s"}, func(s *Snapshot) { s.Currency = "" }, false},
		{"text for a currency", Entry{SlotID: "s"}, func(s *Snapshot) { s.Currency = "e u" }, false},
		{"below the first version", Entry{SlotID: "s"}, func(s *Snapshot) { s.Version = -1 }, false},
		{"nineteen places", Entry{SlotID: "s"}, func(s *Snapshot) { s.CashBalance = decimal.New(1, -19) }, false},
		{"thirty-nine digits", Entry{SlotID: "s"}, func(s *Snapshot) { s.CashBalance = decimal.New(1, 38) }, false},
		{"an enormous exponent", Entry{SlotID: "s"}, func(s *Snapshot) { s.CashBalance = decimal.New(1, 1<<31-1) },
			false},
	} {
		s := good
		tc.change(&s)
		if got := tc.entry.CheckSnapshot(&s); got != tc.want {
			t.Errorf("%s: accepted %v, want %v", tc.name, got, tc.want)
		}
	}
}
