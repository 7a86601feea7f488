package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/shopspring/decimal"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/daemon"
	"github.com/fourblocks2020/fencerow/internal/memstore"
	"github.com/fourblocks2020/fencerow/internal/observe"
	"github.com/fourblocks2020/fencerow/internal/pgtest"
	"github.com/fourblocks2020/fencerow/internal/slots"
	"github.com/fourblocks2020/fencerow/internal/slots/natsrpc"
	"github.com/fourblocks2020/fencerow/internal/slots/natstest"
	"github.com/fourblocks2020/fencerow/internal/writer"
)

// slotsScene is a store on hold with everything that a slot can have: a snapshot and a name, or neither;
// entries that wait for their retry, in two currencies; blocked ones; an open skip. Nothing is due.
func slotsScene(t *testing.T) *memstore.Store {
	t.Helper()
	store := memstore.New(memstore.Options{Now: func() time.Time { return noon }})
	entry := func(id fencerow.CorrelationID, slot fencerow.SlotID, cash, currency string) fencerow.NewEntry {
		return fencerow.NewEntry{CorrelationID: id, EntryKind: "fill", SlotID: slot, Payload: []byte(`{}`),
			CashDelta: decimal.RequireFromString(cash), Currency: currency, OpenSkip: id == "skip"}
	}
	entries := []fencerow.NewEntry{
		entry("booked", "slot-1", "-1250.40", "EUR"), entry("late", "slot-1", "-12.50", "EUR"),
		entry("skip", "slot-1", "100", "USD"), entry("blocked", "slot-1", "3", "EUR"),
		entry("other", "slot-2", "0.000000000000000001", "JPY"),
	}
	_, err := store.EnqueueMany(t.Context(), fencerow.EnqueueParams{Instance: desk, Entries: entries})
	if err != nil {
		t.Fatal(err)
	}
	for i := range entries {
		claim, err := store.ClaimOne(t.Context(), fencerow.ClaimOneParams{
			Instance: desk, Worker: "w", Token: fencerow.NewClaimToken(), CorrelationID: entries[i].CorrelationID,
			Lease: time.Minute,
		})
		if err != nil {
			t.Fatal(err)
		}
		o := fencerow.Outcome{OutboxID: claim.Entries[0].OutboxID, Kind: fencerow.OutcomeRetryableFailure,
			Reason: fencerow.ReasonLedgerError, Delay: time.Hour}
		switch entries[i].CorrelationID {
		case "booked":
			o = fencerow.Outcome{OutboxID: o.OutboxID, Kind: fencerow.OutcomeCompleted, Snapshot: &fencerow.Snapshot{
				SlotID: "slot-1", Currency: "EUR", CashBalance: decimal.RequireFromString("8749.60"), Version: 17,
			}}
		case "blocked":
			o = fencerow.Outcome{OutboxID: o.OutboxID, Kind: fencerow.OutcomePermanentFailure,
				Reason: fencerow.ReasonBadRequest}
		}
		verdicts, err := store.RecordOutcomes(t.Context(), fencerow.RecordParams{
			Instance: desk, Token: claim.Token, Outcomes: []fencerow.Outcome{o},
		})
		if err != nil || !verdicts[0].Applied {
			t.Fatalf("%+v, %v", verdicts, err)
		}
	}
	err = store.NameSlot(t.Context(), fencerow.NameSlotParams{
		Instance: desk, Slot: "slot-1", Strategy: "mean reversion",
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Hold(t.Context(), desk); err != nil {
		t.Fatal(err)
	}
	return store
}

// startSlotsDaemon runs a daemon on a store, with these counters, that answers over NATS too, and returns the
// address of its ops listener.
func startSlotsDaemon(t *testing.T, store fencerow.Store, counters slots.Reader, natsURL string) string {
	t.Helper()
	handler, err := observe.NewHandler(t.Output(), observe.FormatText, nil)
	if err != nil {
		t.Fatal(err)
	}
	observer, err := observe.New(handler, desk, observe.Alerting{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := writer.New(store, nobody{}, observer, writer.Config{Instance: desk, Worker: "daemon"})
	if err != nil {
		t.Fatal(err)
	}
	builder := slots.NewBuilder(store, desk, "worker-1", counters)
	address := net.JoinHostPort("127.0.0.1", freePort(t))
	d, err := daemon.New(daemon.Config{
		Store: store, Writers: []daemon.Writer{w}, Observer: observer, Worker: "daemon",
		Interval: time.Hour, Grace: 4 * time.Second,
		OpsListen: address, Slots: builder,
		Responder: natsrpc.NewServer(natsrpc.Config{URL: natsURL}, builder, observer, 4*time.Second),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := d.Run(ctx); err != nil {
			t.Errorf("the daemon: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return "http://" + address
}

// nobody is a ledger that must not be asked.
type nobody struct{}

func (nobody) Deliver(context.Context, fencerow.Delivery) fencerow.Answer {
	panic("an instance on hold delivers")
}

// awaitAnswers returns when a daemon answers at both addresses.
func awaitAnswers(t *testing.T, ops, natsURL string) {
	t.Helper()
	client, err := daemon.NewClient(ops, fencerow.Secret{})
	if err != nil {
		t.Fatal(err)
	}
	tick, late := time.NewTicker(10*time.Millisecond), time.After(runLimit)
	defer tick.Stop()
	for {
		_, byOps := client.Slots(t.Context(), slots.Request{Instance: desk})
		_, byNATS := natsrpc.Ask(t.Context(), natsrpc.Config{URL: natsURL}, slots.Request{Instance: desk})
		if byOps == nil && byNATS == nil {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("no answer: %v, %v", byOps, byNATS)
		}
	}
}

// get returns the body that the ops listener answers with.
func get(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%d %s, %v", response.StatusCode, body, err)
	}
	return string(body)
}

// askNATS sends a request as any program may, and returns the answer's bytes.
func askNATS(t *testing.T, url, request string) string {
	t.Helper()
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answer, err := conn.Request("trex.slots.req", []byte(request), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer.Data)
}

// The same state is the same bytes over NATS, by HTTP, and on the command's standard output.
func TestSlotsAreTheSameBytesWhateverWayTheyAreAskedFor(t *testing.T) {
	t.Parallel()
	full := func() (observe.Metrics, error) {
		return observe.Metrics{
			Available: true, Scope: "process_lifetime", InstanceKey: desk,
			Claims: &observe.ClaimTotals{
				EmptyPolls: 86400, ClaimedBatches: 2, Unavailable: 3, Lost: 4, ForeignInstance: 5,
			},
			Outcomes: &observe.OutcomeTotals{
				Completed: 6, DuplicateCompleted: 7, RetryableFailure: 8, ConflictBlocked: 9, PermanentFailure: 10,
				DeadLettered: 11,
			},
		}, nil
	}
	broken := func() (observe.Metrics, error) { return observe.Metrics{}, errors.New("no counters") }
	for name, tt := range map[string]struct {
		counters slots.Reader
		spy      string
	}{
		"slots":             {full, "false"},
		"slots_spy":         {full, "true"},
		"slots_unavailable": {broken, "true"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bus := natstest.Start(t)
			ops := startSlotsDaemon(t, slotsScene(t), tt.counters, bus.URL())
			awaitAnswers(t, ops, bus.URL())
			c := command{env: []string{"FENCEROW_INSTANCE_KEY=" + desk}}
			flag := "--spy=" + tt.spy
			for way, got := range map[string]string{
				"over NATS": askNATS(t, bus.URL(), `{"instance_key":"desk-1","spy":`+tt.spy+`}`),
				"by HTTP":   get(t, ops+"/v1/slots?spy="+tt.spy),
				"by the command over NATS": c.want(t, 0, "--json", "slots", flag,
					"--nats-url", bus.URL()).stdout,
				"by the command": c.want(t, 0, "--json", "slots", flag, "--ops-url", ops).stdout,
			} {
				t.Log(way)
				golden(t, "json/"+name+".json", got)
			}
			golden(t, "text/"+name+".txt", c.want(t, 0, "slots", flag, "--ops-url", ops).stdout)
		})
	}
}

func TestSlotsThatNobodyAnswersAreAFailureWithAHint(t *testing.T) {
	t.Parallel()
	bus := natstest.Start(t)
	c := command{env: []string{"FENCEROW_INSTANCE_KEY=" + desk, "FENCEROW_NATS_URL=" + bus.URL()}}
	mustContain(t, c.want(t, 1, "slots").stderr, "nats_nobody_listens", "no fencerowd listens on this NATS")
	ops := startSlotsDaemon(t, slotsScene(t), nil, bus.URL())
	awaitAnswers(t, ops, bus.URL())
	other := c.with("FENCEROW_INSTANCE_KEY=desk-2")
	mustContain(t, other.want(t, 1, "slots").stderr, "nats_no_answer", "none of this instance answered")
	byOps := command{env: []string{"FENCEROW_INSTANCE_KEY=desk-2", "FENCEROW_OPS_URL=" + ops}}
	mustContain(t, byOps.want(t, 3, "slots").stderr, "serves another instance")
	bus.Stop()
	mustContain(t, c.want(t, 1, "slots").stderr, "nats_unreachable", "check that the NATS server runs")
	nobody := command{env: []string{"FENCEROW_INSTANCE_KEY=" + desk, "FENCEROW_OPS_URL=http://127.0.0.1:1"}}
	mustContain(t, nobody.want(t, 1, "slots").stderr, "daemon_unreachable", "check that fencerowd runs")
}

func TestSlotsNeedOneWayToAsk(t *testing.T) {
	t.Parallel()
	c := command{env: []string{"FENCEROW_INSTANCE_KEY=" + desk}}
	both := []string{"slots", "--ops-url", "http://127.0.0.1:1", "--nats-url", "nats://127.0.0.1:1"}
	secret := []string{"slots", "--nats-url", "nats://user:s3cr3t@127.0.0.1:1"}
	for _, args := range [][]string{{"slots"}, both, secret, {"slots", "--nats-url", "http://127.0.0.1:1"}} {
		r := c.want(t, 80, args...)
		mustContain(t, r.stderr, "--nats-url (FENCEROW_NATS_URL)")
		if strings.Contains(r.stderr, "s3cr3t") {
			t.Errorf("it shows a password: %s", r.stderr)
		}
	}
	mustContain(t, command{}.want(t, 80, both[:3]...).stderr, "--instance-key")
}

// A file of settings names a NATS server for the daemon; who gives a flag means the flag.
func TestAFlagWinsOverTheOthersVariable(t *testing.T) {
	t.Parallel()
	bus := natstest.Start(t)
	ops := startSlotsDaemon(t, slotsScene(t), nil, bus.URL())
	awaitAnswers(t, ops, bus.URL())
	c := command{env: []string{"FENCEROW_INSTANCE_KEY=" + desk}}
	for _, url := range []string{"nats://127.0.0.1:1", "not an address"} {
		c.with("FENCEROW_NATS_URL="+url).want(t, 0, "slots", "--ops-url", ops)
	}
	c.with("FENCEROW_OPS_URL=http://127.0.0.1:1").want(t, 0, "slots", "--nats-url", bus.URL())
	both := c.with("FENCEROW_OPS_URL="+ops, "FENCEROW_NATS_URL="+bus.URL())
	mustContain(t, both.want(t, 80, "slots").stderr, "not both")
}

// What a daemon says of its own database is not put right by this command's settings.
func TestWhatADaemonSaysOfItsDatabaseIsHintedAtAsThat(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"store_unavailable", "store_credentials_refused"} {
		answering := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"error":"` + code + `"}`))
		}))
		t.Cleanup(answering.Close)
		c := command{env: []string{"FENCEROW_INSTANCE_KEY=" + desk, "FENCEROW_OPS_URL=" + answering.URL}}
		for _, args := range [][]string{{"slots"}, {"process", "a"}} {
			r := c.want(t, 1, args...)
			mustContain(t, r.stderr, code, "of its own database")
			if strings.Contains(r.stderr, "FENCEROW_DSN") {
				t.Errorf("%v: %s", args, r.stderr)
			}
		}
	}
	silent := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(silent.Close)
	c := command{env: []string{"FENCEROW_INSTANCE_KEY=" + desk, "FENCEROW_OPS_URL=" + silent.URL}}
	mustContain(t, c.want(t, 1, "slots").stderr, "daemon_answer_unreadable", "is no fencerowd")
}

// What the daemon of a real store knows is what the store knows of its own instance.
func TestSlotsOfARealStore(t *testing.T) {
	t.Parallel()
	db := pgtest.NewDatabase(t, schema)
	_, url := startStub(t)
	enqueue(t, at(db.DSN(), desk), "a")
	enqueue(t, at(db.DSN(), "desk-2"), "b")
	c := at(db.DSN(), desk)
	c.want(t, 0, "slot", "slot-1", "--strategy", "trend")
	c.want(t, 0, "hold")
	ops := startDaemon(t, db.DSN(), url, "")
	asking := command{env: []string{"FENCEROW_INSTANCE_KEY=" + desk, "FENCEROW_OPS_URL=" + ops}}
	doc := document[slots.Document](t, asking, 0, "slots", "--spy")
	if len(doc.Slots) != 1 || doc.Slots[0].SlotID != "slot-1" || *doc.Slots[0].Strategy != "trend" ||
		len(doc.Slots[0].PendingCash) != 1 || doc.Slots[0].PendingCash[0].Pending != "-12.5" {
		t.Errorf("%+v", doc.Slots)
	}
	if !doc.Metrics.Available || doc.OldestDueAgeSec == nil || *doc.OldestDueAgeSec <= 0 {
		t.Errorf("%+v", doc.Spy)
	}
}
