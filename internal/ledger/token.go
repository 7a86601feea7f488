package ledger

import (
	"sync"
	"time"

	"github.com/fourblocks2020/fencerow/internal/secretfile"
)

// tokenReread is how old a read token may be before the file is looked at again.
const tokenReread = time.Second

// tokenFile is the credential, read from a file that an operator or a secret manager may replace at any time.
// Reading the small file again is exact, where comparing its modification time is not: two writes can share
// one.
type tokenFile struct {
	path   string
	prefix string // the scheme and a space, or nothing
	reread time.Duration

	mu     sync.Mutex
	readAt time.Time // zero: read at the next use
	// value returns the header's value; it is nil while the file cannot be read. It is a function because
	// package fmt shows the content of everything else, also behind a pointer.
	value func() string
}

// header returns the header's value and whether there is one.
func (t *tokenFile) header() (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if t.readAt.IsZero() || now.Sub(t.readAt) >= t.reread {
		token, ok := secretfile.ReadToken(t.path)
		t.value = nil
		if value := t.prefix + token; ok {
			t.value = func() string { return value }
		}
		t.readAt = now
	}
	if t.value == nil {
		return "", false
	}
	return t.value(), true
}

// refused has the file read at the next use: the ledger did not take the token, and a new one may be there
// already.
func (t *tokenFile) refused() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.readAt = time.Time{}
}
