package slots

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shopspring/decimal"
	"go.uber.org/goleak"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/memstore"
	"github.com/fourblocks2020/fencerow/internal/observe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	self = fencerow.InstanceKey("instance-a")
	// sentinel stands for everything that must never be shown.
	sentinel = "s3cr3t-sentinel"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stub is a store that does what the test says.
type stub struct {
	list    func(ctx context.Context) ([]fencerow.Slot, error)
	pending func() ([]fencerow.PendingEntry, error)
}

func (s stub) Slots(ctx context.Context, key fencerow.InstanceKey) ([]fencerow.Slot, error) {
	if key != self {
		return nil, errors.New("another instance was asked for")
	}
	return s.list(ctx)
}

func (s stub) ListPending(context.Context, fencerow.ListPendingParams) ([]fencerow.PendingEntry, error) {
	if s.pending == nil {
		return nil, nil
	}
	return s.pending()
}

func oneSlot(context.Context) ([]fencerow.Slot, error) {
	return []fencerow.Slot{{SlotID: "slot-1"}}, nil
}

const oneSlotText = `[{"slot_id":"slot-1","strategy":null,"currency":null,"cash_balance":null,` +
	`"ledger_version":null,"pending_cash_delta":[],"open_skips":0,"updated_at":null}]`

func answer(t *testing.T, b *Builder, spy bool, want fencerow.Code) string {
	t.Helper()
	line, refused := b.Answer(t.Context(), spy)
	if refused != want {
		t.Errorf("refused with %q, want %q", refused, want)
	}
	if strings.Count(string(line), "\n") != 1 || !strings.HasSuffix(string(line), "\n") {
		t.Errorf("%q is not one line", line)
	}
	return strings.TrimSuffix(string(line), "\n")
}

