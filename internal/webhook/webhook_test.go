package webhook

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/observe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	sentinel = "s3cr3t-sentinel"
	// secretText is a secret and secretKey what it stands for.
	secretText = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func secretFile(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	check(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func newSender(t testing.TB, cfg Config) *Sender {
	t.Helper()
	if cfg.SecretFile == "" {
		cfg.SecretFile = secretFile(t, secretText)
	}
	if cfg.URL.IsZero() {
		cfg.URL = fencerow.NewSecret("https://alerts.example/hook/" + sentinel)
	}
	s, err := New(cfg)
	check(t, err)
	return s
}

// report keeps what a sender reports.
type report struct {
	mu    sync.Mutex
	lines []string
}

func (r *report) add(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
}

func (r *report) WebhookFailed(why observe.WebhookFailure) { r.add(string(why)) }
func (r *report) WebhookRestored()                         { r.add("restored") }
func (r *report) AlertsDropped(total int64)                { r.add(fmt.Sprint("dropped ", total)) }

func (r *report) want(t testing.TB, want ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.lines, want) {
		t.Errorf("reported %q, want %q", r.lines, want)
	}
}

// receiver is a receiver in the place of the network; answer decides the n-th request, from 1 on.
type receiver struct {
	answer func(ctx context.Context, n int) (int, error)

	mu       sync.Mutex
	requests []received
}

type received struct {
	at     time.Time
	header http.Header
	body   string
	late   int64 // seconds that may have passed since it was stamped
}

func (r *receiver) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.requests = append(r.requests, received{at: time.Now(), header: request.Header.Clone(), body: string(body)})
	n := len(r.requests)
	r.mu.Unlock()
	status, err := r.answer(request.Context(), n)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Body: unreadable{}}, nil
}

// unreadable is the body of an answer, which nobody is to read.
type unreadable struct{}

func (unreadable) Read([]byte) (int, error) { panic(sentinel) }
func (unreadable) Close() error             { return nil }

func hang(ctx context.Context, _ int) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

func (r *receiver) all() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

// verify checks a request as a receiver does, and by nothing of this package.
func verify(t testing.TB, secret string, r received) {
	t.Helper()
	id, stamp := r.header.Get("webhook-id"), r.header.Get("webhook-timestamp")
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	check(t, err)
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, stamp, r.body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	if got := r.header.Get("webhook-signature"); got != want {
		t.Errorf("the signature is %s, want %s", got, want)
	}
	// Over a socket a request arrives a little later than it was stamped, which may be in the next second.
	if seconds, err := strconv.ParseInt(stamp, 10, 64); err != nil ||
		seconds > r.at.Unix() || seconds < r.at.Unix()-r.late {
		t.Errorf("the timestamp is %s, want %d", stamp, r.at.Unix())
	}
	if id == "" || strings.Contains(id, ".") {
		t.Errorf("the id is %q", id)
	}
}

func blocked(count int64) observe.Alert {
	return observe.Alert{Event: observe.AlertEntryBlocked, Instance: "desk-1", Worker: "host:7",
		Outcome: "dead_lettered", Reason: "ledger_error", Count: count, At: time.Now()}
}

// play runs script in a bubble with a started sender before a receiver, and closes it.
func play(t *testing.T, answer func(context.Context, int) (int, error), script func(*Sender, *receiver),
) (r *receiver, reports *report) {
	t.Helper()
	r, reports = &receiver{answer: answer}, &report{}
	synctest.Test(t, func(t *testing.T) {
		s := newSender(t, Config{})
		s.transport = r
		s.Start(reports)
		script(s, r)
		s.Close(time.Second)
		<-s.ended
	})
	return r, reports
}

func status(code int) func(context.Context, int) (int, error) {
	return func(context.Context, int) (int, error) { return code, nil }
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestTheSignatureIsThatOfThePublishedExample(t *testing.T) {
	key, ok := readKey(secretFile(t, secretText+"\n"))
	if !ok {
		t.Fatal("the secret is refused")
	}
	header := http.Header{}
	sign(header, key, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if got := header.Get("webhook-signature"); got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Errorf("got %s", got)
	}
}

func TestAnAlertArrivesOnceSignedAndWithCodesAndCountsOnly(t *testing.T) {
	r, reports := play(t, status(204), func(s *Sender, _ *receiver) {
		s.Alert(blocked(12))
		s.Alert(observe.Alert{Event: observe.AlertTargetResumed, Instance: "desk-1", Reason: "throttled", Count: 1,
			At: time.Now()})
		pass(time.Second)
	})
	bodies := make([]string, 0, 2)
	for _, request := range r.all() {
		verify(t, secretText, request)
		bodies = append(bodies, request.body)
		if request.header.Get("Content-Type") != "application/json" {
			t.Errorf("headers: %v", request.header)
		}
	}
	want := []string{
		`{"type":"fencerow.alert.entry_blocked","timestamp":"2000-01-01T00:00:00Z","data":{` +
			`"instance_key":"desk-1","worker":"host:7","alert":"entry_blocked","outcome":"dead_lettered",` +
			`"reason":"ledger_error","count":12}}`,
		`{"type":"fencerow.alert.target_resumed","timestamp":"2000-01-01T00:00:00Z","data":{` +
			`"instance_key":"desk-1","alert":"target_resumed","reason":"throttled","count":1}}`,
	}
	if !slices.Equal(bodies, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(bodies, "\n"), strings.Join(want, "\n"))
	}
	reports.want(t)
}

