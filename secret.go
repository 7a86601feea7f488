package fencerow

import (
	"fmt"
	"log/slog"
)

// Secret holds a credential: a connection string, a token, a key. However it is printed, on its own or inside
// something else, it shows a constant (invariant I10). [Secret.Reveal] is the one way to its content, so that
// every use of a credential can be found by that name. The zero value is no secret at all.
//
// The content is behind a pointer: package fmt prints hidden fields of a struct without asking their methods,
// and of such a field it prints the address.
type Secret struct{ value *string }

// secretShown is what every print form of a [Secret] shows.
const secretShown = "[secret]"

// NewSecret returns value as a secret. An empty value is the zero Secret.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{&value}
}

// Reveal returns the content, for the place that hands it to whoever asks for the credential.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return s.value == nil }

// String returns a constant.
func (s Secret) String() string { return secretShown }

// GoString returns a constant.
func (s Secret) GoString() string { return secretShown }

// Format writes a constant for every verb.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, secretShown) }

// LogValue returns a constant.
func (s Secret) LogValue() slog.Value { return slog.StringValue(secretShown) }

// MarshalText returns a constant. JSON shows it too.
func (s Secret) MarshalText() ([]byte, error) { return []byte(secretShown), nil }

// UnmarshalText takes text as the secret, as a command line's parser does.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = NewSecret(string(text))
	return nil
}
