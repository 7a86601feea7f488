package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
)

// told is an alert as its receiver gets it.
type told struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      struct {
		Instance string `json:"instance_key"`
		Worker   string `json:"worker"`
		Alert    string `json:"alert"`
		Outcome  string `json:"outcome"`
		Reason   string `json:"reason"`
		Count    int    `json:"count"`
	} `json:"data"`
}

func (a told) String() string {
	d := a.Data
	words := []string{d.Instance, d.Alert, d.Outcome, d.Reason, "x" + strconv.Itoa(d.Count)}
	return strings.Join(slices.DeleteFunc(words, func(s string) bool { return s == "" }), " ")
}

// receiver is a receiver of alerts on a socket. It believes nothing that is not signed.
type receiver struct {
	t      *testing.T
	server *httptest.Server
	key    []byte
	path   string // of the secret's file
	// hang is closed when requests are answered; nil if they are at once.
	hang chan struct{}

	mu     sync.Mutex
	alerts []told
	ids    []string
	asked  int
}

func newReceiver(t *testing.T, hang chan struct{}) *receiver {
	t.Helper()
	r := &receiver{t: t, key: []byte("a key of 32 bytes for an example"), hang: hang,
		path: filepath.Join(t.TempDir(), "webhook-secret")}
	writeFile(t, r.path, "whsec_"+base64.StdEncoding.EncodeToString(r.key)+"\n")
	r.server = httptest.NewServer(http.HandlerFunc(r.take))
	t.Cleanup(r.server.Close)
	return r
}

// settings are those of a daemon whose alerts it receives.
func (r *receiver) settings(more map[string]string) map[string]string {
	more["ALERT_WEBHOOK_URL"] = r.server.URL + "/hook/token-in-the-path"
	more["ALERT_WEBHOOK_SECRET_FILE"] = r.path
	return more
}

func (r *receiver) take(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	r.asked++
	r.mu.Unlock()
	if r.hang != nil {
		<-r.hang
		return
	}
	body, err := io.ReadAll(request.Body)
	id, stamp := request.Header.Get("webhook-id"), request.Header.Get("webhook-timestamp")
	mac := hmac.New(sha256.New, r.key)
	fmt.Fprintf(mac, "%s.%s.%s", id, stamp, body)
	seconds, stampErr := strconv.ParseInt(stamp, 10, 64)
	age := time.Since(time.Unix(seconds, 0))
	signed := slices.Contains(strings.Fields(request.Header.Get("webhook-signature")),
		"v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	var a told
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	if err != nil || stampErr != nil || age.Abs() > time.Minute || !signed || d.Decode(&a) != nil ||
		request.Method != http.MethodPost || request.URL.Path != "/hook/token-in-the-path" {
		r.t.Errorf("an alert that a receiver refuses: %v\n%s", request.Header, body)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Contains(r.ids, id) {
		r.t.Errorf("alert %s arrived twice", id)
	}
	equal(r.t, "an alert names its worker", a.Data.Worker != "", true)
	equal(r.t, "type", a.Type, "fencerow.alert."+a.Data.Alert)
	r.ids, r.alerts = append(r.ids, id), append(r.alerts, a)
	w.WriteHeader(http.StatusNoContent)
}

// so returns the alerts so far, as texts.
func (r *receiver) so() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	texts := make([]string, len(r.alerts))
	for i, a := range r.alerts {
		texts[i] = a.String()
	}
	return texts
}

func (r *receiver) await(n int) {
	r.t.Helper()
	until(r.t, patience, fmt.Sprintf("alert %d", n), func() bool { return len(r.so()) >= n })
}

func (r *receiver) want(alerts ...string) {
	r.t.Helper()
	if got := r.so(); !slices.Equal(got, alerts) {
		r.t.Errorf("told\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(alerts, "\n  "))
	}
}

func TestAFloodOfPoisonEntriesIsOneAlertAndOneFollowUp(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), newReceiver(t, nil)
	n := size(t, 1000, 200)
	_, err := w.stub.AddRule(ledgerstub.Rule{KeyPrefix: "desk-1:poison", Fault: answers(400)})
	check(t, err)
	w.enqueueLines("desk-1", append(fills("poison", n), fills("healthy", 50)...))
	d := w.start("desk-1", r.settings(map[string]string{"ALERT_WINDOW": "10s"}))
	w.awaitDrained(patience, "desk-1")
	r.await(2)
	d.stop()
	r.want("desk-1 entry_blocked permanent_failure bad_request x1",
		fmt.Sprintf("desk-1 entry_blocked permanent_failure bad_request x%d", n-1))
	// The timestamps are of the wall clock, which may be set right meanwhile; the window is not.
	const window, slew = 10 * time.Second, 50 * time.Millisecond
	if gap := r.alerts[1].Timestamp.Sub(r.alerts[0].Timestamp); gap < window-slew {
		t.Errorf("the follow-up came after %v, within the window", gap)
	}
	blocked := 0
	for _, record := range d.log("outcome recorded") {
		if record.Level == "ERROR" {
			blocked++
		}
	}
	equal(t, "records of parked entries", blocked, n)
	records := d.log("alert")
	if len(records) != 2 || records[0].Count != 1 || records[1].Count != n-1 || records[0].Level != "ERROR" {
		t.Errorf("alerts in the log: %+v", records)
	}
	t.Logf("%d entries parked for one reason: %d records, 2 alerts, the second with count %d", n, blocked, n-1)
}

func TestWhatIsCountedIsToldWhenTheDaemonStops(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), newReceiver(t, nil)
	_, err := w.stub.AddRule(ledgerstub.Rule{KeyPrefix: "desk-1:poison", Fault: answers(422)})
	check(t, err)
	w.enqueueLines("desk-1", fills("poison", 20))
	d := w.start("desk-1", r.settings(map[string]string{"ALERT_WINDOW": "24h"}))
	w.awaitDrained(patience, "desk-1")
	d.stop()
	r.want("desk-1 entry_blocked permanent_failure content_refused x1",
		"desk-1 entry_blocked permanent_failure content_refused x19")
}

