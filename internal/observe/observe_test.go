package observe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/fourblocks2020/fencerow"
)

const self fencerow.InstanceKey = "instance-a"

func newObserver(t *testing.T, format Format, alerting Alerting) (*Observer, *bytes.Buffer) {
	t.Helper()
	var buf bytes.Buffer
	handler, err := NewHandler(&buf, format, slog.LevelDebug)
	if err != nil {
		t.Fatal(err)
	}
	o, err := New(handler, self, alerting)
	if err != nil {
		t.Fatal(err)
	}
	return o, &buf
}

func claimOf(ids ...fencerow.CorrelationID) *fencerow.Claim {
	c := &fencerow.Claim{}
	for i, id := range ids {
		c.Entries = append(c.Entries, fencerow.ClaimedEntry{
			Entry: fencerow.Entry{CorrelationID: id, Payload: []byte(`{"secret":1}`)}, Reclaimed: i == 1,
		})
	}
	return c
}

// Each event, and the record it writes, whole but for its time.
func TestEveryEventIsOneRecordWithItsAttributes(t *testing.T) {
	for _, c := range []struct {
		event string
		do    func(o *Observer)
		want  string
	}{
		{"RecordsDropped", func(o *Observer) { o.RecordsDropped(3) },
			`{"level":"WARN","msg":"records dropped","instance_key":"instance-a","count":3}`},
		{"EmptyPoll", func(o *Observer) { o.EmptyPoll() }, ``},
		{"BatchClaimed", func(o *Observer) { o.BatchClaimed(claimOf("a"), 100) },
			`{"level":"INFO","msg":"batch claimed","instance_key":"instance-a","claim_result":"claimed","count":1,` +
				`"limit":100,"correlation_ids":["a"]}`},
		{"BatchReclaimed", func(o *Observer) { o.BatchClaimed(claimOf("a", "b"), 2) },
			`{"level":"INFO","msg":"batch claimed","instance_key":"instance-a","claim_result":"claimed","count":2,` +
				`"limit":2,"correlation_ids":["a","b"],"reclaimed_count":1}`},
		{"TargetedClaimed", func(o *Observer) { o.TargetedClaim(ResultClaimed, "a") },
			`{"level":"INFO","msg":"targeted claim","instance_key":"instance-a","claim_result":"claimed",` +
				`"correlation_id":"a"}`},
		{"TargetedUnavailable", func(o *Observer) { o.TargetedClaim(ResultUnavailable, "a") },
			`{"level":"INFO","msg":"targeted claim","instance_key":"instance-a","claim_result":"unavailable",` +
				`"correlation_id":"a"}`},
		{"TargetedForeign", func(o *Observer) { o.TargetedClaim(ResultForeign, "a") },
			`{"level":"WARN","msg":"targeted claim","instance_key":"instance-a",` +
				`"claim_result":"foreign_instance","correlation_id":"a"}`},
		{"ClaimLost", func(o *Observer) {
			o.ClaimLost(1, fencerow.LostFinished, "a", fencerow.OutcomeCompleted)
		}, `{"level":"WARN","msg":"claim lost","instance_key":"instance-a","claim_result":"lost",` +
			`"reason":"finished","correlation_id":"a","dropped_outcome":"completed"}`},
		{"Success", func(o *Observer) {
			o.RecordedSuccess(fencerow.OutcomeDuplicateCompleted, []fencerow.CorrelationID{"a", "b"})
		}, `{"level":"INFO","msg":"outcome recorded","instance_key":"instance-a",` +
			`"outcome":"duplicate_completed","count":2,"correlation_ids":["a","b"]}`},
		{"NoSuccess", func(o *Observer) { o.RecordedSuccess(fencerow.OutcomeCompleted, nil) }, ``},
		{"Retry", func(o *Observer) {
			o.OutcomeFailed(Failure{Kind: "retryable_failure", Reason: "throttled", Attempt: 3, CorrelationID: "a"})
		}, `{"level":"WARN","msg":"outcome recorded","instance_key":"instance-a",` +
			`"outcome":"retryable_failure","reason":"throttled","correlation_id":"a","attempt":3}`},
		{"Conflict", func(o *Observer) {
			o.OutcomeFailed(Failure{Kind: "conflict_blocked", Reason: "conflict", Attempt: 3, CorrelationID: "a"})
		}, `{"level":"ERROR","msg":"outcome recorded","instance_key":"instance-a",` +
			`"outcome":"conflict_blocked","reason":"conflict","correlation_id":"a"}` + "\n" +
			`{"level":"ERROR","msg":"alert","instance_key":"instance-a","alert":"entry_blocked",` +
			`"outcome":"conflict_blocked","reason":"conflict","count":1}`},
		{"StaleFencingToken", func(o *Observer) {
			o.OutcomeFailed(Failure{Kind: "retryable_failure", Reason: "stale_fencing_token", Attempt: 3,
				CorrelationID: "a"})
		}, `{"level":"WARN","msg":"outcome recorded","instance_key":"instance-a",` +
			`"outcome":"retryable_failure","reason":"stale_fencing_token","correlation_id":"a","attempt":3}` + "\n" +
			`{"level":"ERROR","msg":"alert","instance_key":"instance-a","alert":"stale_fencing_token",` +
			`"outcome":"retryable_failure","reason":"stale_fencing_token","count":1}`},
		{"TargetHeld", func(o *Observer) { o.TargetHeld("throttled") },
			`{"level":"WARN","msg":"target held","instance_key":"instance-a","reason":"throttled"}`},
		{"TargetHeldAndResumedByTwoWriters", func(o *Observer) {
			o.TargetHeld("throttled")
			o.TargetHeld("dns_failed")
			o.TargetResumed()
			o.TargetResumed()
		}, `{"level":"WARN","msg":"target held","instance_key":"instance-a","reason":"throttled"}` + "\n" +
			`{"level":"INFO","msg":"target resumed","instance_key":"instance-a","reason":"throttled"}`},
		{"StoreBusy", func(o *Observer) { o.StoreBusy() },
			`{"level":"WARN","msg":"store busy","instance_key":"instance-a","reason":"store_busy"}`},
		{"StoreFree", func(o *Observer) { o.StoreFree() },
			`{"level":"INFO","msg":"store free","instance_key":"instance-a","reason":"store_busy"}`},
		{"SnapshotRejected", func(o *Observer) { o.SnapshotRejected("a") },
			`{"level":"WARN","msg":"snapshot rejected","instance_key":"instance-a",` +
				`"reason":"snapshot_rejected","correlation_id":"a"}`},
		{"RecordAbandoned", func(o *Observer) {
			o.RecordAbandoned(fencerow.ErrStoreTimeout, []fencerow.CorrelationID{"a"})
		}, `{"level":"ERROR","msg":"record abandoned","instance_key":"instance-a","reason":"store_timeout",` +
			`"count":1,"correlation_ids":["a"]}`},
		{"PollFailed", func(o *Observer) {
			inner := fencerow.NewError("x", fencerow.ErrStoreBusy, errors.New("secret"))
			o.PollFailed(fmt.Errorf("secret: %w", inner))
		}, `{"level":"ERROR","msg":"poll failed","instance_key":"instance-a",` +
			`"reason":"ledger_writer_run_once_failed","exc_type":"*errors.errorString"}`},
		{"PollFailedByAPanicWithText", func(o *Observer) { o.PollFailed("secret") },
			`{"level":"ERROR","msg":"poll failed","instance_key":"instance-a",` +
				`"reason":"ledger_writer_run_once_failed","exc_type":"string"}`},
		{"PollFailedByAPanicWithAnError", func(o *Observer) { o.PollFailed(&fencerow.InputError{Field: "secret"}) },
			`{"level":"ERROR","msg":"poll failed","instance_key":"instance-a",` +
				`"reason":"ledger_writer_run_once_failed","exc_type":"*fencerow.InputError"}`},
		{"StartFailed", func(o *Observer) { o.StartFailed("*pgconn.ConnectError") },
			`{"level":"ERROR","msg":"start failed","instance_key":"instance-a",` +
				`"reason":"ledger_writer_start_failed","exc_type":"*pgconn.ConnectError"}`},
		{"RequestPanicked", func(o *Observer) { o.RequestPanicked("secret") },
			`{"level":"ERROR","msg":"request failed","instance_key":"instance-a",` +
				`"reason":"ops_request_panicked","exc_type":"string"}`},
		{"WebhookFailed", func(o *Observer) { o.WebhookFailed(WebhookTimeout) },
			`{"level":"WARN","msg":"webhook failed","instance_key":"instance-a","reason":"webhook_timeout"}`},
		{"WebhookRestored", func(o *Observer) { o.WebhookRestored() },
			`{"level":"INFO","msg":"webhook restored","instance_key":"instance-a"}`},
		{"AlertsDropped", func(o *Observer) { o.AlertsDropped(7) },
			`{"level":"WARN","msg":"alerts dropped","instance_key":"instance-a","count":7}`},
		{"Started", func(o *Observer) { o.Started("w", "v1", "") },
			`{"level":"INFO","msg":"started","instance_key":"instance-a","worker":"w","version":"v1"}`},
		{"StartedWithAnOpsListener", func(o *Observer) { o.Started("w", "v1", "127.0.0.1:80") },
			`{"level":"INFO","msg":"started","instance_key":"instance-a","worker":"w","version":"v1",` +
				`"ops_listen":"127.0.0.1:80"}`},
		{"Stopping", func(o *Observer) { o.Stopping("w") },
			`{"level":"INFO","msg":"stopping","instance_key":"instance-a","worker":"w"}`},
		{"Stopped", func(o *Observer) { o.Stopped("w") },
			`{"level":"INFO","msg":"stopped","instance_key":"instance-a","worker":"w"}`},
		{"Notice", func(o *Observer) { o.Notify(NoticeOpsFailed) },
			`{"level":"WARN","msg":"notice","instance_key":"instance-a","reason":"ops_listener_failed"}`},
		{"NoticeAboutAFile", func(o *Observer) { o.FileNotice(NoticeTokenFileReadable, "ops_token_file") },
			`{"level":"WARN","msg":"notice","instance_key":"instance-a",` +
				`"reason":"token_file_readable_by_others","setting":"ops_token_file"}`},
		{"NotReady", func(o *Observer) { o.NotReady(fencerow.ErrStoreCredentials) },
			`{"level":"WARN","msg":"notice","instance_key":"instance-a","reason":"store_not_ready",` +
				`"code":"store_credentials_refused"}`},
		{"NotReadyForAnotherReason", func(o *Observer) { o.NotReady("") },
			`{"level":"WARN","msg":"notice","instance_key":"instance-a","reason":"store_not_ready",` +
				`"code":"ledger_writer_start_failed"}`},
		{"StoreFailingAndRestored", func(o *Observer) {
			o.StoreFailing(fencerow.ErrStoreUnavailable)
			o.StoreRestored()
		}, `{"level":"WARN","msg":"store failing","instance_key":"instance-a",` +
			`"reason":"store_unavailable"}` + "\n" +
			`{"level":"WARN","msg":"alert","instance_key":"instance-a","alert":"store_failing",` +
			`"reason":"store_unavailable","count":1}` + "\n" +
			`{"level":"INFO","msg":"store restored","instance_key":"instance-a","reason":"store_unavailable"}` + "\n" +
			`{"level":"INFO","msg":"alert","instance_key":"instance-a","alert":"store_restored",` +
			`"reason":"store_unavailable","count":1}`},
		{"InstanceHeld", func(o *Observer) { o.InstanceHeld() },
			`{"level":"INFO","msg":"instance held","instance_key":"instance-a"}`},
		{"InstanceResumed", func(o *Observer) { o.InstanceResumed() },
			`{"level":"INFO","msg":"instance resumed","instance_key":"instance-a"}`},
	} {
		t.Run(c.event, func(t *testing.T) {
			o, buf := newObserver(t, FormatJSON, Alerting{})
			c.do(o)
			var records []string
			for record := range strings.Lines(buf.String()) {
				_, rest, _ := strings.Cut(strings.TrimSuffix(record, "\n"), `"level"`)
				records = append(records, `{"level"`+rest)
			}
			if got := strings.Join(records, "\n"); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// Values that came past their validation, as a defect elsewhere could bring them.
func TestNoValueBreaksALineOrColoursATerminal(t *testing.T) {
	nasty := []string{
		"a\nlevel=ERROR msg=forged", "a\r\n", "\x1b[31mred", "\x9b31m", "a\x00b", "\xff\xfe", "a b", "\u2028",
		"\u202e", strings.Repeat("x", 1<<20), "",
	}
	for _, format := range []Format{FormatText, FormatJSON} {
		for _, s := range nasty {
			o, buf := newObserver(t, format, Alerting{})
			id, extra := fencerow.CorrelationID(s), 3 // alerts: of the dead letter, and of the store
			events := []func(){
				func() { o.BatchClaimed(claimOf(id), 1) },
				func() { o.TargetedClaim(ResultClaimed, id) },
				func() { o.ClaimLost(1, fencerow.LostReason(s), id, fencerow.OutcomeKind(s)) },
				func() { o.RecordedSuccess(fencerow.OutcomeCompleted, []fencerow.CorrelationID{id}) },
				func() {
					o.OutcomeFailed(Failure{
						Kind: fencerow.OutcomeDeadLettered, Reason: fencerow.ReasonCode(s), CorrelationID: id,
					})
				},
				func() { o.TargetHeld(fencerow.ReasonCode(s)) },
				func() { o.RecordAbandoned(fencerow.Code(s), []fencerow.CorrelationID{id}) },
				func() { o.Started(fencerow.WorkerID(s), s, s) },
				func() { o.FileNotice(Notice(s), s) },
				func() { o.NotReady(fencerow.Code(s)) },
				func() { o.StoreFailing(fencerow.Code(s)) },
				func() { o.StoreRestored() },
				func() { o.Notify(Notice(s)) },
				func() { o.Stopping(fencerow.WorkerID(s)) },
				func() { o.SnapshotRejected(id) },
				func() { o.WebhookFailed(WebhookFailure(s)) },
				func() { o.PollFailed(s) },
				func() { o.StartFailed(s) },
				func() { o.RequestPanicked(s) },
				func() { o.tell(cause{AlertEvent("x" + s), fencerow.OutcomeKind(s), fencerow.ReasonCode(s)}, 1) },
			}
			for _, event := range events {
				event()
			}
			if n := strings.Count(buf.String(), "\n"); n != len(events)+extra {
				t.Errorf("%s, %.20q: %d lines for %d events", format, s, n, len(events))
			}
			for _, r := range buf.String() {
				if r != '\n' && (r < ' ' || r > '~') {
					t.Errorf("%s, %.20q: the log holds %q", format, s, r)
					break
				}
			}
			if buf.Len() > 10_000 {
				t.Errorf("%s, %.20q: %d bytes of log", format, s, buf.Len())
			}
		}
	}
}

func TestReasonThatIsNoCodeIsNotShown(t *testing.T) {
	o, buf := newObserver(t, FormatText, Alerting{})
	o.OutcomeFailed(Failure{
		Kind: fencerow.OutcomeDeadLettered, Reason: "dial tcp: password=hunter2", CorrelationID: "a",
	})
	if strings.Contains(buf.String(), "hunter2") || !strings.Contains(buf.String(), "reason=unknown") {
		t.Errorf("log: %s", buf)
	}
}

func TestMetricsDocument(t *testing.T) {
	o, _ := newObserver(t, FormatJSON, Alerting{})
	t.Run("KeysAndOrderAreFixed", func(t *testing.T) {
		got, err := json.Marshal(o.Metrics())
		want := `{"available":true,"scope":"process_lifetime","instance_key":"instance-a",` +
			`"claims":{"empty_polls_total":0,"claimed_batches_total":0,"unavailable_total":0,` +
			`"lost_total":0,"foreign_instance_total":0},"outcomes":{` +
			`"completed_total":0,"duplicate_completed_total":0,"retryable_failure_total":0,` +
			`"conflict_blocked_total":0,"permanent_failure_total":0,"dead_lettered_total":0}}`
		if err != nil || string(got) != want {
			t.Errorf("got  %s, %v\nwant %s", got, err, want)
		}
	})
	t.Run("UnavailableSaysWhy", func(t *testing.T) {
		got, err := json.Marshal(MetricsUnavailable(self))
		want := `{"available":false,"scope":"process_lifetime","instance_key":"instance-a",` +
			`"reason":"ledger_outbox_metrics_unavailable"}`
		if err != nil || string(got) != want {
			t.Errorf("got  %s, %v\nwant %s", got, err, want)
		}
	})
	t.Run("EachEventMovesItsOwnCounter", func(t *testing.T) {
		before := o.Metrics()
		o.EmptyPoll()
		o.BatchClaimed(claimOf("a", "b"), 5)
		o.TargetedClaim(ResultUnavailable, "a")
		o.TargetedClaim(ResultForeign, "a")
		o.TargetedClaim(ResultClaimed, "a")
		o.ClaimLost(1, fencerow.LostMissing, "a", DroppedNothing)
		for i, kind := range fencerow.OutcomeKinds() {
			if kind.Success() {
				o.RecordedSuccess(kind, make([]fencerow.CorrelationID, i+1))
				continue
			}
			for range i + 1 {
				o.OutcomeFailed(Failure{Kind: kind, Reason: "conflict"})
			}
		}
		m := o.Metrics()
		if *m.Claims != (ClaimTotals{1, 1, 1, 1, 1}) || *m.Outcomes != (OutcomeTotals{1, 2, 3, 4, 5, 6}) {
			t.Errorf("claims %+v, outcomes %+v", *m.Claims, *m.Outcomes)
		}
		if *before.Claims != (ClaimTotals{}) || *before.Outcomes != (OutcomeTotals{}) {
			t.Error("an earlier snapshot changed")
		}
	})
	t.Run("CountsAreExactUnderConcurrency", func(t *testing.T) {
		o, _ := newObserver(t, FormatJSON, Alerting{})
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 1000 {
					o.EmptyPoll()
				}
			})
		}
		wg.Wait()
		if n := o.Metrics().Claims.EmptyPolls; n != 8000 {
			t.Errorf("%d polls", n)
		}
	})
}

func TestBadSettingsAreRefused(t *testing.T) {
	handler := slog.DiscardHandler
	for name, err := range map[string]error{
		"NoInstance":  second(New(handler, "", Alerting{})),
		"BadInstance": second(New(handler, "a b", Alerting{})),
		"NoHandler":   second(New(nil, self, Alerting{})),
		"HeldAfter":   second(New(handler, self, Alerting{HeldAfter: MinAlertTime - 1})),
		"AlertWindow": second(New(handler, self, Alerting{Window: MaxAlertTime + 1})),
		"Format":      second(NewHandler(nil, "yaml", slog.LevelInfo)),
		"Level":       second(ParseLevel("loud")),
	} {
		if !errors.Is(err, fencerow.ErrInvalidInput) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if level, err := ParseLevel("WARN"); err != nil || level != slog.LevelWarn {
		t.Errorf("WARN: %v, %v", level, err)
	}
}

func second[T any](_ T, err error) error { return err }
