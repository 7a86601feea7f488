package webhook

import (
	"net"
	"net/url"
	"strings"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/loopback"
)

// maxURL bounds the receiver's address, in bytes.
const maxURL = 2048

// URLField is the field of an [*fencerow.InputError] about the address.
const URLField = "alert_webhook_url"

// Config says who receives alerts. URL and SecretFile are required.
type Config struct {
	// URL receives one POST for each attempt. It is https, except to loopback or with AllowInsecure; it has no
	// user info and no fragment. It counts as a secret, since receivers tend to put one into its path.
	URL fencerow.Secret
	// SecretFile holds the signing secret, whsec_ and 24 to 64 bytes in base64. It is read for each attempt.
	SecretFile string
	// AllowInsecure allows plain http to hosts other than loopback.
	AllowInsecure bool
	// Version goes into the User-Agent. Empty means dev.
	Version string
}

func inputError(field, problem string) error {
	return &fencerow.InputError{Field: field, Problem: problem}
}

// address checks the receiver's address. Its value is not repeated.
func (c *Config) address() (*url.URL, error) {
	const field = URLField
	text := c.URL.Reveal()
	u, err := url.Parse(text)
	switch {
	case text == "":
		return nil, inputError(field, "is missing")
	case len(text) > maxURL:
		return nil, inputError(field, "is longer than 2048 characters")
	case err != nil || u.Opaque != "":
		return nil, inputError(field, "is not a URL")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, inputError(field, "must begin with https:// (or http:// for a receiver on this machine)")
	case u.User != nil:
		return nil, inputError(field, "must not hold a user or password")
	case u.Fragment != "" || strings.Contains(text, "#"):
		return nil, inputError(field, "must not have a fragment (#)")
	case u.Hostname() == "" || strings.HasSuffix(u.Host, ":"):
		return nil, inputError(field, "has no host, or an empty port")
	case u.Scheme == "http" && !c.AllowInsecure && !loopback.Names(u.Hostname()):
		return nil, inputError(field, "must use https for a receiver on another machine, or allow plain http")
	}
	if port := u.Port(); port != "" {
		if number, err := net.LookupPort("tcp", port); err != nil || number == 0 {
			return nil, inputError(field, "has a port that is not a number from 1 to 65535")
		}
	}
	return u, nil
}
