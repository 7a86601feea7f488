package badinput

// rules says for each setting which values are legal in an otherwise good call, by its variable without the
// prefix or, for an argument, by its command and name. Where a command has a rule of its own its name stands
// before the variable.
var rules = map[string]rule{
	"JSON":         yesNo,
	"INSTANCE_KEY": graphic(128),

	"DSN":           matching(`[a-z]+=.*`), // of these values: what may be a list of parameters for the server
	"DSN_FILE":      nothing,
	"DB_MAX_CONNS":  whole("1", "1000"),
	"STORE_TIMEOUT": duration("0.1", "60"),

	"LEDGER_URL":                   nothing,
	"LEDGER_READBACK_URL":          optional(nothing),
	"LEDGER_TOKEN_FILE":            optional(nothing),
	"LEDGER_CA_FILE":               optional(nothing),
	"LEDGER_CERT_FILE":             optional(nothing),
	"LEDGER_KEY_FILE":              optional(nothing),
	"LEDGER_TOKEN_HEADER":          optional(headerName),
	"LEDGER_TOKEN_SCHEME":          optional(headerName),
	"LEDGER_REQUIRE_ECHO":          yesNo,
	"LEDGER_QUOTE_KEY":             yesNo,
	"LEDGER_ACCEPTED_IS_DUPLICATE": yesNo,
	"LEDGER_ALLOW_INSECURE":        yesNo,
	"LEDGER_RETRYABLE_STATUS":      optional(listOf(whole("400", "499"))),
	"LEDGER_DIAL_TIMEOUT":          duration("0.001", "3600"),

	"WORKER":      optional(graphic(128)),
	"BATCH_LIMIT": whole("1", "1000"),
	"BUDGET": func(text string) bool {
		return whole("0", "0")(text) || whole("100", "1600")(text)
	},
	// The default delivery timeout, 10 s, has to fit: a tenth of the lease is for the margin, and a tenth to
	// start in.
	"LEASE":              duration("12.5", "3600"),
	"DELIVERY_TIMEOUT":   duration("0.001", "24"),
	"CONCURRENCY":        whole("1", "1024"),
	"WRITERS":            whole("1", "16"),
	"MAX_ATTEMPTS":       whole("1", "1000"),
	"IN_FLIGHT_ATTEMPTS": whole("1", "1000"),
	"BACKOFF_BASE":       duration("0.001", "600"),
	"BACKOFF_CAP":        duration("1", "86400"),
	"GRACE":              duration("0.001", "3600"),

	"LEDGER_INTERVAL_SEC": number("0.01", "3600"),
	"OPS_LISTEN":          nothing,
	"OPS_TOKEN_FILE":      optional(nothing),
	"OPS_URL":             optional(nothing),

	"LOG_FORMAT": word("text", "json"),
	"LOG_LEVEL":  word("debug", "info", "warn", "error"),

	"NATS_URL":        optional(nothing),
	"NATS_CREDS_FILE": optional(nothing),
	"NATS_TOKEN_FILE": optional(nothing),
	"NATS_CA_FILE":    optional(nothing),
	"NATS_CERT_FILE":  optional(nothing),
	"NATS_KEY_FILE":   optional(nothing),

	"ALERT_HELD_AFTER":             duration("0.1", "86400"),
	"ALERT_WINDOW":                 duration("0.1", "86400"),
	"ALERT_WEBHOOK_URL":            nothing, // a secret is given
	"ALERT_WEBHOOK_URL_FILE":       nothing, // a secret is given
	"ALERT_WEBHOOK_SECRET_FILE":    nothing, // an address is given
	"ALERT_WEBHOOK_ALLOW_INSECURE": yesNo,

	"BACKFILL_LIMIT":   whole("0", maxInt64),
	"BLOCKED_AFTER":    optional(whole("1", maxInt64)),
	"BLOCKED_LIMIT":    whole("1", "10000"),
	"BLOCKED_STATUS":   optional(blockedStatus),
	"CASH_DELTA_SLOT":  optional(graphic(128)),
	"FORCE_DUE":        yesNo,
	"LEGACY_OUTBOX_ID": whole("1", maxInt64),
	"MIGRATE_TO":       whole("0", "10"), // of these values: those that are versions
	"PENDING_AFTER":    optional(nothing),
	"PENDING_LIMIT":    whole("1", "10000"),
	"PRUNE_LIMIT":      whole("0", maxInt64),
	"PRUNE_OLDER_THAN": age,
	"REQUEUE_FROM":     blockedStatus,
	"SLOT_STRATEGY":    matching(`[!-~]([ -~]{0,126}[!-~])?`),
	"SPY":              yesNo,
	"WITH_PAYLOAD":     yesNo,

	"DEV_LEDGER_LISTEN": nothing,
	"DEV_OPS_LISTEN":    nothing,
	"DEV_LOG":           yesNo,
	"DEV_ONCE":          yesNo,
	"DEV_USE_DSN":       yesNo,

	"ENQUEUE_CASH_DELTA":     amount,
	"ENQUEUE_CORRELATION_ID": graphic(200),
	"ENQUEUE_CURRENCY":       matching(`[A-Z0-9]{3,12}`), // an amount is given
	"ENQUEUE_ENTRY_KIND":     matching(`[a-z][a-z0-9_]{0,62}`),
	"ENQUEUE_PAYLOAD":        object,
	"ENQUEUE_PAYLOAD_FILE":   word("-"), // standard input
	"ENQUEUE_SKIP":           yesNo,
	"ENQUEUE_SLOT_ID":        graphic(128),
	"ENQUEUE_TRACEPARENT":    nothing,

	"slots OPS_URL":  nothing, // no other way to ask is given
	"slots NATS_URL": nothing, // no other way to ask is given

	// A device is read as it comes, as a pipe is: what is wrong with it is found when it is read.
	"enqueue <file>": word("-", "/dev/null", "/dev/zero", "/dev/full"),

	"legacy export <id>":    anything,
	"migrate walls <state>": word("up", "down"),
	"process <id>":          graphic(200),
	"requeue <id>":          graphic(200),
	"show <id>":             graphic(200),
	"slot <id>":             graphic(128),
}

const maxInt64 = "9223372036854775807"

var (
	headerName    = matching("[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
	blockedStatus = word("conflict_blocked", "permanent_failure", "dead_lettered")
)
