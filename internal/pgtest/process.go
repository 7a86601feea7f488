package pgtest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"github.com/fourblocks2020/fencerow/internal/pgtest/wire"
)

const serverCommand = "github.com/fourblocks2020/fencerow/internal/pgtest/cmd/pgtest-server"

// packageDir is where the test binary was started: in its package's folder, hence inside the module. A test
// may change the working directory later.
var packageDir, packageDirErr = os.Getwd()

// process is a running pgtest-server.
type process struct {
	cmd   *exec.Cmd
	input io.WriteCloser
	dsn   string

	mu      sync.Mutex
	answers *bufio.Reader
}

// envTarget tells a pgtest-server which server its standby or pooler is made for.
const envTarget = "FENCEROW_PGTEST_TARGET"

// startProcess starts a pgtest-server with a server of a kind and waits until tests may connect to it. The
// target is for a standby or a pooler.
func startProcess(kind string, settings map[string]string, target string) (*process, error) {
	if packageDirErr != nil {
		return nil, packageDirErr
	}
	cmd := exec.Command("go", "run", serverCommand, "-serve", kind)
	for name, value := range settings {
		cmd.Args = append(cmd.Args, "-set", name+"="+value)
	}
	cmd.Env = append(os.Environ(), envTarget+"="+target)
	cmd.Dir = packageDir
	cmd.Stderr = os.Stderr
	// Of its own session: an interrupt from the terminal must reach it as the end of its input, after the test
	// binary.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start pgtest-server: %w", err)
	}
	p := &process{cmd: cmd, input: input, answers: bufio.NewReader(output)}
	greeting, err := p.answer()
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	p.dsn = greeting.DSN
	return p, nil
}

// ask sends a command and waits until it is carried out.
func (p *process) ask(command wire.Command) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := fmt.Fprintln(p.input, command); err != nil {
		return err
	}
	_, err := p.answer()
	return err
}

func (p *process) answer() (wire.Answer, error) {
	line, err := p.answers.ReadBytes('\n')
	if err != nil {
		return wire.Answer{}, fmt.Errorf("pgtest-server ended without an answer: %w", err)
	}
	var a wire.Answer
	if err := json.Unmarshal(line, &a); err != nil {
		return wire.Answer{}, fmt.Errorf("pgtest-server answered %q: %w", line, err)
	}
	if a.Error != "" {
		return wire.Answer{}, errors.New(a.Error)
	}
	return a, nil
}

// close ends the server and waits for its end.
func (p *process) close() error {
	return errors.Join(p.input.Close(), p.cmd.Wait())
}
