package canary

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/fourblocks2020/fencerow"
)

// reasonRow is a delivery that ends with a reason.
type reasonRow struct {
	reason   fencerow.ReasonCode
	answer   ledgerAnswer
	settings map[string]string // beside the world's
	// times is how often the entry is processed; 0 is once.
	times int
	// shownAs is what the reason is shown as, if not as itself.
	shownAs string
}

const (
	mismatch = "idempotency-mismatch"
	stale    = "stale-fencing-token"
	created  = "CREATED"
)

// reasonRows are the reasons that the ledger's answer, or the way to it, brings about. Where a row names no
// address the hostile ledger answers.
func reasonRows(t *testing.T) []reasonRow {
	address := func(url string) map[string]string { return map[string]string{"LEDGER_URL": url} }
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	check(t, closed.Close())
	deaf := newDeafServer(t)
	readback := map[string]string{"LEDGER_READBACK_URL": "set by the test"}
	return []reasonRow{
		{reason: fencerow.ReasonEchoConflict, answer: ledgerAnswer{status: 201, result: created}},
		{reason: fencerow.ReasonContentConflict, answer: ledgerAnswer{status: 422, kind: mismatch}},
		{reason: fencerow.ReasonConflict, answer: ledgerAnswer{status: 409}, times: 2,
			settings: map[string]string{"IN_FLIGHT_ATTEMPTS": "2"}, shownAs: "conflict_unverified"},
		{reason: fencerow.ReasonAnswerUnreadable, answer: ledgerAnswer{status: 200, contentType: "text/html",
			body: "<title>" + printable(providerText) + "</title>"}},
		{reason: fencerow.ReasonAnswerIncomplete, answer: ledgerAnswer{status: 201, body: "-"},
			settings: map[string]string{"LEDGER_REQUIRE_ECHO": "true"}},
		{reason: fencerow.ReasonAcceptedNotBooked, answer: ledgerAnswer{status: 202, echo: true}},
		{reason: fencerow.ReasonUnexpectedSuccess, answer: ledgerAnswer{status: 206, echo: true}},
		{reason: fencerow.ReasonRedirected, answer: ledgerAnswer{status: 307}},
		{reason: fencerow.ReasonBadRequest, answer: ledgerAnswer{status: 400}},
		{reason: fencerow.ReasonCredentialsRefused, answer: ledgerAnswer{status: 401}},
		{reason: fencerow.ReasonRequestRefused, answer: ledgerAnswer{status: 418}},
		{reason: fencerow.ReasonEndpointRefused, answer: ledgerAnswer{status: 404}},
		{reason: fencerow.ReasonRequestTimeout, answer: ledgerAnswer{status: 408}},
		{reason: fencerow.ReasonInFlight, answer: ledgerAnswer{status: 409}},
		{reason: fencerow.ReasonTooLarge, answer: ledgerAnswer{status: 413}},
		{reason: fencerow.ReasonMisdirected, answer: ledgerAnswer{status: 421}},
		{reason: fencerow.ReasonContentRefused, answer: ledgerAnswer{status: 422}},
		{reason: fencerow.ReasonNotReady, answer: ledgerAnswer{status: 425}},
		{reason: fencerow.ReasonThrottled, answer: ledgerAnswer{status: 429}},
		{reason: fencerow.ReasonRetryableStatus, answer: ledgerAnswer{status: 418},
			settings: map[string]string{"LEDGER_RETRYABLE_STATUS": "418"}},
		{reason: fencerow.ReasonLedgerError, answer: ledgerAnswer{status: 500}},
		{reason: fencerow.ReasonLedgerUnavailable, answer: ledgerAnswer{status: 503}},
		{reason: fencerow.ReasonStaleFencingToken, answer: ledgerAnswer{status: 409, kind: stale}},
		{reason: fencerow.ReasonDNSFailed, settings: address("https://" + string(account) + ".invalid/")},
		{reason: fencerow.ReasonConnectRefused,
			settings: address("http://" + closed.Addr().String() + "/" + string(account))},
		{reason: fencerow.ReasonUnreachable, settings: address("http://127.255.255.255/" + string(account))},
		{reason: fencerow.ReasonDialTimeout, settings: map[string]string{
			"LEDGER_URL": "https://" + deaf + "/" + string(account), "DELIVERY_TIMEOUT": "300ms"}},
		{reason: fencerow.ReasonTLSFailed, settings: address(newTLSLedger(t))},
		{reason: fencerow.ReasonAddressBlocked, settings: address("https://169.254.169.254/" + string(account))},
		{reason: fencerow.ReasonConnectionCut, answer: ledgerAnswer{status: 201, mode: "cut", body: "-"}},
		{reason: fencerow.ReasonDeliveryTimeout, answer: ledgerAnswer{mode: "hang"},
			settings: map[string]string{"DELIVERY_TIMEOUT": "300ms"}},
		{reason: fencerow.ReasonResolvedEqual, settings: readback,
			answer: ledgerAnswer{status: 409, readback: 200, echo: true, result: created}},
		{reason: fencerow.ReasonResolvedDifferent, settings: readback,
			answer: ledgerAnswer{status: 202, readback: 200}},
		{reason: fencerow.ReasonResolvedAbsent, settings: readback,
			answer: ledgerAnswer{status: 202, readback: 404}},
	}
}

