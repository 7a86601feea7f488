package docs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fourblocks2020/fencerow/internal/pgstore"
)

// The example of the environment file names every setting that the daemon takes, and no other, with the
// default where there is one.
func TestEnvironmentExampleIsComplete(t *testing.T) {
	t.Parallel()
	example := map[string]string{}
	line := regexp.MustCompile(`(?m)^#?(FENCEROW_[A-Z_]+)=(.*)$`)
	for _, m := range line.FindAllStringSubmatch(read(t, "deploy/fencerow.env.example"), -1) {
		example[m[1]] = m[2]
	}
	operations := read(t, "docs/operations.md")
	_, table, _ := strings.Cut(operations, "<!-- generated: settings -->")
	table, _, _ = strings.Cut(table, "<!-- end: settings -->")
	settings := regexp.MustCompile("(?m)^\\| `(FENCEROW_[A-Z_]+)` \\| [^|]* \\| `?([^`|]*?)`? \\|").
		FindAllStringSubmatch(table, -1)
	if len(settings) < 40 {
		t.Fatalf("only %d settings were found", len(settings))
	}
	for _, m := range settings {
		value, named := example[m[1]]
		if fallback := strings.TrimSpace(m[2]); !named || fallback != "" && value != fallback &&
			m[1] != "FENCEROW_OPS_LISTEN" { // a port to find it at
			t.Errorf("%s=%s stands in no such line", m[1], fallback)
		}
		delete(example, m[1])
	}
	if len(example) != 0 {
		t.Errorf("the example names what is no setting: %v", example)
	}
}

// The unit can hand over every file that holds a secret, and no other: a user made for the service alone can
// read nothing that only root can.
func TestUnitHandsOverEverySecret(t *testing.T) {
	t.Parallel()
	unit := read(t, "deploy/fencerowd.service")
	credential := regexp.MustCompile(`(?m)^#?LoadCredential=([a-z-]+):/etc/fencerow/[a-z.-]+\n` +
		`#?Environment=(FENCEROW_[A-Z_]+_FILE)=%d/([a-z-]+)$`)
	var handed []string
	for _, m := range credential.FindAllStringSubmatch(unit, -1) {
		if m[1] != m[3] {
			t.Errorf("%s is handed over as %s", m[3], m[1])
		}
		handed = append(handed, m[2])
	}
	var want []string
	for _, m := range regexp.MustCompile(`(?m)^#(FENCEROW_[A-Z_]+_FILE)=`).
		FindAllStringSubmatch(read(t, "deploy/fencerow.env.example"), -1) {
		if !strings.HasSuffix(m[1], "_CA_FILE") && !strings.HasSuffix(m[1], "_CERT_FILE") { // no secrets
			want = append(want, m[1])
		}
	}
	slices.Sort(handed)
	slices.Sort(want)
	if !slices.Equal(handed, want) {
		t.Errorf("handed over are\n%q\nand secrets are\n%q", handed, want)
	}
}

func TestSupportedSchemaVersionsAreThoseOfTheStore(t *testing.T) {
	t.Parallel()
	versions := fmt.Sprintf("exactly version %d", pgstore.MaxSchemaVersion)
	if pgstore.MinSchemaVersion != pgstore.MaxSchemaVersion {
		versions = fmt.Sprintf("version %d to %d", pgstore.MinSchemaVersion, pgstore.MaxSchemaVersion)
	}
	text := section(t, read(t, "docs/operations.md"), "## Upgrade")
	if !strings.Contains(text, "today "+versions) {
		t.Errorf("the page does not say: today %s", versions)
	}
}
