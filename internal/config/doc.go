// Package config is what fencerow and fencerowd have in common: groups of settings as structs that kong reads
// from flags and from FENCEROW_* variables, the checks of their values, and the parts that are built from
// them.
//
// A command embeds the groups that it needs:
//
//	type processCmd struct {
//		Instance config.Instance `embed:""`
//		Database config.Database `embed:""`
//	}
//
// kong calls the Validate method of each, so that a bad value is refused before a command runs. Nothing here
// opens a connection.
//
// # Secrets
//
// Credentials come from files, and the DSN and the address for alerts from a file or a variable; there is no
// flag for either, since the arguments of a process can be read by every user of its machine. An error says
// which setting is wrong and what would be right, never its value (see [UsageText]): a mistaken paste may
// hold a password.
package config
