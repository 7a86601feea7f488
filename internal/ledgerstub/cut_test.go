package ledgerstub_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/fourblocks2020/fencerow/internal/badinput"
	"github.com/fourblocks2020/fencerow/internal/ledgerstub"
)

func TestADocumentCutAtAnyByteBooksAndChangesNothing(t *testing.T) {
	t.Parallel()
	s := start(t, ledgerstub.Options{Control: true})
	cuts := 0
	for entry := range badinput.Cuts(body("a", "slot", "1.5")) {
		cuts++
		if got := s.send("desk:a", 1, entry); got.err != nil || got.status != http.StatusBadRequest {
			t.Errorf("%q: %d %q, %v", entry, got.status, got.body, got.err)
		}
	}
	if n := len(s.Bookings()) + len(s.Balances()); n != 0 {
		t.Errorf("%d bookings and balances", n)
	}
	for _, document := range []string{`{"key":"desk:a","count":1,"fault":{"mode":"status","status":503}}`,
		`{"token":"another"}`} {
		path := "/control/rules"
		if strings.Contains(document, "token") {
			path = "/control/token"
		}
		for text := range badinput.Cuts(document) {
			cuts++
			request, err := http.NewRequest(http.MethodPost, s.url+path, strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			if got := s.do(request); got.err != nil || got.status != http.StatusBadRequest {
				t.Errorf("%s %q: %d %q, %v", path, text, got.status, got.body, got.err)
			}
		}
	}
	if n := len(s.Rules()); n != 0 {
		t.Errorf("%d rules", n)
	}
	s.expect(s.send("desk:a", 1, body("a", "slot", "1.5")), http.StatusCreated, "CREATED")
	t.Logf("%d cut documents refused by the stub ledger, and nothing booked", cuts)
}
