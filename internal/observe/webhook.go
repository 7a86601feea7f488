package observe

import "log/slog"

// WebhookFailure says why an alert did not reach the webhook's receiver. The vocabulary is closed.
type WebhookFailure string

// The webhook failures.
const (
	// WebhookSecretUnreadable: the file of the signing secret cannot be read, or holds none. Nothing is sent.
	WebhookSecretUnreadable WebhookFailure = "webhook_secret_unreadable"
	// WebhookUnreachable: the receiver's name does not resolve, or no connection was made or kept.
	WebhookUnreachable WebhookFailure = "webhook_unreachable"
	// WebhookAddressBlocked: plain http, and the name leads to another machine.
	WebhookAddressBlocked WebhookFailure = "webhook_address_blocked"
	// WebhookTLSFailed: the handshake failed.
	WebhookTLSFailed WebhookFailure = "webhook_tls_failed"
	// WebhookTimeout: no answer in time.
	WebhookTimeout WebhookFailure = "webhook_timeout"
	// WebhookRedirected: an answer with a status from 300 to 399, which is not followed.
	WebhookRedirected WebhookFailure = "webhook_redirected"
	// WebhookRefused: an answer with status 401 or 403, or below 200.
	WebhookRefused WebhookFailure = "webhook_refused"
	// WebhookRejected: an answer with a status from 400 to 499 that stands for none of the others. The same
	// request would get it again: the alert is given up at once.
	WebhookRejected WebhookFailure = "webhook_rejected"
	// WebhookGone: an answer with status 410, by which a receiver asks for nothing more to be sent. Nothing is,
	// until the daemon is started again.
	WebhookGone WebhookFailure = "webhook_gone"
	// WebhookUnavailable: an answer with status 408, 425, 429 or from 500 on.
	WebhookUnavailable WebhookFailure = "webhook_unavailable"
)

// WebhookFailed logs that alerts do not reach the webhook's receiver, and why. To be called on the change
// only.
func (o *Observer) WebhookFailed(why WebhookFailure) {
	o.write(slog.LevelWarn, "webhook failed", slog.String(keyReason, safe(why)))
}

// WebhookRestored logs that an alert reached the receiver again.
func (o *Observer) WebhookRestored() { o.write(slog.LevelInfo, "webhook restored") }

// AlertsDropped logs how many alerts were not sent to the webhook since the start: they found no room in its
// queue, or were given up. The log has them.
func (o *Observer) AlertsDropped(total int64) {
	o.write(slog.LevelWarn, "alerts dropped", slog.Int64(keyCount, total))
}