// reasonIs matches a reason where it is named as one, marked as unverified or not.
func reasonIs(code string) string { return `reason"?[=:] ?"?` + code + `(_unverified)?\b` }

// ledgerScene drives each reason by the command, and by a daemon that is asked to; in text and in JSON.
func ledgerScene(t *testing.T) []row {
	w := newWorld(t)
	reasons := reasonRows(t)
	answers := map[string]ledgerAnswer{"completed": {status: 201, echo: true, result: created},
		"trailing": {mode: "trail"}}
	for _, r := range reasons {
		answers[string(r.reason)] = r.answer
	}
	address := newHostileLedger(t, answers)
	token := filepath.Join(t.TempDir(), string(account))
	check(t, os.WriteFile(token, []byte(ledgerToken), 0o600))
	w.settings["LEDGER_URL"], w.settings["LEDGER_TOKEN_FILE"] = address, token
	var asked *process
	t.Cleanup(w.end)
	begin := func(t testing.TB) {
		w.row(t)
		if asked == nil {
			asked = w.start(map[string]string{"LEDGER_INTERVAL_SEC": "3600", "LOG_FORMAT": "json"})
		}
	}
	rows := []row{{name: "completed", codes: []string{"snapshot_rejected"}, drive: func(t testing.TB) *world {
		begin(t)
		w.processed(asked, "completed", nil)
		return w
	}}, {name: "trailing", shown: []string{"completed"}, drive: func(t testing.TB) *world {
		begin(t)
		for i := range 5 { // the bytes are met while the connection is idle, or with the next request
			w.processed(asked, fmt.Sprintf("trailing.%d", i), nil)
		}
		return w
	}}}
	for _, r := range reasons {
		shown := r.shownAs
		if shown == "" {
			shown = string(r.reason)
		}
		name := string(r.reason)
		rows = append(rows, row{name: name, codes: []string{name}, shown: []string{reasonIs(shown)},
			drive: func(t testing.TB) *world {
				begin(t)
				settings := r.settings
				if settings["LEDGER_READBACK_URL"] != "" {
					settings = map[string]string{"LEDGER_READBACK_URL": address}
				}
				for range max(r.times, 1) {
					w.processed(asked, string(r.reason), settings)
				}
				return w
			}})
	}
	return append(rows, tokenRows(w, token, begin)...)
}

// processed has three entries of a kind processed: by the command with a log of text and of JSON, and by the
// daemon, unless the settings are the command's own; and looks at them in every view.
func (w *world) processed(asked *process, kind string, settings map[string]string) {
	w.t.Helper()
	w.enqueue(kind+".text", kind+".json", kind+".daemon")
	text, json := map[string]string{"LOG_FORMAT": "text"}, map[string]string{"LOG_FORMAT": "json"}
	for name, value := range settings {
		text[name], json[name] = value, value
	}
	w.run(text, "process", "--force-due", kind+".text")
	w.run(json, "process", "--force-due", "--json", kind+".json")
	if settings == nil {
		w.run(nil, "process", "--force-due", "--json", "--ops-url", asked.opsURL(), kind+".daemon")
	}
	w.runWith("fencerow", nil, nil, []secret{reference}, "show", kind+".text")
}

// tokenRows are about the file that holds the ledger's token, and about stopping amid a delivery. They have
// daemons and instances of their own.
func tokenRows(w *world, token string, begin func(testing.TB)) []row {
	const unreadable = string(fencerow.ReasonCredentialsUnreadable)
	on := func(instance string, do func()) func(testing.TB) *world {
		return func(t testing.TB) *world {
			begin(t)
			w.as(instance, do)
			return w
		}
	}
	return []row{
		{name: unreadable, codes: []string{unreadable}, shown: []string{reasonIs(unreadable)},
			drive: on("desk-2", func() {
				other := token + ".other"
				check(w.t, os.WriteFile(other, []byte(ledgerToken), 0o600))
				check(w.t, os.Chmod(other, 0o604))
				d := w.start(map[string]string{"LEDGER_TOKEN_FILE": other, "LEDGER_INTERVAL_SEC": "0.05"})
				d.await("token_file_readable_by_others")
				check(w.t, os.WriteFile(other, []byte(hostile(ledgerToken)), 0o600))
				w.enqueue("credentials_refused.file") // has the file read again
				d.await("reason=" + unreadable)
				d.stop()
				check(w.t, os.Remove(other))
				gone := map[string]string{"LEDGER_TOKEN_FILE": other}
				if status := w.run(gone, "process", "completed.x"); status != 80 {
					w.t.Errorf("a token file that is not there: status %d", status)
				}
			})},
		{name: "delivery_stopped", codes: []string{"delivery_stopped"}, shown: []string{"stopped"},
			drive: on("desk-3", func() {
				w.enqueue("delivery_timeout.stopped")
				d := w.start(map[string]string{"LEDGER_INTERVAL_SEC": "0.05", "GRACE": "400ms"})
				d.await("batch claimed")
				d.stop()
			})},
	}
}
