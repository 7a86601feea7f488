package badinput

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"os/exec"
	"strings"
)

// trial is one value given to one setting in one way.
type trial struct {
	*Setting
	by    way
	value value
}

const (
	// share is which part of the values a setting is tried with where the same setting was tried with all of
	// them in another command: every sixteenth.
	share = 16
	// ofVariables is which part of the values variables are tried with: every second. They are read as flags
	// are.
	ofVariables = 2
)

// trials yields every value for every setting, in every way in which a process of its own could be given it
// and, for flags and arguments, with a NUL. A setting that several commands have in common is tried with all
// values in one of them and with some in each other. directory is as in [valuesFor].
func trials(settings []Setting, directory string) iter.Seq[trial] {
	return func(yield func(trial) bool) {
		seen := map[string]bool{}
		values := valuesFor(directory)
		for i := range settings {
			s := &settings[i]
			first := !seen[s.ruledBy]
			seen[s.ruledBy] = true
			for j, v := range values {
				if (i+j)%every != 0 || !first && (i+j)%share != 0 {
					continue
				}
				for _, by := range s.ways() {
					if by == byVariable && len(s.ways()) > 1 && (i+j)/every%ofVariables != 0 {
						continue
					}
					if by == byVariable && strings.Contains(v.text, "\x00") {
						continue // No environment can hold it.
					}
					if !yield(trial{s, by, v}) {
						return
					}
				}
			}
		}
	}
}

// String names the trial, and not its value.
func (t trial) String() string {
	return fmt.Sprintf("%s given as a %s: %s", t.Setting, t.by, t.value.name)
}

// isLegal reports whether the setting may have the value.
func (t trial) isLegal() bool { return t.legal(t.value.text) }

// call returns the arguments of the call, and all its variables by their whole names.
func (t trial) call() (arguments []string, variables map[string]string) {
	return t.with(t.by, t.value.text)
}

// picks yields one value for each setting that it must refuse, another one from setting to setting, in one
// way after the other. None holds a NUL, so that each can be given to a process.
func picks(settings []Setting, directory string) iter.Seq[trial] {
	return func(yield func(trial) bool) {
		values := valuesFor(directory)
		next := 0
		for i := range settings {
			s := &settings[i]
			ways := s.ways()
			for range values {
				t := trial{s, ways[i%len(ways)], values[next%len(values)]}
				next++
				if t.isLegal() || strings.Contains(t.value.text, "\x00") {
					continue
				}
				if !yield(t) {
					return
				}
				break
			}
		}
	}
}

// run makes the call in a process of its own, which has no variables but the call's, in a folder.
func (t trial) run(ctx context.Context, binary, folder string) (Ending, error) {
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	arguments, variables := t.call()
	cmd := exec.CommandContext(ctx, binary, arguments...)
	cmd.Dir = folder
	cmd.Env = []string{"HOME=" + folder}
	for name, value := range variables {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		return Ending{}, err
	}
	return Ending{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}, nil
}
