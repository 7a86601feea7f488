package pgserver

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestStart(t *testing.T) {
	t.Run("NamedServerIsUsedAsItIs", func(t *testing.T) {
		const dsn = "postgres://someone@192.0.2.1/db"
		t.Setenv(EnvDSN, dsn)
		s, err := Start(t.Context(), t.Logf)
		if err != nil || s.DSN != dsn {
			t.Fatalf("got %+v, %v", s, err)
		}
		if strings.Contains(s.Source, dsn) {
			t.Errorf("the source %q shows the DSN", s.Source)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Run("NamedImageThatCannotBeHadIsAnError", func(t *testing.T) {
		t.Setenv(EnvDSN, "")
		t.Setenv(EnvImage, "127.0.0.1:1/fencerow/no-such-image:0")
		s, err := Start(t.Context(), t.Logf)
		if err == nil {
			t.Fatalf("got a server from %s, want an error", s.Source)
		}
	})
}

func TestCluster(t *testing.T) {
	c, err := StartCluster(t.Context(), map[string]string{"max_connections": "17"})
	if err != nil {
		t.Fatal(err)
	}
	postmaster := postmasterPID(t, c.data())
	ctx := t.Context()
	query := func(sql string) string {
		t.Helper()
		conn, err := pgx.Connect(ctx, c.DSN())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(ctx) }()
		var s string
		if err := conn.QueryRow(ctx, sql).Scan(&s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	for setting, want := range map[string]string{
		"max_connections":    "17",
		"synchronous_commit": "on",
		"fsync":              settings()["fsync"],
		"server_encoding":    "UTF8",
		"listen_addresses":   "127.0.0.1",
	} {
		if got := query("SHOW " + setting); got != want {
			t.Errorf("%s is %s, want %s", setting, got, want)
		}
	}

	t.Run("WrongPasswordIsRefused", func(t *testing.T) {
		if conn, err := pgx.Connect(ctx, strings.Replace(c.DSN(), c.password, "wrong", 1)); err == nil {
			_ = conn.Close(ctx)
			t.Error("a session without the password")
		}
	})
	t.Run("CloseEndsTheServerAndRemovesItsFiles", func(t *testing.T) {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(postmaster, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d: %v, want none", postmaster, err)
		}
		if _, err := os.Stat(c.dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("folder: %v, want none", err)
		}
	})
}

func TestClusterThatCannotStartSaysWhatItsLogSays(t *testing.T) {
	_, err := StartCluster(t.Context(), map[string]string{"shared_buffers": "nonsense"})
	if err == nil || !strings.Contains(err.Error(), "shared_buffers") {
		t.Errorf("got %v", err)
	}
}

func TestStartIsEndedByItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := StartCluster(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func postmasterPID(t *testing.T, data string) int {
	t.Helper()
	content, err := os.ReadFile(data + "/postmaster.pid")
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(content), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}
