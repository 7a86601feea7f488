package pgserver

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// minMajor is the oldest major version of PostgreSQL that the product supports.
const minMajor = 14

// packageDirs are where Debian, Red Hat and Alpine packages put the server's programs, outside of PATH.
var packageDirs = []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/libexec/postgresql*"}

// findBinaries returns the folder that has initdb and postgres: the one that the environment names, else the
// newest that matches one of the patterns, else the one in PATH.
func findBinaries(patterns []string) (string, error) {
	if dir := os.Getenv(EnvBin); dir != "" {
		if !hasBinaries(dir) {
			return "", fmt.Errorf("%s: no initdb and postgres in %s", EnvBin, dir)
		}
		return dir, nil
	}
	var found []string
	for _, pattern := range patterns {
		dirs, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		found = append(found, dirs...)
	}
	found = slices.DeleteFunc(found, func(dir string) bool { return major(dir) < minMajor || !hasBinaries(dir) })
	if len(found) > 0 {
		return slices.MaxFunc(found, func(a, b string) int { return cmp.Compare(major(a), major(b)) }), nil
	}
	if initdb, err := exec.LookPath("initdb"); err == nil {
		// A link in PATH is followed, since initdb looks for postgres beside itself.
		if initdb, err = filepath.EvalSymlinks(initdb); err == nil && hasBinaries(filepath.Dir(initdb)) {
			return filepath.Dir(initdb), nil
		}
	}
	return "", ErrNone
}

// major returns the major version that a package's folder is named for, 0 where it names none.
func major(dir string) int {
	name := strings.TrimSuffix(dir, "/bin")
	digits := name[strings.LastIndexFunc(name, func(r rune) bool { return r < '0' || r > '9' })+1:]
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return n
}

func hasBinaries(dir string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			return false
		}
	}
	return true
}
