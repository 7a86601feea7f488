package main

import (
	"errors"
	"fmt"
	"strings"

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

// flagged names a field as the flag of the same name.
func flagged(err error) error {
	input, ok := errors.AsType[*fencerow.InputError](err)
	if !ok {
		return err
	}
	return named("--"+strings.ReplaceAll(input.Field, "_", "-"), err)
}
