package storetest

import (
	"slices"
	"time"

	"github.com/shopspring/decimal"

	"github.com/fourblocks2020/fencerow"
)

func sumCases() []testCase {
	return []testCase{
		{"MoneyIsPendingUntilItIsInTheLedger", moneyIsPending},
		{"SumsArePerCurrencyInOrder", sumsArePerCurrency},
		{"SumsAreExact", sumsAreExact},
		{"SumOfASlotIsOfThatSlot", sumOfASlot},
		{"RequeuedMoneyIsPendingAndNotBlocked", requeuedMoneyIsPending},
	}
}

// sameSums demands equal sums, amounts compared as numbers.
func (a *actor) sameSums(got, want []fencerow.CashDelta) {
	a.t.Helper()
	if !slices.EqualFunc(got, want, func(g, w fencerow.CashDelta) bool {
		return g.Currency == w.Currency && g.Pending.Equal(w.Pending) && g.PendingCount == w.PendingCount &&
			g.Blocked.Equal(w.Blocked) && g.BlockedCount == w.BlockedCount
	}) {
		a.t.Fatalf("sums %+v, want %+v", got, want)
	}
}

func (a *actor) sumsTo(slot fencerow.SlotID, want ...fencerow.CashDelta) {
	a.t.Helper()
	a.sameSums(a.sum(slot), want)
}

func moneyIsPending(s *scene) {
	s.sumsTo("")
	refs := s.put(money("a", "", "5", "EUR"))
	pending := fencerow.CashDelta{Currency: "EUR", Pending: decimal.New(5, 0), PendingCount: 1}
	s.sumsTo("", pending)
	// The money of a leased, a waiting and an expired row is not in the ledger either.
	c := s.claimAll(refs...)
	s.sumsTo("", pending)
	s.apply(c, retry(refs[0], time.Minute))
	s.sumsTo("", pending)
	s.one(refs[0])
	s.world.Advance(lease + tolerance)
	s.sumsTo("", pending)
	s.finish(refs[0], fencerow.OutcomeCompleted)
	s.sumsTo("")
	for _, kind := range blockedKinds() {
		s.finish(s.put(money(s.fresh(), "", "2", "EUR"))[0], kind)
	}
	s.sumsTo("", fencerow.CashDelta{Currency: "EUR", Blocked: decimal.New(6, 0), BlockedCount: 3})
}

func sumsArePerCurrency(s *scene) {
	s.put(money("a", "", "-5", "USD"), money("b", "s", "1.25", "EUR"), money("c", "", "0", "AAA"),
		money("d", "", "3", "USD"),
		plain("no-currency"), money("e", "", "7", "B1B"))
	s.sumsTo("",
		fencerow.CashDelta{Currency: "AAA", PendingCount: 1},
		fencerow.CashDelta{Currency: "B1B", Pending: decimal.New(7, 0), PendingCount: 1},
		fencerow.CashDelta{Currency: "EUR", Pending: decimal.New(125, -2), PendingCount: 1},
		fencerow.CashDelta{Currency: "USD", Pending: decimal.New(-2, 0), PendingCount: 2},
	)
}

func sumsAreExact(s *scene) {
	nines := "99999999999999999999.999999999999999999"
	s.put(money("a", "", nines, "EUR"), money("b", "", nines, "EUR"),
		money("c", "", "0.000000000000000001", "EUR"))
	for range 10 {
		s.put(money(s.fresh(), "", "0.1", "USD"))
	}
	s.sumsTo("",
		fencerow.CashDelta{
			Currency: "EUR", Pending: decimal.RequireFromString("199999999999999999999.999999999999999999"),
			PendingCount: 3,
		},
		fencerow.CashDelta{Currency: "USD", Pending: decimal.New(1, 0), PendingCount: 10},
	)
	for _, sum := range s.sum("") {
		if text := sum.Pending.String(); text != "1" && text != "199999999999999999999.999999999999999999" {
			s.Errorf("sum %s is not in canonical form", text)
		}
	}
}

func sumOfASlot(s *scene) {
	refs := s.put(money("a", "slot-1", "1", "EUR"), money("b", "slot-1", "2", "EUR"),
		money("c", "slot-2", "4", "EUR"),
		money("d", "", "8", "EUR"))
	s.finish(refs[1], fencerow.OutcomeDeadLettered)
	s.sumsTo("slot-1", fencerow.CashDelta{
		Currency: "EUR", Pending: decimal.New(1, 0), PendingCount: 1, Blocked: decimal.New(2, 0), BlockedCount: 1,
	})
	s.sumsTo("slot-2", fencerow.CashDelta{Currency: "EUR", Pending: decimal.New(4, 0), PendingCount: 1})
	s.sumsTo("slot-3")
	s.sumsTo("", fencerow.CashDelta{
		Currency: "EUR", Pending: decimal.New(13, 0), PendingCount: 3, Blocked: decimal.New(2, 0), BlockedCount: 1,
	})
}

func requeuedMoneyIsPending(s *scene) {
	r := s.put(money("a", "slot-1", "3", "EUR"))[0]
	s.finish(r, fencerow.OutcomeDeadLettered)
	s.sumsTo("", fencerow.CashDelta{Currency: "EUR", Blocked: decimal.New(3, 0), BlockedCount: 1})
	s.requeue(r, fencerow.StatusDeadLettered)
	s.sumsTo("", fencerow.CashDelta{Currency: "EUR", Pending: decimal.New(3, 0), PendingCount: 1})
	s.finish(r, fencerow.OutcomePermanentFailure)
	s.sumsTo("slot-1", fencerow.CashDelta{Currency: "EUR", Blocked: decimal.New(3, 0), BlockedCount: 1})
	s.requeue(r, fencerow.StatusPermanentFailure)
	s.finish(r, fencerow.OutcomeCompleted)
	s.sumsTo("")
	s.sumsTo("slot-1")
	counts := s.counts().ByStatus
	if counts[fencerow.StatusCompleted] != 1 || counts[fencerow.StatusDeadLettered] != 0 ||
		counts[fencerow.StatusPermanentFailure] != 0 {
		s.Errorf("counts %v, want one completed entry and nothing of its earlier lives", counts)
	}
}
