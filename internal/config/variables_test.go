package config

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestMisspeltVariablesAreNamedAndNothingElseIs(t *testing.T) {
	got := Warnings([]string{
		"PATH=/bin", "FENCEROW_DSN=" + sentinel, "FENCEROW_BATCH_LIMIT=5", "FENCEROW_PENDING_LIMIT=5",
		"FENCEROW_BATCHLIMIT=" + sentinel, "FENCEROW_LEDGER_TOKEN=" + sentinel, "FENCEROW_" + sentinel + "=x",
		"FENCEROW_=x", "XFENCEROW_A=x",
	})
	want := []string{
		"FENCEROW_BATCHLIMIT is no setting and is ignored",
		"FENCEROW_LEDGER_TOKEN is no setting and is ignored",
		"a variable that begins with FENCEROW_ is no setting and is ignored",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// The list is that of the help, which the tables of docs/operations.md are generated from.
func TestEverySettingIsAKnownVariable(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	check(t, err)
	var documented []string
	row := regexp.MustCompile("(?m)^\\| `FENCEROW_([A-Z_]+)` \\|")
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		documented = append(documented, m[1])
	}
	slices.Sort(documented)
	if known := slices.Sorted(slices.Values(variables)); !slices.Equal(known, slices.Compact(documented)) {
		t.Errorf("known are\n%q\nand documented\n%q", known, documented)
	}
}

func TestUnescapedPasswordIsNoDSN(t *testing.T) {
	for dsn, fine := range map[string]bool{
		"postgres://u:p@ss/w:rd#1@h/db":                        false,
		"postgres://u:pw#1@h/db":                               false,
		"postgresql://u:12/34@h/db":                            false,
		"postgres://u:p%40ss%2Fw%23@h/db":                      true,
		"postgres://u:p@ss@h:5432,g:5432/db?sslmode=disable":   false,
		"postgres://u:12?x@y@h/db":                             false,
		"postgres://u:pw @h/db":                                false,
		"postgres://u:12?x@h/db":                               false,
		"postgres://u:12?/x@h/db":                              false,
		"postgres://u:p%40ss@h:5432,g:5432/db?sslmode=disable": true,
		"postgres:///db?host=/run/postgresql":                  true,
		"postgres://h/db?user=u@realm&password=p@ss":           false,
		"postgres://h/db?user=u%40realm&password=p%40ss":       true,
		"host=h user=u password='p@ss/w:rd#1'":                 true,
	} {
		line, err := parse(t, map[string]string{"FENCEROW_DSN": dsn}, "--instance-key=a",
			"--ledger-url=http://127.0.0.1:1/")
		check(t, err)
		_, err = line.Database.DSN()
		if (err == nil) != fine {
			t.Errorf("%s: %v", dsn, err)
		}
		if text, usage := UsageText(err); !fine && (!usage || !strings.Contains(text, "percent-encode")) {
			t.Errorf("%s: %s", dsn, text)
		}
	}
}

func TestParseErrorsSayHowAValueIsWritten(t *testing.T) {
	for variables, want := range map[[2]string]string{
		{"", "--lease=5"}:      "--lease: expected duration, such as 30s or 5m",
		{"FENCEROW_LEASE", ""}: "--lease: expected duration, such as 30s or 5m (from FENCEROW_LEASE)",
		{"", "--worker -5"}: "--worker: expected string value; for a value that begins with - write " +
			"--worker=VALUE",
	} {
		given := map[string]string{}
		if variables[0] != "" {
			given[variables[0]] = "5"
		}
		_, err := parse(t, given, strings.Fields(variables[1])...)
		if text, _ := UsageText(err); text != want {
			t.Errorf("%q: %q, want %q", variables, text, want)
		}
	}
}
