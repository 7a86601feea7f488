package config

import (
	"io"
	"os"
	"strings"

	"github.com/fourblocks2020/fencerow"
)

// maxSecretFile bounds a file that holds one secret, in bytes.
const maxSecretFile = 16 << 10

// readSecret reads a regular file of one line; opening a pipe could block for ever. Why a file cannot be read
// is not told apart: an error of the operating system repeats the path, which may be a secret pasted into the
// wrong place.
func readSecret(field, path string) (fencerow.Secret, error) {
	refused := inputError(field, "names a file that cannot be read, is empty, or is not one line of text")
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return fencerow.Secret{}, refused
	}
	file, err := os.Open(path)
	if err != nil {
		return fencerow.Secret{}, refused
	}
	defer file.Close() //nolint:errcheck // only read
	b, err := io.ReadAll(io.LimitReader(file, maxSecretFile+1))
	text := strings.TrimSpace(string(b))
	if err != nil || len(b) > maxSecretFile || text == "" || strings.ContainsAny(text, "\x00\r\n") {
		return fencerow.Secret{}, refused
	}
	return fencerow.NewSecret(text), nil
}
