package ledger_test

import (
	"net/http/httptest"
	"testing"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/ledger"
	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
)

// Every way in which the stub can fail, before and after it has booked: what the adapter says of it, what a
// read-back finds, and that the next attempt ends in exactly one booking.
func TestEveryFaultOfTheStubIsRecoveredFrom(t *testing.T) {
	cut := answer(retryable, unknown, entry, fencerow.ReasonConnectionCut)
	unreadable := answer(retryable, unknown, entry, fencerow.ReasonAnswerUnreadable)
	contradicts := resolving(answer(conflict, answered, entry, fencerow.ReasonEchoConflict))
	for mode, want := range map[ledgerstub.Mode]fencerow.Answer{
		ledgerstub.ModeStatus:           answer(retryable, answered, target, fencerow.ReasonLedgerUnavailable),
		ledgerstub.ModeCut:              cut,
		ledgerstub.ModeReset:            cut,
		ledgerstub.ModeGarbage:          unreadable,
		ledgerstub.ModeTruncated:        resolving(unreadable),
		ledgerstub.ModeHTML:             resolving(unreadable),
		ledgerstub.ModeOversized:        resolving(unreadable),
		ledgerstub.ModeOversizedHeaders: unreadable,
		ledgerstub.ModeEmpty: resolving(answer(retryable, unknown, entry,
			fencerow.ReasonAnswerIncomplete)),
		ledgerstub.ModeRedirect:    answer(retryable, answered, target, fencerow.ReasonRedirected),
		ledgerstub.ModeWrongID:     contradicts,
		ledgerstub.ModeWrongDigest: contradicts,
	} {
		for _, commit := range []bool{false, true} {
			name := string(mode) + map[bool]string{false: "/before commit", true: "/after commit"}[commit]
			t.Run(name, func(t *testing.T) {
				stub := ledgerstub.New(ledgerstub.Options{})
				server := httptest.NewServer(stub)
				defer server.Close()
				address := server.URL + ledgerstub.EntriesPath
				h := newHTTP(t, address, func(c *ledger.Config) { c.ReadbackURL, c.RequireEcho = address, true })
				if _, err := stub.AddRule(ledgerstub.Rule{Count: 1, Fault: ledgerstub.Fault{
					Mode: mode, Commit: commit, Status: 503,
				}}); err != nil {
					t.Fatal(err)
				}
				if got := h.Deliver(withPatience(t), delivery()); got != want {
					t.Errorf("got  %+v\nwant %+v", got, want)
				}
				found, next := fencerow.ResolvedAbsent, delivered
				if commit {
					found, next = fencerow.ResolvedEqual, duplicate
				}
				if got := h.Resolve(withPatience(t), newEntry()); got.Result != found {
					t.Errorf("the read-back says %s, want %s", got.Result, found)
				}
				if got := h.Deliver(withPatience(t), delivery()); got.Class != next || got.Snapshot == nil {
					t.Errorf("the next attempt is %+v, want %s", got, next)
				}
				if c := stub.Counters(); c.Booked != 1 || c.Requests != 2 {
					t.Errorf("counters are %+v", c)
				}
			})
		}
	}
}

func TestStubRefusesWhatAZombieSends(t *testing.T) {
	stub := ledgerstub.New(ledgerstub.Options{})
	server := httptest.NewServer(stub)
	defer server.Close()
	h := newHTTP(t, server.URL+ledgerstub.EntriesPath, nil)
	d := delivery()
	h.Deliver(withPatience(t), d)
	d.Epoch--
	got := h.Deliver(withPatience(t), d)
	if want := answer(retryable, answered, entry, fencerow.ReasonStaleFencingToken); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	d.Epoch += 2
	d.Entry.Payload = []byte(`{"other":1}`)
	got = h.Deliver(withPatience(t), d)
	if want := resolving(answer(conflict, answered, entry, fencerow.ReasonContentConflict)); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
