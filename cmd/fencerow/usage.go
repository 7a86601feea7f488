package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/fourblocks2020/fencerow"
)

// usage refuses a flag or an argument. Its value is never repeated: a mistaken paste may hold a secret.
func usage(flag, problem string, args ...any) error {
	return &fencerow.InputError{Field: flag, Problem: fmt.Sprintf(problem, args...)}
}

// named says the same of a flag or an argument as the user knows it.
func named(flag string, err error) error {
	input, ok := errors.AsType[*fencerow.InputError](err)
	if !ok {
		return err
	}
	return &fencerow.InputError{Field: flag, Problem: input.Problem}
}

// withVariable names a flag's variable too, in an error about a flag of the command that was chosen: it may
// have been given in a file of settings.
func withVariable(parsed *kong.Context, err error) error {
	input, ok := errors.AsType[*fencerow.InputError](err)
	if !ok {
		return err
	}
	for _, flag := range parsed.Flags() {
		if "--"+flag.Name == input.Field && len(flag.Envs) > 0 {
			return named(input.Field+" ("+flag.Envs[0]+")", err)
		}
	}
	return err
}

// flagged names a field as the flag of the same name.
func flagged(err error) error {
	input, ok := errors.AsType[*fencerow.InputError](err)
	if !ok {
		return err
	}
	return named("--"+strings.ReplaceAll(input.Field, "_", "-"), err)
}
