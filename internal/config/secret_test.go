package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/daemon"
	"github.com/fourblocks2020/fencerow/internal/ledger"
	"github.com/fourblocks2020/fencerow/internal/pgstore"
)

const webhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// Everything that is built from a secret, and everything that holds one on the way, printed in every form.
func TestNothingThatHoldsASecretShowsIt(t *testing.T) {
	const dsn = "postgres://u:" + sentinel + "@127.0.0.1:1/db"
	tokenPath := file(t, "token-"+sentinel)
	line, err := parse(t, map[string]string{
		"FENCEROW_DSN": dsn, "FENCEROW_ALERT_WEBHOOK_URL": "http://127.0.0.1:1/" + sentinel,
	}, "--instance-key=a",
		"--ledger-url=http://127.0.0.1:1/", "--ledger-token-file="+tokenPath, "--ops-token-file="+tokenPath,
		"--alert-webhook-secret-file="+file(t, webhookSecret))
	check(t, err)
	secret, err := line.Database.DSN()
	check(t, err)
	store, err := line.Database.Open("test")
	check(t, err)
	t.Cleanup(store.Close)
	adapter, err := line.Ledger.Open(1)
	check(t, err)
	t.Cleanup(adapter.Close)
	sender, err := line.Alerts.Webhook()
	check(t, err)
	ops := OpsClient{OpsURL: "http://127.0.0.1:1", OpsTokenFile: tokenPath}
	client, err := ops.Open()
	check(t, err)
	for _, held := range []any{
		line, *line, secret, pgstore.Config{DSN: secret}, &pgstore.Config{DSN: secret}, store, ops, client, *client,
		ledger.Config{TokenFile: tokenPath}, adapter, *adapter, []*ledger.HTTP{adapter},
		daemon.Config{OpsTokenFile: tokenPath}, line.Alerts, sender, line.Alerts.Alerting(sender),
		struct {
			hidden fencerow.Secret
			store  *pgstore.Store
		}{secret, store},
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X"} {
			got := fmt.Sprintf(verb, held)
			if strings.Contains(got, sentinel) || strings.Contains(strings.ToLower(got), fmt.Sprintf("%x", sentinel)) {
				t.Errorf("%s of a %T shows it: %s", verb, held, got)
			}
		}
		var log bytes.Buffer
		for _, h := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
			record := slog.Record{}
			record.Add("held", held)
			check(t, h.Handle(t.Context(), record))
		}
		text, err := json.Marshal(held) // some hold functions and cannot be rendered
		if strings.Contains(fmt.Sprint(log.String(), string(text), err), sentinel) {
			t.Errorf("a log or JSON of a %T shows it", held)
		}
	}
}