func TestAFailedAlertIsSentAgainUnderItsIDUntilItIsTaken(t *testing.T) {
	r, reports := play(t, func(_ context.Context, n int) (int, error) {
		return []int{500, 500, 429, 302, 403, 200, 200}[n-1], nil
	}, func(s *Sender, _ *receiver) {
		s.Alert(blocked(1))
		s.Alert(blocked(2))
		pass(time.Hour)
	})
	all := r.all()
	if len(all) != 7 {
		t.Fatalf("%d requests", len(all))
	}
	for i, request := range all {
		verify(t, secretText, request)
		if same := request.header.Get("webhook-id") == all[0].header.Get("webhook-id"); same != (i < 6) {
			t.Errorf("request %d: the id of the first alert: %v", i+1, same)
		}
		if i < 6 && request.body != all[0].body {
			t.Errorf("request %d has another body", i+1)
		}
	}
	for i := 1; i < 5; i++ {
		pause, longest := all[i].at.Sub(all[i-1].at), firstPause<<(i-1)
		if pause > longest || pause < longest*3/4 {
			t.Errorf("pause %d is %v of %v", i, pause, longest)
		}
	}
	reports.want(t, "webhook_unavailable", "webhook_redirected", "webhook_refused", "restored")
}

func TestAnAlertIsGivenUpAfterABoundAndTheNextOneTried(t *testing.T) {
	r, reports := play(t, status(503), func(s *Sender, r *receiver) {
		s.Alert(blocked(1))
		s.Alert(blocked(2))
		pass(5 * time.Minute)
		if first := r.all()[0].header.Get("webhook-id"); len(r.all()) <= maxAttempts ||
			r.all()[maxAttempts-1].header.Get("webhook-id") != first ||
			r.all()[maxAttempts].header.Get("webhook-id") == first {
			t.Errorf("%d requests, or the first was given up late", len(r.all()))
		}
		pass(5 * time.Minute)
	})
	if len(r.all()) != 2*maxAttempts {
		t.Errorf("%d requests", len(r.all()))
	}
	reports.want(t, "webhook_unavailable", "dropped 1", "dropped 2")
}

func TestWhatWouldBeInVainIsNotTriedAgain(t *testing.T) {
	tests := []struct {
		name     string
		answers  []int // to the first requests; later ones are taken
		requests int   // for three alerts
		within   time.Duration
		want     []string
	}{
		{"ARejectedAlertIsGivenUpAndTheNextOneSentAtOnce", []int{400, 404, 200}, 3, 0,
			[]string{"webhook_rejected", "dropped 1", "dropped 2", "restored"}},
		{"AReceiverThatIsGoneIsAskedNoMore", []int{410}, 1, 0,
			[]string{"webhook_gone", "dropped 1", "dropped 2", "dropped 3"}},
		{"ARefusedSignatureMayBeTakenSoon", []int{401, 403, 408, 425, 429}, 8, time.Hour,
			[]string{"webhook_refused", "webhook_unavailable", "restored"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, reports := play(t, func(_ context.Context, n int) (int, error) {
				if n <= len(tt.answers) {
					return tt.answers[n-1], nil
				}
				return 200, nil
			}, func(s *Sender, _ *receiver) {
				for range 3 {
					s.Alert(blocked(1))
				}
				pass(tt.within)
			})
			if n := len(r.all()); n != tt.requests {
				t.Errorf("%d requests", n)
			}
			reports.want(t, tt.want...)
		})
	}
}