func TestCountersThatCannotBeReadDoNotHurtTheSlots(t *testing.T) {
	want := `{"instance_key":"instance-a","slots":` + oneSlotText + `,"worker":"worker-1",` +
		`"oldest_due_age_sec":0,"ledger_outbox_metrics":{"available":false,"scope":"process_lifetime",` +
		`"instance_key":"instance-a",` +
		`"reason":"ledger_outbox_metrics_unavailable"}}`
	for name, reader := range map[string]Reader{
		"Missing": nil,
		"Fails":   func() (observe.Metrics, error) { return observe.Metrics{}, errors.New(sentinel) },
		"Panics":  func() (observe.Metrics, error) { panic(sentinel) },
		"OfAnotherInstance": func() (observe.Metrics, error) {
			return observe.MetricsUnavailable("instance-b"), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := answer(t, NewBuilder(stub{list: oneSlot}, self, "worker-1", reader), true, ""); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestWithoutSpyNeitherCountersNorLagAreThere(t *testing.T) {
	b := NewBuilder(stub{list: oneSlot}, self, "worker-1", func() (observe.Metrics, error) {
		t.Error("the counters were read")
		return observe.Metrics{}, nil
	})
	want := `{"instance_key":"instance-a","slots":` + oneSlotText + `}`
	if got := answer(t, b, false, ""); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestEachAnswerHasAFreshSnapshot(t *testing.T) {
	observer, err := observe.New(slog.NewTextHandler(io.Discard, nil), self, observe.Alerting{})
	check(t, err)
	b := NewBuilder(stub{list: oneSlot}, self, "worker-1", CountersOf(observer))
	for n := range 3 {
		observer.EmptyPoll()
		var doc Document
		check(t, json.Unmarshal([]byte(answer(t, b, true, "")), &doc))
		if !doc.Metrics.Available || doc.Metrics.Claims.EmptyPolls != int64(n+1) {
			t.Errorf("after %d polls: %+v", n+1, doc.Metrics)
		}
	}
}

func TestAStoreThatFailsIsARefusalWithItsCode(t *testing.T) {
	for _, tt := range []struct {
		name string
		list func(context.Context) ([]fencerow.Slot, error)
		want fencerow.Code
	}{
		{"Code", func(context.Context) ([]fencerow.Slot, error) {
			return nil, fencerow.NewError("list slots", fencerow.ErrStoreUnavailable, errors.New(sentinel))
		}, fencerow.ErrStoreUnavailable},
		{"RawError", func(context.Context) ([]fencerow.Slot, error) { return nil, errors.New(sentinel) },
			fencerow.ErrStoreFailed},
		{"Panic", func(context.Context) ([]fencerow.Slot, error) { panic(sentinel) }, ErrInternal},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := `{"error":"` + string(tt.want) + `"}`
			if got := answer(t, NewBuilder(stub{list: tt.list}, self, "worker-1", nil), true, tt.want); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

func TestLagThatIsNotKnownIsNull(t *testing.T) {
	b := NewBuilder(stub{list: oneSlot, pending: func() ([]fencerow.PendingEntry, error) {
		return nil, fencerow.ErrStoreBusy
	}}, self, "worker-1", nil)
	if got := answer(t, b, true, ""); !strings.Contains(got, `"oldest_due_age_sec":null`) {
		t.Errorf("got %s", got)
	}
}

// A row may be due since the beginning of time; its age must not come out as one that readers refuse.
func TestALagWithoutEndIsAHundredYears(t *testing.T) {
	now := time.Time{}
	store := memstore.New(memstore.Options{Now: func() time.Time { return now }})
	_, err := store.EnqueueMany(t.Context(), fencerow.EnqueueParams{Instance: self,
		Entries: []fencerow.NewEntry{{CorrelationID: "a", EntryKind: "fill", Payload: []byte(`{}`)}}})
	check(t, err)
	now = time.Now()
	if got := OldestDueAge(t.Context(), store, self); got == nil || *got != fencerow.MaxDueFor.Seconds() {
		t.Errorf("got %v", got)
	}
}

func TestLagIsTheAgeOfTheOldestDueRowThatNobodyHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.Options{})
		lag := func(want float64) {
			t.Helper()
			if got := OldestDueAge(t.Context(), store, self); got == nil || *got != want {
				t.Errorf("lag %v, want %v", got, want)
			}
		}
		lag(0)
		for _, id := range []fencerow.CorrelationID{"first", "second"} {
			_, err := store.EnqueueMany(t.Context(), fencerow.EnqueueParams{Instance: self,
				Entries: []fencerow.NewEntry{{CorrelationID: id, EntryKind: "fill", Payload: []byte(`{}`)}}})
			check(t, err)
			<-time.After(time.Minute)
		}
		lag(120)
		_, err := store.ClaimOne(t.Context(), fencerow.ClaimOneParams{
			Instance: self, Worker: "w", Token: fencerow.NewClaimToken(), CorrelationID: "first", Lease: time.Hour,
		})
		check(t, err)
		lag(60)
	})
}

func TestLagIsByTheClockOfTheStore(t *testing.T) {
	for _, ahead := range []time.Duration{-time.Hour, time.Hour} { // of this machine's clock
		now := time.Now().Add(ahead)
		store := memstore.New(memstore.Options{Now: func() time.Time { return now }})
		_, err := store.EnqueueMany(t.Context(), fencerow.EnqueueParams{Instance: self,
			Entries: []fencerow.NewEntry{{CorrelationID: "a", EntryKind: "fill", Payload: []byte(`{}`)}}})
		check(t, err)
		now = now.Add(1500 * time.Millisecond)
		if got := OldestDueAge(t.Context(), store, self); got == nil || *got != 1.5 {
			t.Errorf("by a clock %v ahead: lag %v, want 1.5", ahead, *got)
		}
	}
}

func TestAStoreThatHangsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBuilder(stub{list: func(ctx context.Context) ([]fencerow.Slot, error) {
			<-ctx.Done()
			return nil, fencerow.NewError("list slots", fencerow.ErrStoreTimeout, ctx.Err())
		}}, self, "worker-1", nil)
		began := time.Now()
		answer(t, b, false, fencerow.ErrStoreTimeout)
		if took := time.Since(began); took != Within {
			t.Errorf("it took %s", took)
		}
	})
}

