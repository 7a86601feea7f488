package config

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/writer"
)

// sentinel stands for a secret that was given in the wrong place.
const sentinel = "s3cr3t-sentinel"

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type commandLine struct {
	Instance Instance `embed:""`
	Database Database `embed:""`
	Ledger   Ledger   `embed:""`
	Writer   Writer   `embed:""`
	Daemon   Daemon   `embed:""`
	Log      Log      `embed:""`
	Alerts   Alerts   `embed:""`
}

// parse reads a command line under the variables given, and no other of ours.
func parse(t *testing.T, variables map[string]string, args ...string) (*commandLine, error) {
	t.Helper()
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, variablePrefix) {
			t.Setenv(name, "") // so that it is put back after the test
			check(t, os.Unsetenv(name))
		}
	}
	for name, value := range variables {
		t.Setenv(name, value)
	}
	var line commandLine
	parser, err := NewParser(&line, "test", "", kong.Writers(io.Discard, io.Discard))
	check(t, err)
	_, err = parser.Parse(args)
	return &line, err
}

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	check(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestDefaultsAreThoseOfTheWriter(t *testing.T) {
	line, err := parse(t, nil, "--instance-key=a", "--worker=w")
	check(t, err)
	got := line.Writer.Config("a", line.Daemon.Interval())
	want := writer.Config{
		Instance: "a", Worker: "w",
		BatchLimit: writer.DefaultBatchLimit, Lease: writer.DefaultLease,
		DeliveryTimeout: writer.DefaultDeliveryTimeout, Concurrency: writer.DefaultConcurrency,
		MaxAttempts: writer.DefaultMaxAttempts, InFlightAttempts: writer.DefaultInFlightAttempts,
		BackoffBase: writer.DefaultBackoffBase, BackoffCap: writer.DefaultBackoffCap,
		TargetDelay: writer.DefaultTargetDelay, Grace: writer.DefaultGrace,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if line.Daemon.Interval() != time.Second {
		t.Errorf("got an interval of %v", line.Daemon.Interval())
	}
}

func TestEachFlagHasAVariableOfItsName(t *testing.T) {
	parser, err := NewParser(&commandLine{}, "test", "")
	check(t, err)
	seen := 0
	for _, flag := range parser.Model.Flags {
		if flag.Name == "help" {
			continue
		}
		seen++
		want := variablePrefix + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
		if len(flag.Envs) != 1 || flag.Envs[0] != want {
			t.Errorf("--%s: got the variables %v, want %s", flag.Name, flag.Envs, want)
		}
		if flag.Help == "" {
			t.Errorf("--%s has no help", flag.Name)
		}
	}
	if seen < 30 {
		t.Errorf("only %d flags were looked at", seen)
	}
}

func TestBadValuesAreUsageErrorsThatNameTheSetting(t *testing.T) {
	exposed, webhook := file(t, "token"), file(t, "https://alerts.example/"+sentinel)
	tests := []struct {
		name string
		args []string
		want string // what the text names
	}{
		{"NoInstanceKey", []string{"--instance-key="}, "--instance-key (FENCEROW_INSTANCE_KEY)"},
		{"InstanceKeyWithSpace", []string{"--instance-key=a " + sentinel},
			"--instance-key (FENCEROW_INSTANCE_KEY)"},
		{"InstanceKeyTooLong", []string{"--instance-key=" + strings.Repeat("a", 129)}, "--instance-key"},
		{"BatchLimitZero", []string{"--batch-limit=0"}, "--batch-limit (FENCEROW_BATCH_LIMIT)"},
		{"NoWriters", []string{"--writers=0"}, "--writers (FENCEROW_WRITERS)"},
		{"TooManyWriters", []string{"--writers=17"}, "--writers (FENCEROW_WRITERS)"},
		{"BatchLimitTooLarge", []string{"--batch-limit=1001"}, "--batch-limit (FENCEROW_BATCH_LIMIT)"},
		{"BatchLimitNoNumber", []string{"--batch-limit=" + sentinel}, "--batch-limit"},
		{"BudgetBelowTheBatchLimit", []string{"--budget=10"}, "--budget (FENCEROW_BUDGET)"},
		{"LeaseTooShort", []string{"--lease=999ms"}, "--lease (FENCEROW_LEASE)"},
		{"LeaseTooLong", []string{"--lease=61m"}, "--lease (FENCEROW_LEASE)"},
		{"LeaseZero", []string{"--lease=0s"}, "--lease (FENCEROW_LEASE)"},
		{"LeaseNoDuration", []string{"--lease=30"}, "--lease"},
		{"DeliveryThatDoesNotFitTheLease", []string{"--delivery-timeout=28s"}, "--delivery-timeout"},
		{"DeliveryTimeoutNegative", []string{"--delivery-timeout=-1s"}, "--delivery-timeout"},
		{"ConcurrencyZero", []string{"--concurrency=0"}, "--concurrency"},
		{"ConcurrencyTooLarge", []string{"--concurrency=1025"}, "--concurrency"},
		{"MaxAttemptsZero", []string{"--max-attempts=0"}, "--max-attempts"},
		{"MaxAttemptsTooLarge", []string{"--max-attempts=1001"}, "--max-attempts"},
		{"InFlightAttemptsZero", []string{"--in-flight-attempts=0"}, "--in-flight-attempts"},
		{"BackoffBaseZero", []string{"--backoff-base=0s"}, "--backoff-base"},
		{"BackoffCapZero", []string{"--backoff-cap=0s"}, "--backoff-cap"},
		{"BackoffCapBelowTheBase", []string{"--backoff-cap=500ms"}, "--backoff-cap"},
		{"GraceZero", []string{"--grace=0s"}, "--grace"},
		{"WorkerWithSpace", []string{"--worker=a " + sentinel}, "--worker (FENCEROW_WORKER)"},
		{"IntervalZero", []string{"--ledger-interval-sec=0"},
			"--ledger-interval-sec (FENCEROW_LEDGER_INTERVAL_SEC)"},
		{"IntervalNegative", []string{"--ledger-interval-sec=-1"}, "--ledger-interval-sec"},
		{"IntervalNoNumber", []string{"--ledger-interval-sec=NaN"}, "--ledger-interval-sec"},
		{"IntervalEndless", []string{"--ledger-interval-sec=Inf"}, "--ledger-interval-sec"},
		{"IntervalADuration", []string{"--ledger-interval-sec=1s"}, "--ledger-interval-sec"},
		{"ConnsZero", []string{"--db-max-conns=0"}, "--db-max-conns (FENCEROW_DB_MAX_CONNS)"},
		{"ConnsTooMany", []string{"--db-max-conns=1001"}, "--db-max-conns"},
		{"StoreTimeoutTooShort", []string{"--store-timeout=99ms"}, "--store-timeout"},
		{"StoreTimeoutTooLong", []string{"--store-timeout=61s"}, "--store-timeout"},
		{"LogFormatUnknown", []string{"--log-format=" + sentinel}, "--log-format (FENCEROW_LOG_FORMAT)"},
		{"LogLevelUnknown", []string{"--log-level=" + sentinel}, "--log-level (FENCEROW_LOG_LEVEL)"},
		{"OpsListenNoAddress", []string{"--ops-listen=" + sentinel}, "--ops-listen (FENCEROW_OPS_LISTEN)"},
		{"OpsListenPortTooLarge", []string{"--ops-listen=127.0.0.1:65536"}, "--ops-listen"},
		{"OpsListenExposed", []string{"--ops-listen=0.0.0.0:0"}, "--ops-token-file"},
		{"OpsListenEveryInterface", []string{"--ops-listen=:8080"}, "--ops-token-file"},
		{"OpsTokenFileMissing", []string{"--ops-token-file=" + exposed + sentinel}, "--ops-token-file"},
		{"AlertHeldAfterTooShort", []string{"--alert-held-after=99ms"},
			"--alert-held-after (FENCEROW_ALERT_HELD_AFTER)"},
		{"AlertHeldAfterZero", []string{"--alert-held-after=0s"}, "--alert-held-after"},
		{"AlertWindowTooLong", []string{"--alert-window=25h"}, "--alert-window (FENCEROW_ALERT_WINDOW)"},
		{"WebhookWithoutASecret", []string{"--alert-webhook-url-file=" + webhook},
			"--alert-webhook-secret-file (FENCEROW_ALERT_WEBHOOK_SECRET_FILE)"},
		{"WebhookSecretThatIsNone", []string{"--alert-webhook-url-file=" + webhook,
			"--alert-webhook-secret-file=" + exposed}, "--alert-webhook-secret-file"},
		{"WebhookOverPlainHTTP", []string{"--alert-webhook-url-file=" + file(t, "http://a.example/"+sentinel)},
			"--alert-webhook-url-file (FENCEROW_ALERT_WEBHOOK_URL_FILE) holds an address that must use https"},
		{"WebhookSecretWithoutAnAddress", []string{"--alert-webhook-secret-file=" + exposed},
			"FENCEROW_ALERT_WEBHOOK_URL is missing"},
		{"WebhookForAFlag", []string{"--alert-webhook-url=https://alerts.example/" + sentinel},
			"unknown flag --alert-webhook-url"},
		{"UnknownFlag", []string{"--dsn=" + sentinel}, "unknown flag --dsn"},
		{"SecretForAFlag", []string{"--" + sentinel}, "unknown flag"},
		{"Argument", []string{"postgres://u:" + sentinel + "@h/db"}, "unexpected argument"},
		{"ArgumentForASwitch", []string{"--ledger-quote-key=" + sentinel}, "--ledger-quote-key"},
		{"StatusNoNumber", []string{"--ledger-retryable-status=404," + sentinel}, "--ledger-retryable-status"},
		{"ValueMissing", []string{"--lease"}, "--lease"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse(t, map[string]string{"FENCEROW_INSTANCE_KEY": "a"}, tt.args...)
			text, ok := UsageText(err)
			if !ok {
				t.Fatalf("got %v, want a usage error", err)
			}
			if !strings.Contains(text, tt.want) || strings.Contains(text, sentinel) || strings.Contains(text, "\n") {
				t.Errorf("got %q", text)
			}
		})
	}
}

func TestABadVariableIsNamedAndItsValueIsNot(t *testing.T) {
	for _, name := range []string{
		"FENCEROW_LEASE", "FENCEROW_BATCH_LIMIT", "FENCEROW_LEDGER_INTERVAL_SEC", "FENCEROW_LEDGER_REQUIRE_ECHO",
		"FENCEROW_LEDGER_RETRYABLE_STATUS", "FENCEROW_OPS_LISTEN", "FENCEROW_LOG_FORMAT", "FENCEROW_OPS_TOKEN_FILE",
	} {
		for _, value := range []string{
			sentinel, "postgres://u:" + sentinel + "@h/db", `a"b but got "` + sentinel, sentinel + "\n(from envar X=",
		} {
			_, err := parse(t, map[string]string{"FENCEROW_INSTANCE_KEY": "a", name: value})
			text, ok := UsageText(err)
			if !ok || !strings.Contains(text, name) || strings.Contains(text, sentinel) || strings.Contains(text,
				"\n") {
				t.Errorf("%s=%q: got %q, %v", name, value, text, ok)
			}
		}
	}
}

func TestAMisspeltCommandGetsAHint(t *testing.T) {
	var line struct {
		Pending struct{} `cmd:""`
		Counts  struct{} `cmd:""`
	}
	parser, err := NewParser(&line, "test", "")
	check(t, err)
	for args, want := range map[string]string{
		"pendng":           `unknown command, did you mean "pending"?`,
		"x" + sentinel:     "unknown command; there are pending, counts",
		"--pending":        "unknown flag --pending",
		"":                 `expected one of "pending", "counts"`,
		"counts extra":     "unexpected argument",
		"counts --extra=1": "unknown flag --extra",
	} {
		_, err := parser.Parse(strings.Fields(args))
		if text, _ := UsageText(err); text != want {
			t.Errorf("%q: got %q, want %q", args, text, want)
		}
	}
}

func TestOtherErrorsAreNoUsageErrors(t *testing.T) {
	for _, err := range []error{nil, errors.New("x"), fencerow.ErrStoreBusy} {
		if text, ok := UsageText(err); ok {
			t.Errorf("%v is said to be one: %q", err, text)
		}
	}
}
