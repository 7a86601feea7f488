package config

import (
	"errors"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/observe"
	"github.com/fourblocks2020/fencerow/internal/version"
	"github.com/fourblocks2020/fencerow/internal/webhook"
)

// AlertURLVariable names the variable that holds the webhook's address.
const AlertURLVariable = variablePrefix + "ALERT_WEBHOOK_URL"

// Alerts says when alerts are told, and to whom beside the log. The webhook's address counts as a secret:
// receivers tend to put one into its path.
//
//nolint:lll // a struct tag cannot be wrapped
type Alerts struct {
	HeldAfter     time.Duration `name:"alert-held-after" env:"FENCEROW_ALERT_HELD_AFTER" default:"1m" group:"Alerts" help:"How long the ledger must be held before that is an alert, 100ms to 24h."`
	Window        time.Duration `name:"alert-window" env:"FENCEROW_ALERT_WINDOW" default:"5m" group:"Alerts" help:"How long alerts of a cause that was told are counted before they are told as one, 100ms to 24h."`
	URLFile       string        `name:"alert-webhook-url-file" env:"FENCEROW_ALERT_WEBHOOK_URL_FILE" placeholder:"FILE" group:"Alerts" help:"File that holds the address to which alerts are posted beside the log: https, or http on this machine. Without it the variable FENCEROW_ALERT_WEBHOOK_URL may hold the address; there is no flag for it."`
	SecretFile    string        `name:"alert-webhook-secret-file" env:"FENCEROW_ALERT_WEBHOOK_SECRET_FILE" placeholder:"FILE" group:"Alerts" help:"File that holds the secret by which alerts are signed: whsec_ and 24 to 64 bytes in base64. Required with a URL; read for each request."`
	AllowInsecure bool          `name:"alert-webhook-allow-insecure" env:"FENCEROW_ALERT_WEBHOOK_ALLOW_INSECURE" group:"Alerts" help:"Allow plain http to a receiver on another machine."`
}

// Validate refuses times out of bounds, and a webhook that cannot work.
func (a *Alerts) Validate() error {
	switch {
	case !withinAlertBounds(a.HeldAfter):
		return inputError("alert_held_after", "must be from 100ms to 24h")
	case !withinAlertBounds(a.Window):
		return inputError("alert_window", "must be from 100ms to 24h")
	}
	sender, err := a.Webhook()
	if err == nil && sender == nil && a.SecretFile != "" {
		return &fencerow.InputError{Field: AlertURLVariable, Problem: "is missing, and so is the file " +
			"--alert-webhook-url-file (" + AlertURLVariable + "_FILE), although a secret file is given"}
	}
	return err
}

func withinAlertBounds(d time.Duration) bool {
	return d >= observe.MinAlertTime && d <= observe.MaxAlertTime
}

// Webhook returns a sender to the webhook, or nil if there is none. Nothing is sent before it is started. The
// error is an [*fencerow.InputError].
func (a *Alerts) Webhook() (*webhook.Sender, error) {
	address, err := readUnlistable(AlertURLVariable, "alert_webhook_url_file", a.URLFile)
	if err != nil || address.IsZero() {
		return nil, err
	}
	sender, err := webhook.New(webhook.Config{
		URL: address, SecretFile: a.SecretFile, AllowInsecure: a.AllowInsecure, Version: version.String(),
	})
	if input, ok := errors.AsType[*fencerow.InputError](err); ok && input.Field == webhook.URLField {
		if a.URLFile != "" {
			return nil, inputError("alert_webhook_url_file", "holds an address that "+input.Problem)
		}
		return nil, &fencerow.InputError{Field: AlertURLVariable, Problem: input.Problem}
	}
	return sender, asFlag(err)
}

// Alerting returns what these settings say of an observer's alerts; sender may be nil.
func (a *Alerts) Alerting(sender *webhook.Sender) observe.Alerting {
	alerting := observe.Alerting{HeldAfter: a.HeldAfter, Window: a.Window}
	if sender != nil {
		alerting.Sink = sender
	}
	return alerting
}
