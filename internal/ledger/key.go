package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/fourblocks2020/fencerow"
)

const (
	// maxKey is the longest idempotency key that ledgers commonly accept, in bytes.
	maxKey = 255
	// hashedKey begins the hashed form; no plain key begins with it.
	hashedKey = "sha256:"
)

// IdempotencyKey returns the key under which the ledger books an entry. It depends on nothing but the owner
// and the correlation id, so it is the same for every attempt, life and worker; two entries never share one.
// It is printable ASCII without space, quote or backslash, at most 255 bytes.
//
// The plain form is "<instance>:<correlation id>". It is used where it fits and is unambiguous: the instance
// key has no colon and is not "sha256", neither part has a quote or a backslash. Otherwise the key is
// "sha256:" and the hexadecimal SHA-256 of instance, a NUL byte and correlation id.
func IdempotencyKey(instance fencerow.InstanceKey, id fencerow.CorrelationID) string {
	plain := string(instance) + ":" + string(id)
	if len(plain) <= maxKey && !strings.Contains(string(instance), ":") &&
		!strings.HasPrefix(plain, hashedKey) &&
		!strings.ContainsAny(plain, `"\`) {
		return plain
	}
	sum := sha256.Sum256([]byte(string(instance) + "\x00" + string(id)))
	return hashedKey + hex.EncodeToString(sum[:])
}
