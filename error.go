package fencerow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
)

// Code is an error of a closed vocabulary: a sentinel to compare with errors.Is. Its text is the code and
// nothing else.
type Code string //nolint:errname // many codes are no errors of their own: they say what another error is

// Error returns the code.
func (c Code) Error() string { return string(c) }

// The codes that leave a store. Callers branch on them with errors.Is.
const (
	// ErrStoreBusy: a row lock was not had in time, or no connection was free. Try again later; nothing was
	// done.
	ErrStoreBusy Code = "store_busy"
	// ErrStoreTimeout: a statement did not end in time. For a write it is not known whether it was done.
	ErrStoreTimeout Code = "store_timeout"
	// ErrStoreUnavailable: the database could not be reached, or the connection was lost. For a write it is not
	// known whether it was done.
	ErrStoreUnavailable Code = "store_unavailable"
	// ErrStoreCredentials: the database refused the user or the password.
	ErrStoreCredentials Code = "store_credentials_refused"
	// ErrStorePermission: the role lacks a grant.
	ErrStorePermission Code = "store_permission_denied"
	// ErrStoreSchema: a table or function is missing or of another version: run fencerow migrate up.
	ErrStoreSchema Code = "store_schema_mismatch"
	// ErrStoreReadOnly: the server is read-only, as a standby is.
	ErrStoreReadOnly Code = "store_read_only"
	// ErrStoreStatement: the session has not the prepared statement that we made, or has it already: a pooler
	// hands out sessions and keeps no prepared statements. Add default_query_exec_mode=exec to the DSN. For a
	// write it is not known whether it was done.
	ErrStoreStatement Code = "store_statement_lost"
	// ErrStoreFull: the server is out of disk, memory or connections.
	ErrStoreFull Code = "store_full"
	// ErrStoreData: the database refused a value (SQLSTATE class 22 or 23).
	ErrStoreData Code = "store_data_refused"
	// ErrStoreConflict: a serialization failure or a deadlock in the caller's own transaction. Repeat the whole
	// transaction.
	ErrStoreConflict Code = "store_conflict"
	// ErrStoreFailed: anything else.
	ErrStoreFailed Code = "store_failed"
	// ErrStoreSetting: the DSN holds a setting that the server refuses when it is connected to. Trying again
	// does not mend it.
	ErrStoreSetting Code = "store_setting_refused"
	// ErrDSNInvalid: the DSN does not parse.
	ErrDSNInvalid Code = "dsn_invalid"

	// ErrMigrationFailed: a step of the schema's history failed and was undone. Nothing of it stands, or running
	// it again finishes it.
	ErrMigrationFailed Code = "migration_failed"
	// ErrMigrationLocked: another process was migrating the same database for longer than the wait. Try again
	// later.
	ErrMigrationLocked Code = "migration_locked"
	// ErrMigrationIrreversible: a step of the history on the way down has no way back.
	ErrMigrationIrreversible Code = "migration_irreversible"
	// ErrSchemaNewer: the database's schema is newer than this binary knows. Use the newer binary.
	ErrSchemaNewer Code = "schema_newer"
	// ErrOwnedEntries: owned entries exist, and going down would lose their owner and their state. Nothing was
	// changed.
	ErrOwnedEntries Code = "owned_entries_exist"
	// ErrEntries: entries without an owner exist, and going down would drop them with their table. Nothing was
	// changed.
	ErrEntries Code = "entries_exist"
	// ErrEncoding: the database is not encoded in UTF8.
	ErrEncoding Code = "encoding_not_utf8"
	// ErrHistoryInvalid: the schema's history is not what was released. The error names each problem.
	ErrHistoryInvalid Code = "history_invalid"

	// ErrInstanceHeld: the instance is on hold; nothing was claimed.
	ErrInstanceHeld Code = "instance_held"
	// ErrUnavailable: the entry cannot be claimed now. The error is a [*ClaimRefusedError] that says why.
	ErrUnavailable Code = "unavailable"
	// ErrForeignInstance: the correlation id exists, but only under another owner or under none.
	ErrForeignInstance Code = "foreign_instance"
	// ErrNotFound: there is no such entry under this instance.
	ErrNotFound Code = "not_found"
	// ErrWrongStatus: the entry is not in the status that the caller expected.
	ErrWrongStatus Code = "wrong_status"
	// ErrEnqueueConflict: the correlation id exists with other content. The error is an [*EnqueueConflictError].
	ErrEnqueueConflict Code = "enqueue_conflict"
	// ErrInvalidInput: the error is an [*InputError].
	ErrInvalidInput Code = "invalid_input"

	// ErrTrustWindowEnded is the cause (context.WithDeadlineCause) of a delivery's context that ends because its
	// claim's trust window does. A [Ledger] reads it with context.Cause, to tell the end of the window from its
	// own timeout.
	ErrTrustWindowEnded Code = "trust_window_ended"
)

