package docs

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// readsJSON are calls that take a document in.
var readsJSON = regexp.MustCompile(
	`\b(json\.(Unmarshal|NewDecoder|Valid)|jsonwalk\.(IsObject|IsObjectWithin|Members))\(`)

// Whatever of the product reads JSON has a row that says which test cuts it at each byte.
func TestEveryReaderOfJSONIsCutAtEveryByte(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("git", "ls-files", "*.go")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	tools := []string{"bench/", "docs/", "e2e/", "internal/faults/", "internal/pgtest/", "internal/storetest/",
		"scripts/", "tools/", "internal/badinput/",
		"internal/jsonwalk/",            // what most others read with
		"internal/ledgerstub/client.go", // with which tests ask the stub
	}
	var inCode []string
	for path := range strings.Lines(string(out)) {
		path = strings.TrimSpace(path)
		isTool := slices.ContainsFunc(tools, func(tool string) bool { return strings.HasPrefix(path, tool) })
		if !isTool && !strings.HasSuffix(path, "_test.go") && readsJSON.MatchString(read(t, path)) {
			inCode = append(inCode, path)
		}
	}
	var documented []string
	for _, row := range rows(section(t, read(t, "docs/reliability.md"), "### Documents")) {
		documented = append(documented, codes(row[1])...)
		checkTests(t, row[0], row[2])
	}
	sameSet(t, "reader of JSON", documented, inCode)
}
