// Package badinput is what arrives where something else was expected: values that a person, a template of a
// deployment or an attacker gives to a setting, and documents that were cut short or changed on the way. It
// belongs to tests.
//
// Which values a setting may have is written down here anew, from what its documentation says: [Legal] shares
// no code with the checks that it judges. Settings are found in the model of a command line, so that one that
// is added is tried by itself, and has no rule until somebody writes it.
package badinput