// Error is an error that crossed the boundary of a store or an adapter: a code, what was being done, and the
// Go type of what lay underneath. The underlying text is dropped on purpose: it can hold a DSN, a payload or
// provider text (invariant I10), and what is not kept cannot be printed. Every print form gives the operation
// and the code.
type Error struct {
	code      Code
	op        string
	causeType string
	context   error // context.Canceled or context.DeadlineExceeded, whose text is harmless; or nil
}

// NewError wraps cause, met while doing op (a constant phrase such as "claim batch"), as code.
func NewError(op string, code Code, cause error) *Error {
	e := &Error{code: code, op: op, causeType: InnermostType(cause)}
	switch {
	case errors.Is(cause, context.Canceled):
		e.context = context.Canceled
	case errors.Is(cause, context.DeadlineExceeded):
		e.context = context.DeadlineExceeded
	}
	return e
}

// Code returns the error's code.
func (e *Error) Code() Code { return e.code }

// CauseType returns the Go type name of the innermost error that was wrapped, such as "*pgconn.PgError".
func (e *Error) CauseType() string { return e.causeType }

// Error returns the operation and the code.
func (e *Error) Error() string { return e.op + ": " + string(e.code) }

// Is reports whether target is the error's code.
func (e *Error) Is(target error) bool {
	c, ok := target.(Code)
	return ok && c == e.code
}

// Unwrap returns context.Canceled or context.DeadlineExceeded if the cause was one of them.
func (e *Error) Unwrap() error { return e.context }

// Format writes the same text for every verb.
func (e *Error) Format(f fmt.State, _ rune) { fmt.Fprint(f, e.Error()) }

// LogValue returns the code.
func (e *Error) LogValue() slog.Value { return slog.StringValue(string(e.code)) }

// MarshalText returns the code.
func (e *Error) MarshalText() ([]byte, error) { return []byte(e.code), nil }

// InnermostType returns the Go type name of the innermost error that err wraps; of several wrapped side by
// side, the first. For an [*Error] it is the type that the error itself was made from, or its own if there
// was none. It is all that may be shown of an unexpected error.
func InnermostType(err error) string {
	for {
		var next error
		switch e := err.(type) { //nolint:errorlint // walks the chain itself
		case nil:
			return ""
		case *Error:
			if e.causeType != "" {
				return e.causeType
			}
		case interface{ Unwrap() error }:
			next = e.Unwrap()
		case interface{ Unwrap() []error }:
			if all := e.Unwrap(); len(all) > 0 {
				next = all[0]
			}
		}
		if next == nil {
			return fmt.Sprintf("%T", err)
		}
		err = next
	}
}

// InputError refuses a value that a caller gave. Its text names the field and what is wrong with it, never
// the value.
type InputError struct {
	Field   string
	Problem string
}

// Error says what to do.
func (e *InputError) Error() string { return e.Field + " " + e.Problem }

// Is reports whether target is [ErrInvalidInput].
func (e *InputError) Is(target error) bool { return target == ErrInvalidInput }

// EnqueueConflictError says that an entry with this correlation id exists and its content differs. Nothing
// was written for it.
type EnqueueConflictError struct {
	CorrelationID CorrelationID
	OutboxID      OutboxID // of the entry that was there first
}

// Error names the entry.
func (e *EnqueueConflictError) Error() string {
	return "correlation_id " + string(e.CorrelationID) + " is already enqueued with other content"
}

// Is reports whether target is [ErrEnqueueConflict].
func (e *EnqueueConflictError) Is(target error) bool { return target == ErrEnqueueConflict }

// RefusedWhy says why a targeted claim or a requeue was refused. The vocabulary is closed.
type RefusedWhy string

// Why an entry could not be claimed or requeued.
const (
	RefusedLeased   RefusedWhy = "leased"
	RefusedNotDue   RefusedWhy = "not_due"
	RefusedFinished RefusedWhy = "finished"
	RefusedUnknown  RefusedWhy = "unknown"
	RefusedHeld     RefusedWhy = "instance_held"
	RefusedForeign  RefusedWhy = "foreign_instance"
)

// ClaimRefusedError refuses a targeted claim.
type ClaimRefusedError struct {
	Why RefusedWhy
}

// Error names the reason.
func (e *ClaimRefusedError) Error() string { return "claim refused: " + string(e.Why) }

// Is reports whether target is [ErrForeignInstance] or [ErrUnavailable], whichever this refusal is.
func (e *ClaimRefusedError) Is(target error) bool {
	if e.Why == RefusedForeign {
		return target == ErrForeignInstance
	}
	return target == ErrUnavailable
}

// WrongStatusError says which status the entry has instead of the expected one.
type WrongStatusError struct {
	Status Status
}

// Error names the status.
func (e *WrongStatusError) Error() string { return "the entry is " + string(e.Status) }

// Is reports whether target is [ErrWrongStatus].
func (e *WrongStatusError) Is(target error) bool { return target == ErrWrongStatus }

func itoa(n int) string { return strconv.Itoa(n) }
