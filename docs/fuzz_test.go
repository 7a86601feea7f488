package docs

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

var fuzzTarget = regexp.MustCompile(`(?m)^func (Fuzz\w*)\(`)

func TestEachFuzzTargetSaysWhatItClaims(t *testing.T) {
	t.Parallel()
	var targets []string
	err := fs.WalkDir(os.DirFS(".."), ".", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		for _, m := range fuzzTarget.FindAllStringSubmatch(read(t, file), -1) {
			targets = append(targets, path.Dir(file)+":"+m[1])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	sameSet(t, "fuzz target", firstColumn(t, section(t, read(t, "docs/reliability.md"), "## Fuzzing")), targets)
}
