package writer

import (
	"context"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
)

// slowStore takes a second to record.
type slowStore struct{ fencerow.Claimer }

func (s slowStore) RecordOutcomes(ctx context.Context, p fencerow.RecordParams) ([]fencerow.Verdict, error) {
	<-time.After(time.Second)
	return s.Claimer.RecordOutcomes(ctx, p)
}

// What a crash sends again is what was sent and is not recorded: of slow deliveries never more than run at
// once.
func TestDeliveriesWaitForTheirRecord(t *testing.T) {
	started := func(takes time.Duration, want int) func(*testing.T) {
		return func(t *testing.T) {
			h := newHarness(t, nil)
			h.enqueue("e", 20)
			h.ledger.set(after(takes, delivered()))
			w, err := New(slowStore{h.store}, h.ledger, h.obs, testConfig())
			check(t, err)
			_, err = w.Poll(t.Context())
			check(t, err)
			pass(100 * time.Millisecond)
			equal(t, "deliveries started while the first group is being recorded", len(h.ledger.take()), want)
			check(t, w.Shutdown(t.Context()))
		}
	}
	bubble(t, "SlowOnesKeepTheirPlaces", started(slowDelivery, 4))
	bubble(t, "FastOnesDoNotWait", started(slowDelivery-time.Millisecond, 20))
}