func TestFewQuestionsHaveTheStoreAtOnceOthersWaitAndTooManyAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leave := make(chan struct{})
		var inside, most atomic.Int64
		b := NewBuilder(stub{list: func(ctx context.Context) ([]fencerow.Slot, error) {
			most.Store(max(most.Load(), inside.Add(1)))
			defer inside.Add(-1)
			<-leave
			return oneSlot(ctx)
		}}, self, "worker-1", nil)
		var asking sync.WaitGroup
		for range maxAtOnce {
			asking.Go(func() { answer(t, b, false, "") })
		}
		synctest.Wait()
		if n := inside.Load(); n != maxLooks {
			t.Errorf("%d questions have the store", n)
		}
		answer(t, b, false, ErrTooMany)
		close(leave)
		asking.Wait()
		if n := most.Load(); n != maxLooks {
			t.Errorf("%d questions had the store at once", n)
		}
	})
}

func TestAQuestionThatWaitsInVainIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBuilder(stub{list: func(ctx context.Context) ([]fencerow.Slot, error) {
			<-ctx.Done()
			return nil, fencerow.NewError("list slots", fencerow.ErrStoreTimeout, ctx.Err())
		}}, self, "worker-1", nil)
		var asking sync.WaitGroup
		for range maxLooks {
			asking.Go(func() { answer(t, b, false, fencerow.ErrStoreTimeout) })
		}
		synctest.Wait()
		<-time.After(time.Second)
		hasty, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if line, refused := b.Answer(hasty, false); refused != ErrTooMany {
			t.Errorf("got %s", line)
		}
		asking.Wait()
	})
}

func TestAnAnswerThatIsTooLargeIsRefused(t *testing.T) {
	list := make([]fencerow.Slot, MaxAnswer/len(oneSlotText)+1)
	for i := range list {
		list[i].SlotID = fencerow.SlotID("slot-" + strconv.Itoa(i))
	}
	stored := stub{list: func(context.Context) ([]fencerow.Slot, error) { return list, nil }}
	b := NewBuilder(stored, self, "worker-1", nil)
	answer(t, b, false, ErrAnswerTooLarge)
	list = list[:len(list)/2]
	answer(t, b, false, "")
}

