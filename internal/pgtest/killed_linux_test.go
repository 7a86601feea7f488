package pgtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fourblocks2020/fencerow/internal/pgtest/wire"
)

const (
	// envVictim makes the test binary a victim: it takes up a server, names it, and waits to be killed.
	envVictim = "FENCEROW_PGTEST_VICTIM"
	// deathTimeout is how long a server may outlive what it was started for.
	deathTimeout = 30 * time.Second
)

func TestMain(m *testing.M) {
	if os.Getenv(envVictim) != "" {
		s, err := shared()
		answer := wire.Answer{}
		if err != nil {
			answer.Error = err.Error()
		} else {
			answer.DSN = s.dsn
		}
		_ = json.NewEncoder(os.Stdout).Encode(answer) // the reader finds what is missing
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestKilledTestBinaryLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	victim := exec.Command(os.Args[0])
	// Not the shared server of this run, nor a container: a cluster whose processes and files are seen from
	// here.
	victim.Env = append(os.Environ(), envVictim+"=1", envDSN+"=", "FENCEROW_TEST_POSTGRES_IMAGE=",
		"DOCKER_HOST=tcp://127.0.0.1:1")
	data, postmaster := startAndLocate(t, victim)
	kill(t, victim)
	awaitGone(t, postmaster)
	awaitRemoved(t, data)
}

func TestKilledServerCommandLeavesNoServer(t *testing.T) {
	t.Parallel()
	binary := filepath.Join(t.TempDir(), "pgtest-server")
	if out, err := exec.Command("go", "build", "-o", binary, serverCommand).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	command := exec.Command(binary, "-serve", "private")
	data, postmaster := startAndLocate(t, command)
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(data)) }) // nobody is left to do it
	kill(t, command)
	awaitGone(t, postmaster)
}

// startAndLocate starts cmd, which answers with a server's DSN, and returns the server's data folder and
// process.
func startAndLocate(t *testing.T, cmd *exec.Cmd) (data string, postmaster int) {
	t.Helper()
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	// Kept open: not the end of its input is what ends it, but the kill.
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // for a test that fails before it kills
	line, err := bufio.NewReader(output).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var answer wire.Answer
	if err := json.Unmarshal(line, &answer); err != nil || answer.Error != "" {
		t.Fatalf("%v %s", err, line)
	}
	conn, err := pgx.Connect(t.Context(), answer.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if err := conn.QueryRow(t.Context(), "SHOW data_directory").Scan(&data); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(content), "\n")
	if postmaster, err = strconv.Atoi(first); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(postmaster, 0); err != nil {
		t.Fatalf("the server's process: %v", err)
	}
	return data, postmaster
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // "signal: killed"
}

func awaitGone(t *testing.T, pid int) {
	t.Helper()
	await(t, "the server ends", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
}

func awaitRemoved(t *testing.T, path string) {
	t.Helper()
	await(t, "its folder is removed", func() bool {
		_, err := os.Stat(filepath.Dir(path))
		return errors.Is(err, os.ErrNotExist)
	})
}

// await asks every few milliseconds, since another process's orphan cannot be waited for.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(deathTimeout)
	for !done() {
		select {
		case <-deadline:
			t.Fatalf("waited %s in vain until %s", deathTimeout, what)
		case <-tick.C:
		}
	}
}