func TestAReceiverThatHangsBlocksNobodyAndTheQueueIsBounded(t *testing.T) {
	const raised = 1000
	r, reports := play(t, hang, func(s *Sender, _ *receiver) {
		began := time.Now()
		for range raised {
			s.Alert(blocked(1))
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("raising alerts took %v", took)
		}
		pass(attemptTimeout)
		if n := len(s.queue); n > maxQueued {
			t.Errorf("%d alerts wait", n)
		}
		began = time.Now()
		if s.Close(2 * time.Second) {
			t.Error("it says that all was sent")
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("closing took %v", took)
		}
		s.Alert(blocked(1)) // too late: dropped
	})
	if n := len(r.all()); n < 1 || n > 3+maxQueued {
		t.Errorf("%d requests", n)
	}
	reports.mu.Lock()
	last := reports.lines[len(reports.lines)-1]
	reports.mu.Unlock()
	if last != fmt.Sprintf("dropped %d", raised) || reports.lines[0] != "webhook_timeout" {
		t.Errorf("reported %q", reports.lines)
	}
}

func TestWhatIsDroppedWhileItClosesIsToldOnce(t *testing.T) {
	_, reports := play(t, status(503), func(s *Sender, _ *receiver) {
		for range 10 {
			s.Alert(blocked(1))
		}
		pass(time.Millisecond)
	})
	reports.want(t, "webhook_unavailable", "dropped 10")
}

func TestClosingSendsWhatWaitsWithoutItsPauses(t *testing.T) {
	r, reports := play(t, func(_ context.Context, n int) (int, error) {
		if n == 1 {
			return 0, errors.New(sentinel)
		}
		return 200, nil
	}, func(s *Sender, _ *receiver) {
		for range 10 {
			s.Alert(blocked(1))
		}
		synctest.Wait() // the first has failed, and pauses
		began := time.Now()
		for range 2 {
			if !s.Close(time.Second) {
				t.Error("it says that not all was sent")
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v", took)
		}
	})
	if len(r.all()) != 11 {
		t.Errorf("%d requests", len(r.all()))
	}
	reports.want(t, "webhook_unreachable", "restored")
}

func TestASenderThatWasNeverStartedCloses(t *testing.T) {
	s := newSender(t, Config{})
	s.Alert(blocked(1))
	if !s.Close(time.Second) {
		t.Error("it does not close")
	}
}

func TestAPanicOfTheTransportIsAFailure(t *testing.T) {
	r, reports := play(t, func(_ context.Context, n int) (int, error) {
		if n == 1 {
			panic(sentinel)
		}
		return 200, nil
	}, func(s *Sender, _ *receiver) {
		s.Alert(blocked(1))
		pass(time.Minute)
	})
	if len(r.all()) != 2 {
		t.Errorf("%d requests", len(r.all()))
	}
	reports.want(t, "webhook_unreachable", "restored")
}

func TestANewSecretIsTakenUp(t *testing.T) {
	const other = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	var path string
	r, reports := play(t, status(200), func(s *Sender, r *receiver) {
		path = s.secretFile
		s.Alert(blocked(1))
		pass(time.Second)
		verify(t, secretText, r.all()[0])
		check(t, os.WriteFile(path, []byte(other), 0o600))
		s.Alert(blocked(2))
		pass(time.Second)
		verify(t, other, r.all()[1])
		check(t, os.Remove(path))
		s.Alert(blocked(3))
		pass(time.Second)
		if len(r.all()) != 2 {
			t.Error("something was sent without a secret")
		}
		check(t, os.WriteFile(path, []byte(secretText), 0o600))
		pass(time.Minute)
	})
	if len(r.all()) != 3 {
		t.Fatalf("%d requests", len(r.all()))
	}
	verify(t, secretText, r.all()[2])
	reports.want(t, "webhook_secret_unreadable", "restored")
}

// Values that came past their validation, as a defect elsewhere could bring them.
func TestNoValueBreaksTheBody(t *testing.T) {
	for _, nasty := range []string{
		"a\"},{\"b\":\"", "a\nb", "\x1b[31mred", "\x9b31m", "a\x00b", "\xff\xfe", "\u2028", "\u202e",
	} {
		m := newMessage(observe.Alert{Event: observe.AlertEvent(nasty), Instance: fencerow.InstanceKey(nasty),
			Worker: fencerow.WorkerID(nasty), Outcome: fencerow.OutcomeKind(nasty), Reason: fencerow.ReasonCode(nasty),
			Count: 1})
		var parsed struct {
			Type, Timestamp string
			Data            map[string]any
		}
		d := json.NewDecoder(strings.NewReader(string(m.body)))
		d.DisallowUnknownFields()
		if err := d.Decode(&parsed); err != nil || len(parsed.Data) != 6 || d.More() {
			t.Errorf("%q: %s, %v", nasty, m.body, err)
		}
		if strings.ContainsFunc(string(m.body), func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("%q: the body is %q", nasty, m.body)
		}
	}
}
