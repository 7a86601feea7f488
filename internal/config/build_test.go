package config

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/daemon"
	"github.com/fourblocks2020/fencerow/internal/secretfile"
)

func TestTheConnectionString(t *testing.T) {
	const dsn = "postgres://u:p%25" + sentinel + "@127.0.0.1:1/db"
	path, long := file(t, dsn+"\n"), file(t, strings.Repeat("a", secretfile.MaxLine+1))
	tests := []struct {
		name      string
		variables map[string]string
		want      string // the string, or else
		field     string // of the error
	}{
		{"FromTheVariable", map[string]string{"FENCEROW_DSN": dsn}, dsn, ""},
		{"FromAFile", map[string]string{"FENCEROW_DSN_FILE": path}, dsn, ""},
		{"FromAFileWithAnEmptyVariable", map[string]string{"FENCEROW_DSN_FILE": path, "FENCEROW_DSN": ""}, dsn, ""},
		{"Missing", nil, "", "FENCEROW_DSN"},
		{"Empty", map[string]string{"FENCEROW_DSN": ""}, "", "FENCEROW_DSN"},
		{"FileMissing", map[string]string{"FENCEROW_DSN_FILE": path + ".gone"}, "",
			"--dsn-file (FENCEROW_DSN_FILE)"},
		{"FileEmpty", map[string]string{"FENCEROW_DSN_FILE": file(t, "\n")}, "", "--dsn-file (FENCEROW_DSN_FILE)"},
		{"FileOfTwoLines", map[string]string{"FENCEROW_DSN_FILE": file(t, dsn+"\n"+dsn)}, "",
			"--dsn-file (FENCEROW_DSN_FILE)"},
		{"FileTooLarge", map[string]string{"FENCEROW_DSN_FILE": long}, "",
			"--dsn-file (FENCEROW_DSN_FILE)"},
		{"Directory", map[string]string{"FENCEROW_DSN_FILE": t.TempDir()}, "", "--dsn-file (FENCEROW_DSN_FILE)"},
		{"Device", map[string]string{"FENCEROW_DSN_FILE": os.DevNull}, "", "--dsn-file (FENCEROW_DSN_FILE)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			line, err := parse(t, tt.variables, "--instance-key=a")
			check(t, err)
			got, err := line.Database.DSN()
			if got.Reveal() != tt.want {
				t.Error("got another connection string")
			}
			input, ok := errors.AsType[*fencerow.InputError](err)
			switch {
			case tt.field == "" && err != nil, tt.field != "" && (!ok || input.Field != tt.field):
				t.Errorf("got %v, want a problem of %q", err, tt.field)
			case ok && strings.Contains(input.Error(), sentinel):
				t.Errorf("the error shows the string: %v", err)
			}
		})
	}
	t.Run("FromBothIsRefused", func(t *testing.T) {
		_, err := parse(t, map[string]string{"FENCEROW_DSN": dsn}, "--instance-key=a", "--dsn-file="+path)
		if text, ok := UsageText(err); !ok || !strings.Contains(text, "FENCEROW_DSN") || strings.Contains(text,
			sentinel) {
			t.Errorf("got %q", text)
		}
	})
}

func TestAConnectionStringThatIsNoneIsNotShown(t *testing.T) {
	for _, dsn := range []string{
		"postgres://u:%zz" + sentinel + "@h/db", sentinel, "host=h port=" + sentinel,
		"postgres://h:" + sentinel + "/db",
	} {
		line, err := parse(t, map[string]string{"FENCEROW_DSN": dsn}, "--instance-key=a")
		check(t, err)
		_, err = line.Database.Open("test")
		text, ok := UsageText(err)
		if !ok || !strings.Contains(text, "FENCEROW_DSN") || strings.Contains(text, sentinel) {
			t.Errorf("got %q, %v", text, ok)
		}
	}
}

