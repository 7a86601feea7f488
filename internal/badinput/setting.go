package badinput

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

const prefix = "FENCEROW_"

// A Call is a call of a program that is in good order.
type Call struct {
	// Command are the words of the command; none for a program that has no commands.
	Command []string
	// Arguments are those of the command, in order.
	Arguments []string
	// Variables are settings, by name without the prefix.
	Variables map[string]string
	// Only are the settings that are tried in this call, as in [Setting.Name]; all if there are none.
	Only []string
	// Except are settings that this call has no use for: another one tries them.
	Except []string
	// Instead has for a setting those that are taken out of the call where it is tried.
	Instead map[string][]string
}

// A Setting is a flag with its variable, a variable without a flag, or an argument.
type Setting struct {
	Call
	// Name is the flag as it is typed, or the argument as the help shows it; for a variable without a flag it is
	// the variable.
	Name string
	// Variable is the whole name; empty for an argument.
	Variable string

	argument int // its place, or -1
	ruledBy  string
	legal    rule
}

// way is how a value is given.
type way string

// The ways.
const (
	byFlag     way = "flag"
	byVariable way = "variable"
	byArgument way = "argument"
)

// Settings returns every setting of every command in the model of a program, and the variables that have no
// flag, each in a call that is otherwise in good order. calls hold one for each command at least.
func Settings(model *kong.Application, flagless []string, calls ...Call) ([]Setting, error) {
	var all []Setting
	leaves := model.Leaves(false)
	if len(leaves) == 0 {
		leaves = []*kong.Node{model.Node}
	}
	for _, leaf := range leaves {
		words := commandOf(leaf)
		var tried []Setting
		for _, call := range calls {
			if slices.Equal(call.Command, words) {
				tried = append(tried, settingsOf(leaf, flagless, call)...)
			}
		}
		for _, name := range append(flagsOf(leaf), argumentsOf(leaf)...) {
			if !slices.ContainsFunc(tried, func(s Setting) bool { return s.Name == name }) {
				return nil, fmt.Errorf("%s: no call tries %s", strings.Join(words, " "), name)
			}
		}
		all = append(all, tried...)
	}
	for i := range all {
		if err := all[i].findRule(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func commandOf(leaf *kong.Node) []string {
	var words []string
	for node := leaf; node.Type == kong.CommandNode; node = node.Parent {
		words = append([]string{node.Name}, words...)
	}
	return words
}

func settingsOf(leaf *kong.Node, flagless []string, call Call) []Setting {
	var all []Setting
	add := func(s Setting) {
		if (len(call.Only) == 0 || slices.Contains(call.Only, s.Name)) && !slices.Contains(call.Except, s.Name) {
			all = append(all, s)
		}
	}
	for name, variable := range variablesOf(leaf) {
		add(Setting{Call: call, Name: name, Variable: variable, argument: -1})
	}
	for _, variable := range flagless {
		if _, given := call.Variables[strings.TrimPrefix(variable, prefix)]; given {
			add(Setting{Call: call, Name: variable, Variable: variable, argument: -1})
		}
	}
	for i := range call.Arguments {
		add(Setting{Call: call, Name: argumentsOf(leaf)[i], argument: i})
	}
	return all
}

// variablesOf returns the variable of each flag of a command, but of those that end the program before
// anything is read.
func variablesOf(leaf *kong.Node) iter.Seq2[string, string] {
	return func(yield func(flag, variable string) bool) {
		for _, group := range leaf.AllFlags(false) {
			for _, flag := range group {
				if flag.Name == "help" || flag.Name == "version" {
					continue
				}
				if len(flag.Envs) != 1 {
					panic("badinput: --" + flag.Name + " has no variable")
				}
				if !yield("--"+flag.Name, flag.Envs[0]) {
					return
				}
			}
		}
	}
}

func flagsOf(leaf *kong.Node) []string {
	var names []string
	for name := range variablesOf(leaf) {
		names = append(names, name)
	}
	return names
}

func argumentsOf(leaf *kong.Node) []string {
	var names []string
	for _, argument := range leaf.Positional {
		names = append(names, "<"+argument.Name+">")
	}
	return names
}

func (s *Setting) findRule() error {
	bare, command := strings.TrimPrefix(s.Variable, prefix), strings.Join(s.Command, " ")
	for _, name := range []string{command + " " + bare, command + " " + s.Name, bare} {
		if s.legal = rules[name]; s.legal != nil {
			s.ruledBy = name
			return nil
		}
	}
	return fmt.Errorf("no rule says which values %s may have", s)
}

func (s *Setting) String() string {
	return strings.TrimSpace(strings.Join(s.Command, " ") + " " + s.Name)
}

// ways returns how a value can be given to the setting.
func (s *Setting) ways() []way {
	switch {
	case s.argument >= 0:
		return []way{byArgument}
	case s.Name == s.Variable:
		return []way{byVariable}
	}
	return []way{byFlag, byVariable}
}

// with returns the call with a value given to the setting.
func (s *Setting) with(by way, value string) (arguments []string, variables map[string]string) {
	variables = maps.Clone(s.Variables)
	for _, name := range append(s.Instead[s.Name], strings.TrimPrefix(s.Variable, prefix)) {
		delete(variables, name)
	}
	whole := map[string]string{}
	for name, text := range variables {
		whole[prefix+name] = text
	}
	arguments = slices.Clone(s.Command)
	own := slices.Clone(s.Arguments)
	switch by {
	case byFlag:
		arguments = append(arguments, s.Name+"="+value)
	case byVariable:
		whole[s.Variable] = value
	case byArgument:
		own[s.argument] = value
		own = append([]string{"--"}, own...) // A value may begin with a dash.
	}
	return append(arguments, own...), whole
}
