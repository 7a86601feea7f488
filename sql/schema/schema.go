// Package schema carries the history of the database's schema inside the binary: tern migrations, and what
// makes the schema for them.
package schema

import "embed"

// Files holds the migrations (NNN_verb_noun.sql) and prepare.sql, which runs before them and creates the
// schema where it may.
//
//go:embed *.sql
var Files embed.FS

// Hashes lists the SHA-256 of each migration, one line a file, as sha256sum prints and checks it.
//
//go:embed history.sha256
var Hashes string