func TestAHoldThatLastsIsOneAlertAndResolves(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t), newReceiver(t, nil)
	token := filepath.Join(t.TempDir(), "token")
	writeFile(t, token, "old-token\n")
	w.stub.SetToken("new-token")
	w.settings["LEDGER_TOKEN_FILE"] = token
	const heldAfter = time.Second
	soon := w.start("desk-1", r.settings(map[string]string{"ALERT_HELD_AFTER": heldAfter.String()}))
	patient := w.start("desk-2", r.settings(map[string]string{"ALERT_HELD_AFTER": "1h"}))
	for _, instance := range []string{"desk-1", "desk-2"} {
		w.enqueueLines(instance, fills("after", 50))
	}
	began := soon.awaitRecord("target held").Time
	patient.awaitRecord("target held")
	r.await(1)
	<-time.After(2 * heldAfter) // what would be told again and again would be told again now
	r.want("desk-1 target_held credentials_refused x1")
	if lasted := r.alerts[0].Timestamp.Sub(began); lasted < heldAfter {
		t.Errorf("it was told after %v", lasted)
	}

	writeFile(t, token, "new-token\n")
	w.awaitDrained(patience, "desk-1")
	w.awaitDrained(patience, "desk-2")
	patient.awaitRecord("target resumed")
	r.await(2)
	soon.stop()
	patient.stop()
	r.want("desk-1 target_held credentials_refused x1", "desk-1 target_resumed credentials_refused x1")
	equal(t, "alerts in the log of the patient one", len(patient.log("alert")), 0)
}

func TestAReceiverThatHangsDelaysNeitherDeliveriesNorTheStop(t *testing.T) {
	t.Parallel()
	w, hang := newWorld(t), make(chan struct{})
	r := newReceiver(t, hang)
	t.Cleanup(func() { close(hang) }) // before the server is closed
	_, err := w.stub.AddRule(ledgerstub.Rule{KeyPrefix: "desk-1:poison", Fault: answers(400)})
	check(t, err)
	w.enqueueLines("desk-1", fills("poison", 50))
	d := w.start("desk-1", r.settings(map[string]string{"ALERT_WINDOW": "100ms", "GRACE": "10s"}))
	w.awaitDrained(patience, "desk-1")
	until(t, patience, "a request that hangs", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.asked > 0
	})
	w.enqueueLines("desk-1", fills("healthy", 500))
	began := time.Now()
	w.awaitDrained(5*time.Second, "desk-1")
	t.Logf("500 entries delivered in %v while the receiver hung", time.Since(began))
	began = time.Now()
	d.signal(syscall.SIGTERM)
	equal(t, "exit status", d.wait(), 0)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("stopping took %v", took)
	}
	dropped := d.log("alerts dropped")
	all := d.log()
	equal(t, "the last record", all[len(all)-1].Msg, "stopped")
	if len(dropped) != 1 || dropped[0].Count != len(d.log("alert")) {
		t.Errorf("%d alerts in the log, dropped: %+v", len(d.log("alert")), dropped)
	}
	equal(t, "overdue stops", len(d.log("notice")), 0)
}
