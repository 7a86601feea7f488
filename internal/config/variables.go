package config

import (
	"regexp"
	"slices"
	"strings"
)

// variables are the names, without their prefix, of what fencerow and fencerowd read. Both are often given
// one file of settings, so that neither takes the other's for misspelt.
var variables = strings.Fields(`
	ALERT_HELD_AFTER ALERT_WEBHOOK_ALLOW_INSECURE ALERT_WEBHOOK_SECRET_FILE ALERT_WEBHOOK_URL
	ALERT_WEBHOOK_URL_FILE ALERT_WINDOW BACKFILL_LIMIT BACKOFF_BASE BACKOFF_CAP BATCH_LIMIT BLOCKED_AFTER
	BLOCKED_LIMIT BLOCKED_STATUS BUDGET CASH_DELTA_SLOT CONCURRENCY DB_MAX_CONNS DELIVERY_TIMEOUT
	DEV_LEDGER_LISTEN DEV_LOG DEV_ONCE DEV_OPS_LISTEN DEV_USE_DSN DSN DSN_FILE ENQUEUE_CASH_DELTA
	ENQUEUE_CORRELATION_ID ENQUEUE_CURRENCY ENQUEUE_ENTRY_KIND ENQUEUE_PAYLOAD ENQUEUE_PAYLOAD_FILE ENQUEUE_SKIP
	ENQUEUE_SLOT_ID ENQUEUE_TRACEPARENT FORCE_DUE GRACE INSTANCE_KEY IN_FLIGHT_ATTEMPTS JSON LEASE
	LEDGER_ACCEPTED_IS_DUPLICATE LEDGER_ALLOW_INSECURE LEDGER_CA_FILE LEDGER_CERT_FILE LEDGER_DIAL_TIMEOUT
	LEDGER_INTERVAL_SEC LEDGER_KEY_FILE LEDGER_QUOTE_KEY LEDGER_READBACK_URL LEDGER_REQUIRE_ECHO
	LEDGER_RETRYABLE_STATUS LEDGER_TOKEN_FILE LEDGER_TOKEN_HEADER LEDGER_TOKEN_SCHEME LEDGER_URL
	LEGACY_OUTBOX_ID LOG_FORMAT LOG_LEVEL MAX_ATTEMPTS MIGRATE_TO NATS_CA_FILE NATS_CERT_FILE NATS_CREDS_FILE
	NATS_KEY_FILE NATS_TOKEN_FILE NATS_URL OPS_LISTEN OPS_TOKEN_FILE OPS_URL PENDING_AFTER PENDING_LIMIT
	PRUNE_LIMIT PRUNE_OLDER_THAN REQUEUE_FROM SLOT_STRATEGY SPY STORE_TIMEOUT WITH_PAYLOAD WORKER WRITERS`)

// nameOfVariable is what can be shown of a name: a secret may have been pasted in the wrong place.
var nameOfVariable = regexp.MustCompile(`^` + variablePrefix + `[A-Z][A-Z0-9_]{0,40}$`)

// Warnings says of each variable of the environment that looks like a setting and is none that it is ignored:
// it is most likely misspelt. Values are never repeated.
func Warnings(environment []string) []string {
	var warnings []string
	for _, pair := range environment {
		name, _, _ := strings.Cut(pair, "=")
		bare, ours := strings.CutPrefix(name, variablePrefix)
		if !ours || slices.Contains(variables, bare) {
			continue
		}
		if !nameOfVariable.MatchString(name) {
			name = "a variable that begins with " + variablePrefix
		}
		warnings = append(warnings, name+" is no setting and is ignored")
	}
	slices.Sort(warnings)
	return slices.Compact(warnings)
}
