package config

import (
	"os"
	"strings"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/secretfile"
)

// readUnlistable returns a secret for which there is no flag, since a list of processes would show it: the
// line of the file if one is named, or else the variable's content; zero if neither is given.
func readUnlistable(variable, field, path string) (fencerow.Secret, error) {
	if path == "" {
		return fencerow.NewSecret(content(variable)), nil
	}
	if err := notBoth(variable, field, path); err != nil {
		return fencerow.Secret{}, err
	}
	return readSecret(field, path)
}

// content returns what a variable holds, without the white space around it, as of a file.
func content(variable string) string { return strings.TrimSpace(os.Getenv(variable)) }

// notBoth refuses a secret that is given as a variable and as a file.
func notBoth(variable, field, path string) error {
	if path != "" && content(variable) != "" {
		return inputError(field, "and "+variable+" are both given; give one of them")
	}
	return nil
}

// readSecret reads a file of one line.
func readSecret(field, path string) (fencerow.Secret, error) {
	line, ok := secretfile.ReadLine(path)
	if !ok {
		return fencerow.Secret{}, inputError(field,
			"names a file that cannot be read, is empty, or is not one line of text")
	}
	return fencerow.NewSecret(line), nil
}
