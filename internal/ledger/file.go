package ledger

import (
	"io"
	"os"
)

// maxPEM bounds a file of certificates or a key, in bytes: several times a bundle of all public authorities.
const maxPEM = 4 << 20

// readFile reads a regular file of at most limit bytes: opening a pipe could block for ever, and a device
// need not end.
func readFile(path string, limit int) ([]byte, bool) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil, false
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, false
	}
	defer file.Close() //nolint:errcheck // only read
	b, err := io.ReadAll(io.LimitReader(file, int64(limit)+1))
	return b, err == nil && len(b) <= limit
}
