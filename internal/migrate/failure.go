package migrate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	tern "github.com/jackc/tern/v2/migrate"

	"github.com/fourblocks2020/fencerow"
)

// Error is what every call of this package fails with, but for input that is refused. Its text holds the
// code, the number of the migration and the SQLSTATE, and nothing that came from the DSN or the server.
type Error struct {
	Migration int    // that failed; 0 if none was running
	SQLState  string // as the server gave it; empty if it gave none
	Hint      string // what the operator can do, in our own words; may be empty
	inner     *fencerow.Error
}

// Error returns the operation, the code, the migration and the SQLSTATE.
func (e *Error) Error() string {
	text := e.inner.Error()
	if e.Migration > 0 {
		text += fmt.Sprintf(", migration %03d", e.Migration)
	}
	if e.SQLState != "" {
		text += ", SQLSTATE " + e.SQLState
	}
	return text
}

// Code returns the error's code.
func (e *Error) Code() fencerow.Code { return e.inner.Code() }

// Unwrap returns the [*fencerow.Error] inside, whose code errors.Is compares.
func (e *Error) Unwrap() error { return e.inner }

// Format writes the same text for every verb.
func (e *Error) Format(f fmt.State, _ rune) { fmt.Fprint(f, e.Error()) }

// LogValue returns the code.
func (e *Error) LogValue() slog.Value { return e.inner.LogValue() }

// MarshalText returns the code.
func (e *Error) MarshalText() ([]byte, error) { return e.inner.MarshalText() }

// HistoryError says how the history differs from what was released. Each problem is in our own words.
type HistoryError struct{ Problems []string }

// Error names the problems.
func (e *HistoryError) Error() string {
	return string(fencerow.ErrHistoryInvalid) + ": " + strings.Join(e.Problems, "; ")
}

// Is reports whether target is fencerow.ErrHistoryInvalid.
func (e *HistoryError) Is(target error) bool { return target == fencerow.ErrHistoryInvalid }

func invalidHistory(problems ...string) error { return &HistoryError{Problems: problems} }

func (s *session) failed(ctx context.Context, err error) error {
	code, state, hint := classify(err)
	if ctx.Err() != nil {
		code, err, hint = fencerow.ErrMigrationFailed, ctx.Err(), "it was interrupted: run it again to finish"
	}
	return &Error{Migration: s.step, SQLState: state, Hint: hint, inner: fencerow.NewError(s.op, code, err)}
}

func (s *session) newer() error {
	return &Error{
		Hint:  "use the fencerow that migrated this database, or a newer one",
		inner: fencerow.NewError(s.op, fencerow.ErrSchemaNewer, nil),
	}
}

func (s *session) owned() error {
	const state = "FR003" // the step's own refusal
	return &Error{
		Migration: ownersCame, SQLState: state, Hint: states[state].hint,
		inner: fencerow.NewError(s.op, states[state].code, nil),
	}
}

func (s *session) unowned() error {
	return &Error{
		Migration: outboxCame,
		Hint: "entries from before ownership exist, and this would drop them: delete them from " +
			"fencerow.ledger_outbox yourself if nobody needs them, or stay at version 1 or above",
		inner: fencerow.NewError(s.op, fencerow.ErrEntries, nil),
	}
}

func (s *session) lockedOut(cause error) error {
	return &Error{
		Hint:  "another process is migrating this database; wait for it, then run this again",
		inner: fencerow.NewError(s.op, fencerow.ErrMigrationLocked, cause),
	}
}

// meaning is what a SQLSTATE, or a class of them, tells the operator.
type meaning struct {
	code fencerow.Code
	hint string
}

var states = map[string]meaning{
	"FR003": {fencerow.ErrOwnedEntries, "owned entries exist: finish and prune them, or keep this version"},
	"FR004": {fencerow.ErrEncoding, "create the database with ENCODING 'UTF8' TEMPLATE template0"},
	"25006": {fencerow.ErrStoreReadOnly, "connect to the primary server"},
	"3D000": {fencerow.ErrStoreUnavailable, "create the database first"},
	"40001": {fencerow.ErrStoreConflict, "run it again"},
	"40P01": {fencerow.ErrStoreConflict, "run it again"},
	"42501": {fencerow.ErrStorePermission, "the role must own schema fencerow, or have CREATE on the database"},
	"55P03": {fencerow.ErrStoreBusy, "a transaction holds what the step needs: end it, then run this again"},
	"57014": {fencerow.ErrStoreTimeout, "a statement timeout ended the step: raise it, then run this again"},
	"08":    {fencerow.ErrStoreUnavailable, "connect to the server itself, not through a pooler"},
	"28":    {fencerow.ErrStoreCredentials, "check the user and the password"},
	"53":    {fencerow.ErrStoreFull, "give the server room, then run this again"},
	"57":    {fencerow.ErrStoreUnavailable, "run it again when the server is back"},
}

// settingRefused are the SQLSTATEs that refuse a setting of the connection string on connecting.
var settingRefused = map[string]bool{"42704": true, "42602": true, "22023": true, "55P02": true}

// classify returns err's code, its SQLSTATE and a hint.
func classify(err error) (fencerow.Code, string, string) {
	if server, ok := errors.AsType[*pgconn.PgError](err); ok {
		if _, ok := errors.AsType[*pgconn.ConnectError](err); ok && settingRefused[server.Code] {
			return fencerow.ErrStoreSetting, server.Code, "" // what to do is the same for every command
		}
		for _, key := range []string{server.Code, server.Code[:min(2, len(server.Code))]} {
			if m, ok := states[key]; ok {
				return m.code, server.Code, m.hint
			}
		}
		return fencerow.ErrMigrationFailed, server.Code, ""
	}
	if _, ok := errors.AsType[tern.IrreversibleMigrationError](err); ok {
		return fencerow.ErrMigrationIrreversible, "", "restore a backup to go back further"
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return fencerow.ErrStoreSchema, "", "the version table fencerow.schema_version is empty"
	}
	return fencerow.ErrStoreUnavailable, "", "check that the server runs and can be reached"
}
