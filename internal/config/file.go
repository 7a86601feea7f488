package config

import (
	"io"
	"os"
	"strings"

	"github.com/fourblocks2020/fencerow"
)

// maxSecretFile bounds a file that holds one secret, in bytes.
const maxSecretFile = 16 << 10

// readFile reads a regular file of at most limit bytes: opening a pipe could block for ever, and a device
// need not end. Why a file cannot be read is not told apart: an error of the operating system repeats the
// path, which may be a secret pasted into the wrong place.
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

// readUnlistable returns a secret for which there is no flag, since a list of processes would show it: the
// line of the file if one is named, or else the variable's content; zero if neither is given.
func readUnlistable(variable, field, path string) (fencerow.Secret, error) {
	if path == "" {
		return fencerow.NewSecret(os.Getenv(variable)), nil
	}
	if err := notBoth(variable, field, path); err != nil {
		return fencerow.Secret{}, err
	}
	return readSecret(field, path)
}

// notBoth refuses a secret that is given as a variable and as a file.
func notBoth(variable, field, path string) error {
	if path != "" && os.Getenv(variable) != "" {
		return inputError(field, "and "+variable+" are both given; give one of them")
	}
	return nil
}

// readSecret reads a file of one line.
func readSecret(field, path string) (fencerow.Secret, error) {
	b, ok := readFile(path, maxSecretFile)
	text := strings.TrimSpace(string(b))
	if !ok || text == "" || strings.ContainsAny(text, "\x00\r\n") {
		return fencerow.Secret{}, inputError(field,
			"names a file that cannot be read, is empty, or is not one line of text")
	}
	return fencerow.NewSecret(text), nil
}