func TestLedgerSettingsAreCheckedBeforeAnythingIsSent(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"NoURL", nil, "--ledger-url (FENCEROW_LEDGER_URL)"},
		{"UserInURL", []string{"--ledger-url=https://u:" + sentinel + "@ledger.example"}, "--ledger-url"},
		{"PlainHTTPElsewhere", []string{"--ledger-url=http://ledger.example/" + sentinel}, "--ledger-url"},
		{"TokenFileMissing", []string{"--ledger-url=https://ledger.example", "--ledger-token-file=/" + sentinel},
			"--ledger-token-file (FENCEROW_LEDGER_TOKEN_FILE)"},
		{"CertificateWithoutKey", []string{"--ledger-url=https://ledger.example",
			"--ledger-cert-file=/" + sentinel},
			"--ledger-cert-file"},
		{"StatusOutOfRange", []string{"--ledger-url=https://ledger.example", "--ledger-retryable-status=500"},
			"--ledger-retryable-status (FENCEROW_LEDGER_RETRYABLE_STATUS)"},
		{"DialTimeoutZero", []string{"--ledger-url=https://ledger.example", "--ledger-dial-timeout=0s"},
			"--ledger-dial-timeout (FENCEROW_LEDGER_DIAL_TIMEOUT)"},
		{"ReadbackOfAnotherKind", []string{"--ledger-url=https://ledger.example", "--ledger-readback-url=ftp://h"},
			"--ledger-readback-url"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			line, err := parse(t, nil, append(tt.args, "--instance-key=a")...)
			check(t, err)
			_, err = line.Ledger.Open(1)
			text, ok := UsageText(err)
			if !ok || !strings.Contains(text, tt.want) || strings.Contains(text, sentinel) {
				t.Errorf("got %q, %v", text, ok)
			}
		})
	}
}

func TestEverySettingOfTheLedgerArrives(t *testing.T) {
	line, err := parse(t, map[string]string{"FENCEROW_LEDGER_RETRYABLE_STATUS": "404,418"}, "--instance-key=a",
		"--ledger-url=http://ledger.example", "--ledger-allow-insecure", "--ledger-token-file="+file(t, "token"),
		"--ledger-token-header=X-Token", "--ledger-token-scheme=-",
		"--ledger-readback-url=http://ledger.example/entries",
		"--ledger-require-echo", "--ledger-quote-key", "--ledger-accepted-is-duplicate")
	check(t, err)
	adapter, err := line.Ledger.Open(4)
	check(t, err)
	defer adapter.Close()
	if !adapter.CanResolve() {
		t.Error("the read-back address was lost")
	}
}

func TestObserverAndDaemonAreBuilt(t *testing.T) {
	line, err := parse(t, nil, "--instance-key=a", "--log-format=json", "--ops-listen=off",
		"--ledger-interval-sec=0.05")
	check(t, err)
	observer, err := line.Log.Observer(io.Discard, line.Instance.Key(), line.Alerts.Alerting(nil))
	check(t, err)
	if observer.Instance() != "a" {
		t.Errorf("got an observer of %s", observer.Instance())
	}
	cfg := line.Daemon.Config(daemon.Config{Worker: "w"})
	if cfg.OpsListen != "" || cfg.Interval.Milliseconds() != 50 || cfg.Worker != "w" {
		t.Errorf("got %+v", cfg)
	}
}

func TestTheWorkersNameIsAlwaysAName(t *testing.T) {
	check(t, (&Writer{}).WorkerID().Validate())
	if (&Writer{Worker: "w"}).WorkerID() != "w" {
		t.Error("a name that was given is not used")
	}
}

func TestEachOfSeveralWritersHasANameOfItsOwn(t *testing.T) {
	names := func(args ...string) (got []fencerow.WorkerID) {
		t.Helper()
		line, err := parse(t, nil, append(args, "--instance-key=a")...)
		check(t, err)
		observer, err := line.Log.Observer(io.Discard, line.Instance.Key(), line.Alerts.Alerting(nil))
		check(t, err)
		store := naming{claims: make(chan fencerow.WorkerID, line.Writer.Writers)}
		writers, err := line.Writer.New(store, deaf{}, observer, line.Daemon.Interval())
		check(t, err)
		for _, w := range writers {
			_, err := w.Poll(t.Context())
			check(t, err)
			got = append(got, <-store.claims)
		}
		return got
	}
	long := strings.Repeat("w", fencerow.MaxWorkerID)
	tests := []struct {
		name string
		args []string
		want []fencerow.WorkerID
	}{
		{"OneHasTheWorkersOwn", []string{"--worker=w"}, []fencerow.WorkerID{"w"}},
		{"SeveralAreNumbered", []string{"--worker=w", "--writers=2"}, []fencerow.WorkerID{"w/1", "w/2"}},
		{"ALongNameIsCut", []string{"--worker=" + long, "--writers=2"},
			[]fencerow.WorkerID{fencerow.WorkerID(long[2:] + "/1"), fencerow.WorkerID(long[2:] + "/2")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := names(tt.args...); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// naming is a store without rows that notes who claims.
type naming struct {
	fencerow.Claimer
	claims chan fencerow.WorkerID
}

func (n naming) ClaimBatch(_ context.Context, p fencerow.ClaimBatchParams) (*fencerow.Claim, error) {
	n.claims <- p.Worker
	return &fencerow.Claim{Instance: p.Instance, Token: p.Token}, nil
}

// deaf is a ledger to which nothing is sent.
type deaf struct{}

func (deaf) Deliver(context.Context, fencerow.Delivery) fencerow.Answer { return fencerow.Answer{} }
