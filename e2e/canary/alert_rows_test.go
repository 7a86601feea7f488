package canary

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/observe"
)

// spy keeps the alerts.
type spy struct {
	mu     sync.Mutex
	alerts []observe.Alert
}

func (s *spy) Alert(a observe.Alert) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alerts = append(s.alerts, a)
}

func (s *spy) has(event observe.AlertEvent) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.alerts {
		if a.Event == event {
			return true
		}
	}
	return false
}

// alertRow has an observer told of everything that raises an alert in words that are secrets, and looks at
// the log and at what the sink is given.
func alertRow() row {
	events := []string{"entry_blocked", "target_held", "target_resumed", "lease_lost", "stale_fencing_token",
		"store_failing", "store_restored"}
	return row{name: "alerts", codes: events, drive: func(t testing.TB) *world {
		w := bareWorld(t)
		for _, format := range []observe.Format{observe.FormatText, observe.FormatJSON} {
			var log buffer
			handler, err := observe.NewHandler(&log, format, slog.LevelDebug)
			check(t, err)
			sink := &spy{}
			o, err := observe.New(handler, desk, observe.Alerting{
				Sink: sink, Worker: "canary", HeldAfter: observe.MinAlertTime, Window: observe.MinAlertTime,
			})
			check(t, err)
			text := fencerow.ReasonCode(hostile(providerText))
			for _, reason := range []fencerow.ReasonCode{text, fencerow.ReasonBadRequest} {
				f := observe.Failure{Kind: fencerow.OutcomeConflictBlocked, Reason: reason, CorrelationID: "a"}
				o.OutcomeFailed(f)
				f.Kind = fencerow.OutcomeRetryableFailure
				o.OutcomeFailed(f)
				f.Reason = fencerow.ReasonStaleFencingToken
				o.OutcomeFailed(f)
				o.TargetFailed(0)
				o.TargetHeld(reason)
				until(t, "the alert of the hold", func() bool {
					o.TargetFailed(0)
					return sink.has(observe.AlertTargetHeld)
				})
				o.TargetResumed()
				o.StoreFailing(fencerow.Code(reason))
				o.StoreRestored()
			}
			for epoch := range fencerow.ClaimEpoch(4) {
				o.ClaimLost(epoch, fencerow.LostReclaimed, "a", fencerow.OutcomeCompleted)
			}
			for _, event := range events {
				until(t, event, func() bool { return sink.has(observe.AlertEvent(event)) })
			}
			o.CloseAlerts()
			w.see("the log", log.String())
			sink.mu.Lock()
			document, err := json.Marshal(sink.alerts)
			check(t, err)
			w.see("the alerts", string(document))
			w.see("the alerts", strings.Join(strings.Fields(fmt.Sprintf("%+v", sink.alerts)), " "))
			sink.mu.Unlock()
		}
		return w
	}}
}
