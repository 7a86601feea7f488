package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/slots"
)

// slotStore answers about slots as the test says.
type slotStore struct {
	*breakable
	slots func() ([]fencerow.Slot, error)
}

func (s slotStore) Slots(context.Context, fencerow.InstanceKey) ([]fencerow.Slot, error) {
	return s.slots()
}

func TestSlotsOnTheOpsListener(t *testing.T) {
	var refuse error
	s := serveOps(t, newScripted(idle), func(cfg *Config) {
		store := slotStore{newBreakable(), func() ([]fencerow.Slot, error) {
			return []fencerow.Slot{{SlotID: "slot-1"}}, refuse
		}}
		cfg.Slots = slots.NewBuilder(store, self, worker, slots.CountersOf(cfg.Observer))
	})
	members := func(body string) map[string]json.RawMessage {
		t.Helper()
		var m map[string]json.RawMessage
		check(t, json.Unmarshal([]byte(body), &m))
		return m
	}
	for query, spy := range map[string]bool{
		"": false, "?": false, "?spy=false": false, "?spy=true": true, "?spy=true&instance_key=instance-a": true,
	} {
		status, body := s.request(http.MethodGet, "/v1/slots"+query, nil)
		equal(t, "status of "+query, status, http.StatusOK)
		m := members(body)
		_, hasMetrics := m["ledger_outbox_metrics"]
		_, hasLag := m["oldest_due_age_sec"]
		equal(t, "the worker is told", string(m["worker"]) == `"worker-1"`, spy)
		if hasMetrics != spy || hasLag != spy || !strings.Contains(body, "slot-1") {
			t.Errorf("%q: got %s", query, body)
		}
	}
	for _, tt := range []struct {
		method, query string
		status        int
		body          string
	}{
		{http.MethodGet, "?instance_key=instance-b", http.StatusMisdirectedRequest, `{"error":"other_instance"}`},
		{http.MethodGet, "?instance_key=", http.StatusBadRequest, `{"error":"invalid_input","message":"inst`},
		{http.MethodGet, "?instance_key=a%20b", http.StatusBadRequest, `{"error":"invalid_input"`},
		{http.MethodGet, "?spy=", http.StatusBadRequest, `{"error":"invalid_input","message":"spy must be`},
		{http.MethodGet, "?spy=1", http.StatusBadRequest, `{"error":"invalid_input","message":"spy must be`},
		{http.MethodGet, "?spy=yes", http.StatusBadRequest, `{"error":"invalid_input","message":"spy must be`},
		{http.MethodGet, "?spy=true&spy=false", http.StatusBadRequest, `{"error":"invalid_input"`},
		{http.MethodGet, "?spx=true", http.StatusBadRequest, `{"error":"invalid_input"`},
		{http.MethodGet, "?%zz", http.StatusBadRequest, `{"error":"invalid_input"`},
		{http.MethodPost, "", http.StatusMethodNotAllowed, `{"error":"method_not_allowed"}`},
	} {
		status, body := s.request(tt.method, "/v1/slots"+tt.query, nil)
		if status != tt.status || !strings.HasPrefix(body, tt.body) {
			t.Errorf("%s %q: got %d %s", tt.method, tt.query, status, body)
		}
	}
	status, _ := s.request(http.MethodGet, "/v1/slots", func(r *http.Request) { r.Host = "evil.example" })
	equal(t, "status for another host", status, http.StatusForbidden)

	refuse = fencerow.NewError("list slots", fencerow.ErrStoreUnavailable, errors.New(sentinel))
	status, body := s.request(http.MethodGet, "/v1/slots?spy=true", nil)
	equal(t, "status of a store that is down", status, http.StatusServiceUnavailable)
	equal(t, "body", body, `{"error":"store_unavailable"}`+"\n")
	_, err := s.client("").Slots(t.Context(), slots.Request{Instance: self})
	if !errors.Is(err, fencerow.ErrStoreUnavailable) {
		t.Errorf("the client got %v", err)
	}
	_, err = s.client("").Slots(t.Context(), slots.Request{Instance: "instance-b"})
	if !errors.Is(err, ErrDaemonOtherInstance) {
		t.Errorf("the client got %v", err)
	}
}

func TestSlotsNeedTheTokenWhereOneIsRequired(t *testing.T) {
	s := serveOps(t, newScripted(idle), func(cfg *Config) { cfg.OpsTokenFile = tokenFile(t, "token") })
	_, err := s.client("other").Slots(t.Context(), slots.Request{Instance: self})
	if !errors.Is(err, ErrDaemonToken) {
		t.Errorf("got %v", err)
	}
	doc, err := s.client("token").Slots(t.Context(), slots.Request{Instance: self, Spy: true})
	check(t, err)
	equal(t, "available", doc.Metrics.Available, true)
}

func TestEveryRefusalAboutSlotsHasAStatus(t *testing.T) {
	for code, want := range map[fencerow.Code]int{
		"": http.StatusOK, slots.ErrTooMany: http.StatusTooManyRequests,
		slots.ErrAnswerTooLarge: http.StatusInternalServerError, slots.ErrInternal: http.StatusInternalServerError,
		fencerow.ErrStoreBusy: http.StatusServiceUnavailable,
	} {
		equal(t, "status of "+string(code), statusOf(code), want)
	}
}

// A builder of another instance would show foreign slots.
func TestABuilderOfAnotherInstanceIsRefused(t *testing.T) {
	b := newBench(t, newScripted(idle), nil)
	for _, builder := range []*slots.Builder{nil, slots.NewBuilder(b.store, "instance-b", worker, nil)} {
		cfg := b.cfg
		cfg.Slots = builder
		if _, err := New(cfg); !errors.Is(err, fencerow.ErrInvalidInput) {
			t.Errorf("got %v", err)
		}
	}
}

// responder notes when it runs.
type responder struct{ began, ended chan struct{} }

func (responder) Connected() bool { return true }

func (r responder) Run(ctx context.Context) {
	close(r.began)
	<-ctx.Done()
	close(r.ended)
}

func TestAResponderRunsAsLongAsTheDaemon(t *testing.T) {
	r := responder{make(chan struct{}), make(chan struct{})}
	b := newBench(t, newScripted(idle), func(cfg *Config) { cfg.Responder = r })
	stop := b.start()
	<-r.began
	check(t, stop())
	<-r.ended
}
