package main

import (
	"io"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/fourblocks2020/fencerow/internal/config"
)

func parser(t testing.TB) *kong.Kong {
	t.Helper()
	p, err := config.NewParser(&commands{}, "fencerow", description, kong.Writers(io.Discard, io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestHelpIsAsCommitted(t *testing.T) {
	t.Parallel()
	for _, leaf := range parser(t).Model.Leaves(true) {
		path := strings.Fields(leaf.FullPath())[1:]
		var words []string
		for _, word := range path {
			if !strings.HasPrefix(word, "<") && !strings.HasPrefix(word, "-") {
				words = append(words, word)
			}
		}
		t.Run(strings.Join(words, "_"), func(t *testing.T) {
			t.Parallel()
			r := command{}.want(t, 0, append(words, "--help")...)
			golden(t, "help/"+strings.Join(words, "_")+".txt", r.stdout)
		})
	}
	golden(t, "help/fencerow.txt", command{}.want(t, 0, "--help").stdout)
}

func TestEveryFlagHasAVariable(t *testing.T) {
	t.Parallel()
	flags := 0
	var walk func(n *kong.Node)
	walk = func(n *kong.Node) {
		for _, flag := range n.Flags {
			if flag.Name == "help" || flag.Name == "version" {
				continue
			}
			flags++
			if len(flag.Envs) != 1 || !strings.HasPrefix(flag.Envs[0], "FENCEROW_") {
				t.Errorf("--%s of %s has the variables %v", flag.Name, n.Path(), flag.Envs)
			}
		}
		for _, child := range n.Children {
			walk(child)
		}
	}
	walk(parser(t).Model.Node)
	if flags < 50 {
		t.Errorf("only %d flags were looked at", flags)
	}
}

func TestNoFlagTakesTheDSNOrAToken(t *testing.T) {
	t.Parallel()
	for _, leaf := range parser(t).Model.Leaves(true) {
		for _, group := range leaf.AllFlags(false) {
			for _, flag := range group {
				secret := strings.Contains(flag.Name, "dsn") || strings.HasSuffix(flag.Name, "token")
				if secret && !strings.HasSuffix(flag.Name, "-file") && !flag.IsBool() {
					t.Errorf("%s takes a secret by --%s", leaf.Path(), flag.Name)
				}
			}
		}
	}
}

func TestVersionNamesTheBuild(t *testing.T) {
	t.Parallel()
	mustContain(t, command{}.want(t, 0, "--version").stdout, "fencerow ")
}
