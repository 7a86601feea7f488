package config

import (
	"time"

	"github.com/fourblocks2020/fencerow/internal/ledger"
	"github.com/fourblocks2020/fencerow/internal/version"
)

// Ledger says where the ledger is and how it speaks.
//
//nolint:lll // a struct tag cannot be wrapped
type Ledger struct {
	URL                 string        `name:"ledger-url" env:"FENCEROW_LEDGER_URL" placeholder:"URL" group:"Ledger" help:"Where entries are posted: https, or http on this machine. Required."`
	TokenFile           string        `name:"ledger-token-file" env:"FENCEROW_LEDGER_TOKEN_FILE" placeholder:"FILE" group:"Ledger" help:"File that holds the ledger's token. It is read again when it changes, and when the ledger refuses the token."`
	TokenHeader         string        `name:"ledger-token-header" env:"FENCEROW_LEDGER_TOKEN_HEADER" default:"Authorization" group:"Ledger" help:"Header that carries the token."`
	TokenScheme         string        `name:"ledger-token-scheme" env:"FENCEROW_LEDGER_TOKEN_SCHEME" placeholder:"SCHEME" group:"Ledger" help:"Scheme before the token; - for none. The default is Bearer in Authorization, and none in another header."`
	CAFile              string        `name:"ledger-ca-file" env:"FENCEROW_LEDGER_CA_FILE" placeholder:"FILE" group:"Ledger" help:"PEM certificates to trust instead of the system's."`
	CertFile            string        `name:"ledger-cert-file" env:"FENCEROW_LEDGER_CERT_FILE" placeholder:"FILE" group:"Ledger" help:"PEM client certificate."`
	KeyFile             string        `name:"ledger-key-file" env:"FENCEROW_LEDGER_KEY_FILE" placeholder:"FILE" group:"Ledger" help:"PEM key of the client certificate."`
	ReadbackURL         string        `name:"ledger-readback-url" env:"FENCEROW_LEDGER_READBACK_URL" placeholder:"URL" group:"Ledger" help:"Where an entry is read back: GET URL/KEY, its idempotency key. Without it, what may or may not have been booked is parked as unverified."`
	RequireEcho         bool          `name:"ledger-require-echo" env:"FENCEROW_LEDGER_REQUIRE_ECHO" group:"Ledger" help:"Accept a success only if its body repeats the correlation id and the content digest."`
	QuoteKey            bool          `name:"ledger-quote-key" env:"FENCEROW_LEDGER_QUOTE_KEY" group:"Ledger" help:"Send the idempotency key in quotes, as an RFC 8941 string."`
	AcceptedIsDuplicate bool          `name:"ledger-accepted-is-duplicate" env:"FENCEROW_LEDGER_ACCEPTED_IS_DUPLICATE" group:"Ledger" help:"Read status 202 as booked before."`
	RetryableStatus     []int         `name:"ledger-retryable-status" env:"FENCEROW_LEDGER_RETRYABLE_STATUS" placeholder:"STATUS" group:"Ledger" help:"Statuses from 400 to 499 to retry although they would be permanent."`
	AllowInsecure       bool          `name:"ledger-allow-insecure" env:"FENCEROW_LEDGER_ALLOW_INSECURE" group:"Ledger" help:"Allow plain http to a ledger on another machine."`
	DialTimeout         time.Duration `name:"ledger-dial-timeout" env:"FENCEROW_LEDGER_DIAL_TIMEOUT" default:"5s" group:"Ledger" help:"Bound of connecting, and separately of the TLS handshake."`
}

// Open makes the adapter and reads the files that are named; nothing is sent. Connections are kept for reuse
// for as many deliveries at once, up to what the adapter can keep. The error is an [*fencerow.InputError].
// The caller closes the adapter.
func (l *Ledger) Open(deliveries int) (*ledger.HTTP, error) {
	dialTimeout := l.DialTimeout
	outOfBounds(&dialTimeout) // The adapter would take its default for a zero.
	adapter, err := ledger.New(ledger.Config{
		URL: l.URL, ReadbackURL: l.ReadbackURL, AllowInsecure: l.AllowInsecure,
		TokenFile: l.TokenFile, TokenHeader: l.TokenHeader, TokenScheme: l.TokenScheme,
		QuoteKey: l.QuoteKey, RequireEcho: l.RequireEcho, AcceptedIsDuplicate: l.AcceptedIsDuplicate,
		RetryableStatus: l.RetryableStatus,
		CAFile:          l.CAFile, CertFile: l.CertFile, KeyFile: l.KeyFile,
		DialTimeout: dialTimeout, Concurrency: min(deliveries, ledger.MaxConcurrency), Version: version.String(),
	})
	return adapter, asFlag(err)
}
