package main

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// envRunMain makes the test binary the command itself.
const envRunMain = "FENCEROW_PGTEST_RUN_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(envRunMain) != "" {
		main()
	}
	os.Exit(m.Run())
}

// command is the pgtest-server command with a private cluster, whatever server this test run has.
func command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), envRunMain+"=1", "TREX_POSTGRESQL_TEST_DSN=", "FENCEROW_TEST_POSTGRES_IMAGE=",
		"DOCKER_HOST=tcp://127.0.0.1:1")
	cmd.Stderr = os.Stderr
	return cmd
}

func TestWrappedCommandHasTheServerAndItsStatusIsPassedOn(t *testing.T) {
	t.Parallel()
	cmd := command("--", "sh", "-c", `echo "$TREX_POSTGRESQL_TEST_DSN"; read -r _; exit 7`)
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	dsn := start(t, cmd)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := input.Close(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // the status is looked at below
	if got := cmd.ProcessState.ExitCode(); got != 7 {
		t.Errorf("exit status %d, want the command's 7", got)
	}
	refusesConnections(t, dsn)
}

func TestSignalGoesToTheCommandAndTheServerEndsAfterIt(t *testing.T) {
	t.Parallel()
	for signal, status := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			// The shell is replaced, so that the signal does not leave a child of it behind.
			cmd := command("--", "sh", "-c", `echo "$TREX_POSTGRESQL_TEST_DSN"; exec cat`)
			if _, err := cmd.StdinPipe(); err != nil {
				t.Fatal(err)
			}
			dsn := start(t, cmd)
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // the status is looked at below
			if got := cmd.ProcessState.ExitCode(); got != status {
				t.Errorf("exit status %d, want %d", got, status)
			}
			refusesConnections(t, dsn)
		})
	}
}

func TestCommandThatIsNotThereIsAFailure(t *testing.T) {
	t.Parallel()
	cmd := command("--", "/nonexistent/command")
	_ = cmd.Run() // the status is looked at below
	if got := cmd.ProcessState.ExitCode(); got != exitFailure {
		t.Errorf("exit status %d, want %d", got, exitFailure)
	}
}

// start starts cmd and returns the DSN that it prints.
func start(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM) }) // for a test that fails before its end
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func refusesConnections(t *testing.T, dsn string) {
	t.Helper()
	if conn, err := pgx.Connect(t.Context(), dsn); err == nil {
		_ = conn.Close(t.Context())
		t.Error("the server is still there")
	}
}