func TestADocumentSurvivesItsReader(t *testing.T) {
	balance, version, at := decimal.RequireFromString("-1250.40"), int64(17), time.Unix(1, 123456000).In(
		time.FixedZone("Asia/Kathmandu", 5*3600+45*60))
	full := fencerow.Slot{
		SlotID: `a"<&>\`, Strategy: "mean reversion", Currency: "EUR", CashBalance: &balance,
		LedgerVersion: &version, UpdatedAt: &at, OpenSkips: 2, PendingCash: []fencerow.CashDelta{
			{Currency: "EUR", Pending: decimal.New(5, -1), PendingCount: 1},
		},
	}
	b := NewBuilder(stub{list: func(context.Context) ([]fencerow.Slot, error) {
		return []fencerow.Slot{full, {SlotID: "b"}}, nil
	}}, self, "worker-1", nil)
	for _, spy := range []bool{true, false} {
		line := answer(t, b, spy, "")
		doc, err := ReadAnswer("ask", Request{self, spy}, []byte(line))
		check(t, err)
		if got := string(render(doc)); got != line+"\n" {
			t.Errorf("got  %swant %s", got, line)
		}
	}
}

func TestARowThatCameInPastTheChecksHidesNoOther(t *testing.T) {
	const hostile = "a\x1b[31m\u009b\n\"é"
	b := NewBuilder(stub{list: func(context.Context) ([]fencerow.Slot, error) {
		return []fencerow.Slot{{
			SlotID: hostile, Strategy: hostile, Currency: hostile,
			PendingCash: []fencerow.CashDelta{{Currency: hostile}},
		}, {SlotID: "b"}}, nil
	}}, self, "worker-1", nil)
	doc, err := ReadAnswer("ask", Request{Instance: self}, []byte(answer(t, b, false, "")))
	check(t, err)
	const want = `a\x1b[31m\u009b\n\"\u00e9`
	s := doc.Slots[0]
	for _, got := range []string{string(s.SlotID), *s.Strategy, *s.Currency, s.PendingCash[0].Currency} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if len(doc.Slots) != 2 || doc.Slots[1].SlotID != "b" {
		t.Errorf("got %+v", doc.Slots)
	}
}

func TestAnswersAreMistrusted(t *testing.T) {
	const slot = `{"slot_id":"a","strategy":null,"currency":null,"cash_balance":null,"ledger_version":null,` +
		`"pending_cash_delta":[],"open_skips":0,"updated_at":null}`
	good := `{"instance_key":"instance-a","slots":[` + slot + `]}`
	for _, tt := range []struct {
		name, text string
		spy        bool
		want       error
	}{
		{"Good", good, false, nil},
		{"Refusal", `{"error":"store_busy"}`, false, fencerow.ErrStoreBusy},
		{"RefusalThatIsNoCode", `{"error":"` + sentinel + ` x"}`, false, ErrAnswerUnreadable},
		{"NoJSON", sentinel, false, ErrAnswerUnreadable},
		{"OtherDocument", `{"ready":true}`, false, ErrAnswerUnreadable},
		{"OtherInstance", strings.Replace(good, "instance-a", "instance-b", 1), false, ErrAnswerUnreadable},
		{"SpyThatIsMissing", good, true, ErrAnswerUnreadable},
		{"SpyThatWasNotAskedFor", strings.Replace(good, `}]}`, `}],"oldest_due_age_sec":0}`, 1), false,
			ErrAnswerUnreadable},
		{"NoSlots", `{"instance_key":"instance-a","slots":null}`, false, ErrAnswerUnreadable},
		{"NullSlots", `{"instance_key":"instance-a","slots":[null,null]}`, false, ErrAnswerUnreadable},
		{"SlotWithoutID", strings.Replace(good, `"slot_id":"a",`, ``, 1), false, ErrAnswerUnreadable},
		{"SlotWithoutSums", strings.Replace(good, `"pending_cash_delta":[],`, ``, 1), false, ErrAnswerUnreadable},
		{"NullSum", strings.Replace(good, `_delta":[]`, `_delta":[null]`, 1), false, ErrAnswerUnreadable},
		{"FewerThanNoSkips", strings.Replace(good, `skips":0`, `skips":-1`, 1), false, ErrAnswerUnreadable},
		{"VersionBelowZero", strings.Replace(good, `version":null`, `version":-1`, 1), false, ErrAnswerUnreadable},
		{"Age", strings.Replace(good, `}]}`, `}],"oldest_due_age_sec":1e9}`, 1), true, nil},
		{"AgeOfLongerThanEver", strings.Replace(good, `}]}`, `}],"oldest_due_age_sec":1e300}`, 1), true,
			ErrAnswerUnreadable},
		{"AgeBelowZero", strings.Replace(good, `}]}`, `}],"oldest_due_age_sec":-1}`, 1), true,
			ErrAnswerUnreadable},
		{"TerminalSequenceInTheWorker", strings.Replace(good, `}]}`, `}],"worker":"\u001b[31m"}`, 1), true,
			ErrAnswerUnreadable},
		{"TerminalSequence", strings.Replace(good, `"slot_id":"a"`, `"slot_id":"\u001b[31m"`, 1), false,
			ErrAnswerUnreadable},
		{"TerminalSequenceInAStrategy", strings.Replace(good, `"strategy":null`, `"strategy":"\u009b1m"`, 1), false,
			ErrAnswerUnreadable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ReadAnswer("ask", Request{self, tt.spy}, []byte(tt.text))
			if !errors.Is(err, tt.want) || err != nil && strings.Contains(err.Error(), sentinel) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}
