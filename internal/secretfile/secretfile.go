// Package secretfile reads the small files in which operators and secret managers keep tokens, keys and
// connection strings. Whoever reads again gets what was put into the file meanwhile.
//
// Why a file cannot be read is not told: an error of the operating system repeats the path, which may be a
// secret that was pasted into the wrong place.
package secretfile

import (
	"io"
	"os"
	"strings"
)

// MaxLine bounds a file of one line, in bytes.
const MaxLine = 16 << 10

// Read reads a regular file of at most limit bytes. Opening a pipe could block for ever, and a device need
// not end.
func Read(path string, limit int) (content []byte, ok bool) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil, false
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, false
	}
	defer file.Close() //nolint:errcheck // only read
	content, err = io.ReadAll(io.LimitReader(file, int64(limit)+1))
	if err != nil || len(content) > limit {
		return nil, false
	}
	return content, true
}

// ReadLine reads a file of one line that is not empty, of at most [MaxLine] bytes, and takes the white space
// around it away.
func ReadLine(path string) (line string, ok bool) {
	content, ok := Read(path, MaxLine)
	line = strings.TrimSpace(string(content))
	if !ok || line == "" || strings.ContainsAny(line, "\x00\r\n") {
		return "", false
	}
	return line, true
}

// ReadToken is ReadLine of what an HTTP header can carry: printable ASCII.
func ReadToken(path string) (token string, ok bool) {
	token, ok = ReadLine(path)
	if !ok || strings.ContainsFunc(token, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", false
	}
	return token, true
}

// Exposed reports whether users other than the file's owner and group can read or change it, of which an
// operator should be warned. A file that is not there is not.
func Exposed(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Perm()&0o006 != 0
}
