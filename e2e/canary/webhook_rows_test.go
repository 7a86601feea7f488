package canary

import (
	"encoding/base64"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fourblocks2020/fencerow/internal/observe"
)

// newReceiver is a hostile receiver of alerts. Its address holds a credential.
func newReceiver(t testing.TB, answer ledgerAnswer) (l *hostileLedger, address string) {
	t.Helper()
	l = &hostileLedger{answers: map[string]ledgerAnswer{"": answer}, conns: map[net.Conn]struct{}{}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	l.serve(t, listener)
	return l, "http://" + listener.Addr().String() + "/" + url.PathEscape(printable(credential))
}

// webhookWorld is a world with an entry that the ledger refuses each time a row enqueues one, and a file that
// holds the secret by which alerts are signed.
func webhookWorld(t *testing.T) (w *world, alerted func(settings map[string]string) *process) {
	w = newWorld(t)
	t.Cleanup(w.end)
	w.settings["LEDGER_URL"] = newHostileLedger(t, map[string]ledgerAnswer{"refused": {status: 422}})
	w.settings["LEDGER_INTERVAL_SEC"], w.settings["ALERT_WINDOW"] = "0.05", "100ms"
	secret := filepath.Join(t.TempDir(), string(account))
	check(t, os.WriteFile(secret, []byte("whsec_"+
		base64.StdEncoding.EncodeToString([]byte(webhookSecret+"..........."))), 0o600))
	w.settings["ALERT_WEBHOOK_SECRET_FILE"] = secret
	entries := 0
	return w, func(settings map[string]string) *process {
		entries++
		w.enqueue("refused." + strings.Repeat("x", entries))
		return w.start(settings)
	}
}

func webhookScene(t *testing.T) []row {
	w, alerted := webhookWorld(t)
	const unreadable = string(observe.WebhookSecretUnreadable)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	check(t, closed.Close())
	failure := func(why observe.WebhookFailure, address func(t testing.TB) string) row {
		return row{name: string(why), codes: []string{string(why)}, shown: []string{reasonIs(string(why))},
			drive: func(t testing.TB) *world {
				w.row(t)
				for _, format := range []string{"text", "json"} {
					d := alerted(map[string]string{"ALERT_WEBHOOK_URL": address(t), "LOG_FORMAT": format})
					d.await(string(why))
					d.stop()
				}
				return w
			}}
	}
	answering := func(status int) func(testing.TB) string {
		return func(t testing.TB) string {
			_, address := newReceiver(t, ledgerAnswer{status: status})
			return address
		}
	}
	return []row{
		{name: "told", shown: []string{"alert.entry_blocked"}, drive: func(t testing.TB) *world {
			w.row(t)
			receiver, address := newReceiver(t, ledgerAnswer{status: 200})
			d := alerted(map[string]string{"ALERT_WEBHOOK_URL": address})
			until(t, "an alert at its receiver", func() bool { return len(receiver.requests()) > 0 })
			d.stop()
			for _, request := range receiver.requests() {
				w.see("an alert", request)
			}
			return w
		}},
		{name: unreadable, codes: []string{unreadable}, drive: func(t testing.TB) *world {
			w.row(t)
			content, err := os.ReadFile(w.settings["ALERT_WEBHOOK_SECRET_FILE"])
			check(t, err)
			file := filepath.Join(t.TempDir(), "secret")
			check(t, os.WriteFile(file, content, 0o600))
			_, address := newReceiver(t, ledgerAnswer{status: 200})
			d := w.start(map[string]string{"ALERT_WEBHOOK_URL": address, "ALERT_WEBHOOK_SECRET_FILE": file})
			d.opsURL()
			check(t, os.WriteFile(file, []byte("whsec_"+string(webhookSecret)+" "+hostile(webhookSecret)), 0o600))
			w.enqueue("refused.unreadable")
			d.await(unreadable)
			d.stop()
			w.runWith("fencerowd", map[string]string{"ALERT_WEBHOOK_URL": address, "ALERT_WEBHOOK_SECRET_FILE": file},
				nil, nil)
			return w
		}},
		failure(observe.WebhookUnreachable, func(testing.TB) string {
			return "http://" + closed.Addr().String() + "/" + string(credential)
		}),
		failure(observe.WebhookTLSFailed, newTLSLedger),
		failure(observe.WebhookRedirected, answering(307)),
		failure(observe.WebhookRefused, answering(401)),
		failure(observe.WebhookRejected, answering(400)),
		failure(observe.WebhookGone, answering(410)),
		failure(observe.WebhookUnavailable, answering(503)),
	}
}

// slowWebhookScene takes longer than the others: an attempt has ten seconds.
func slowWebhookScene(t *testing.T) []row {
	w, alerted := webhookWorld(t)
	address := "http://" + newDeafServer(t) + "/" + string(credential)
	return []row{{name: "webhook_timeout", codes: []string{"webhook_timeout"}, drive: func(t testing.TB) *world {
		w.row(t)
		d := alerted(map[string]string{"ALERT_WEBHOOK_URL": address})
		d.await("webhook_timeout")
		d.stop()
		return w
	}}}
}
