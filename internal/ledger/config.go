package ledger

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/loopback"
)

// Defaults and bounds of a [Config].
const (
	DefaultDialTimeout = 5 * time.Second
	DefaultConcurrency = 16
	MaxConcurrency     = 4096
	// NoScheme as Config.TokenScheme sends the token alone.
	NoScheme = "-"

	MinDialTimeout = time.Millisecond
	MaxDialTimeout = time.Hour

	defaultTokenHeader = "Authorization"

	maxURL = 2048
	// maxToken bounds the name of the token's header, and its scheme, in bytes.
	maxToken = 128
)

// Config says where the ledger is and how it speaks. Everything in it comes from the operator.
type Config struct {
	// URL receives one POST for each attempt. It is https, except to loopback or with AllowInsecure; it has no
	// user info, no query and no fragment.
	URL string
	// ReadbackURL, if set, makes [HTTP.Resolve] possible: GET <ReadbackURL>/<path-escaped idempotency key>. The
	// rules are those of URL.
	ReadbackURL string
	// AllowInsecure allows plain http to hosts other than loopback.
	AllowInsecure bool

	// TokenFile holds the bearer token; empty sends none. It is read again when it changes (within a second) and
	// after the ledger refused the token. White space around the token is ignored.
	TokenFile string
	// TokenHeader defaults to Authorization.
	TokenHeader string
	// TokenScheme stands before the token. It defaults to Bearer for Authorization and to [NoScheme] for other
	// headers.
	TokenScheme string

	// QuoteKey sends the idempotency key as an RFC 8941 string, in quotes.
	QuoteKey bool
	// RequireEcho accepts a success only if its body repeats the correlation id and the content digest.
	RequireEcho bool
	// AcceptedIsDuplicate reads 202 as "booked before", as QLedger means it; otherwise 202 is not a booking.
	AcceptedIsDuplicate bool
	// RetryableStatus lists statuses from 400 to 499 to be retried although they would be permanent.
	RetryableStatus []int

	// CAFile holds PEM certificates that replace the system's roots.
	CAFile string
	// CertFile and KeyFile hold the client certificate, both or neither. They are read at start.
	CertFile, KeyFile string

	// DialTimeout bounds the connecting, and separately the TLS handshake: from [MinDialTimeout] to
	// [MaxDialTimeout]. Zero means [DefaultDialTimeout].
	DialTimeout time.Duration
	// Concurrency is how many connections to a host are kept for reuse. Zero means [DefaultConcurrency].
	Concurrency int
	// Version goes into the User-Agent. Empty means dev.
	Version string
}

func inputError(field, problem string) error {
	return &fencerow.InputError{Field: field, Problem: problem}
}

// checked returns c with its defaults filled in, or an [*fencerow.InputError].
func (c Config) checked() (Config, error) {
	c.DialTimeout = orDefault(c.DialTimeout, DefaultDialTimeout)
	c.Concurrency = orDefault(c.Concurrency, DefaultConcurrency)
	c.Version = orDefault(c.Version, "dev")
	c.TokenHeader = orDefault(c.TokenHeader, defaultTokenHeader)
	usualHeader, usualScheme := strings.EqualFold(c.TokenHeader, defaultTokenHeader), NoScheme
	if usualHeader {
		usualScheme = "Bearer"
	}
	c.TokenScheme = orDefault(c.TokenScheme, usualScheme)
	secure := strings.HasPrefix(c.URL, "https://") || strings.HasPrefix(c.ReadbackURL, "https://")
	switch {
	case c.DialTimeout < MinDialTimeout || c.DialTimeout > MaxDialTimeout:
		return c, inputError("ledger_dial_timeout", "must be from 1ms to 1h")
	case c.Concurrency < 0 || c.Concurrency > MaxConcurrency:
		return c, inputError("concurrency", fmt.Sprintf("must be 1 to %d", MaxConcurrency))
	case !isToken(c.Version):
		return c, inputError("version", "must be letters, digits and .-+_ only")
	case !isToken(c.TokenHeader) || reservedHeader(c.TokenHeader):
		return c, inputError("ledger_token_header",
			"is not the name of a header in which a token can be sent, such as Authorization")
	case !isToken(c.TokenScheme):
		return c, inputError("ledger_token_scheme", "is not an authentication scheme such as Bearer")
	case c.TokenFile == "" && !usualHeader:
		return c, inputError("ledger_token_header", "is given, and no token file is: no token would be sent")
	case c.TokenFile == "" && c.TokenScheme != usualScheme:
		return c, inputError("ledger_token_scheme", "is given, and no token file is: no token would be sent")
	case c.CertFile != "" && c.KeyFile == "":
		return c, inputError("ledger_cert_file", "needs the key of the certificate, as another file")
	case c.CertFile == "" && c.KeyFile != "":
		return c, inputError("ledger_key_file", "needs the certificate of the key, as another file")
	case c.CertFile != "" && !secure:
		return c, inputError("ledger_cert_file", "needs a ledger URL of https")
	case c.CAFile != "" && !secure:
		return c, inputError("ledger_ca_file", "needs a ledger URL of https")
	}
	for _, status := range c.RetryableStatus {
		if status < 400 || status > 499 {
			return c, inputError("ledger_retryable_status", "must list statuses from 400 to 499")
		}
	}
	return c, nil
}

func orDefault[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

// parseURL checks an address from the configuration. Its value is not repeated: it may hold a secret by
// mistake.
func parseURL(field, s string, allowInsecure bool) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case s == "":
		return nil, inputError(field, "is missing; give an address such as https://ledger.example/entries")
	case len(s) > maxURL:
		return nil, inputError(field, fmt.Sprintf("is longer than %d characters", maxURL))
	case err != nil || u.Opaque != "":
		return nil, inputError(field, "is not a URL")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, inputError(field, "must begin with https:// (or http:// for a ledger on this machine)")
	case u.User != nil:
		return nil, inputError(field, "must not hold a user or password; give a token file")
	case u.Fragment != "" || strings.Contains(s, "#"):
		return nil, inputError(field, "must not have a fragment (#)")
	case u.RawQuery != "" || u.ForceQuery:
		return nil, inputError(field, "must not have a query (?); a token belongs in a token file")
	case u.Hostname() == "" || strings.HasSuffix(u.Host, ":"):
		return nil, inputError(field, "has no host, or an empty port")
	case u.Scheme == "http" && !allowInsecure && !loopback.Names(u.Hostname()):
		return nil, inputError(field, "must use https for a ledger on another machine, or allow insecure delivery")
	}
	if port := u.Port(); port != "" {
		if number, err := net.LookupPort("tcp", port); err != nil || number == 0 {
			return nil, inputError(field, "has a port that is not a number from 1 to 65535")
		}
	}
	return u, nil
}

// isToken reports whether s is a token of RFC 9110 section 5.6.2, and none that would fill a header.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		alnum := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !alnum && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != "" && len(s) <= maxToken
}
