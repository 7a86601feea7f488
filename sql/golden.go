// Package sql carries the dump of the schema that the history must lead to.
package sql

import _ "embed" // for the dump

// Golden is the normalised dump of the newest schema, as internal/migrate writes it.
//
//go:embed schema.golden.sql
var Golden string
