package migrate

import (
	"context"
	"crypto/rand"
	_ "embed" // for the statement
	"encoding/hex"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fourblocks2020/fencerow"
)

const (
	scratchPrefix = "fencerow_verify_"
	// dropGrace bounds the dropping of a scratch database, also after the caller's context has ended.
	dropGrace = 30 * time.Second
)

//go:embed sql/may_create_database.sql
var mayCreateDatabaseSQL string

// inScratch calls do with a runner for a database that is created before and dropped after. A process that is
// killed in between leaves the database; its name says what it was for.
func (r *runner) inScratch(ctx context.Context, do func(*runner) error) (err error) {
	s, err := r.connect(ctx, "create a scratch database")
	if err != nil {
		return err
	}
	defer s.close()
	var may bool
	if err := s.conn.QueryRow(ctx, mayCreateDatabaseSQL).Scan(&may); err != nil {
		return s.failed(ctx, err)
	}
	if !may {
		return &Error{
			Hint:  "verify works in a database of its own: the role needs CREATEDB",
			inner: fencerow.NewError(s.op, fencerow.ErrStorePermission, nil),
		}
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	name := scratchPrefix + hex.EncodeToString(random[:])
	quoted := pgx.Identifier{name}.Sanitize()
	defer func() { err = errors.Join(err, r.dropScratch(quoted)) }()
	create := "CREATE DATABASE " + quoted + " TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'"
	if _, err := s.conn.Exec(ctx, create); err != nil {
		return s.failed(ctx, err)
	}
	config := r.config.Copy()
	config.Database = name
	return do(&runner{config: config, files: r.files, wait: r.wait})
}

// dropScratch has a connection of its own: the one that created the database ends with a cancelled context.
func (r *runner) dropScratch(quoted string) error {
	ctx, cancel := context.WithTimeout(context.Background(), dropGrace)
	defer cancel()
	s, err := r.connect(ctx, "drop the scratch database")
	if err != nil {
		return err
	}
	defer s.close()
	if _, err := s.conn.Exec(ctx, "DROP DATABASE IF EXISTS "+quoted+" WITH (FORCE)"); err != nil {
		return s.failed(ctx, err)
	}
	return nil
}
