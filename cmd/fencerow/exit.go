package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/config"
	"github.com/fourblocks2020/fencerow/internal/daemon"
	"github.com/fourblocks2020/fencerow/internal/migrate"
	"github.com/fourblocks2020/fencerow/internal/slots"
	"github.com/fourblocks2020/fencerow/internal/slots/natsrpc"
)

// The exit statuses beside those in internal/config. They are a contract: see docs/interfaces.md.
const (
	exitNothingDone  = 2
	exitRefused      = 3
	exitClaimLost    = 4
	exitNotCompleted = 5
)

// statusError ends a command with an exit status. An empty text says nothing more: the data said it.
type statusError struct {
	status int
	text   string
	kind   error // for errors.Is, or nil
}

func (e *statusError) Error() string { return e.text }

func (e *statusError) Unwrap() error { return e.kind }

func ended(status int, format string, args ...any) error {
	return &statusError{status: status, text: fmt.Sprintf(format, args...)}
}

func failure(format string, args ...any) error { return ended(config.ExitFailure, format, args...) }

// exitStatus says on standard error what went wrong, if anything, and returns the exit status.
func (a *app) exitStatus(err error) int {
	if err == nil {
		return config.ExitDone
	}
	if status, ok := errors.AsType[*statusError](err); ok {
		if status.text != "" {
			a.say("%s", status.text)
		}
		return status.status
	}
	if text, ok := config.UsageText(err); ok {
		a.say("%s", text)
		return config.ExitUsage
	}
	a.say("%s", textOf(err))
	if hint := hintOf(err); hint != "" {
		a.say("%s", hint)
	}
	switch {
	case errors.Is(err, fencerow.ErrForeignInstance), errors.Is(err, daemon.ErrDaemonOtherInstance):
		return exitRefused
	case errors.Is(err, fencerow.ErrNotFound), errors.Is(err, fencerow.ErrWrongStatus),
		errors.Is(err, fencerow.ErrUnavailable), errors.Is(err, fencerow.ErrInstanceHeld):
		return exitNothingDone
	}
	return config.ExitFailure
}

// textOf returns what may be shown of an error: the texts of our own, which are codes, and the type of any
// other.
func textOf(err error) string {
	if own, ok := errors.AsType[*fencerow.Error](err); ok {
		if outer, ok := errors.AsType[*migrate.Error](err); ok {
			return outer.Error()
		}
		return own.Error()
	}
	if history, ok := errors.AsType[*migrate.HistoryError](err); ok {
		return history.Error()
	}
	if code, ok := errors.AsType[fencerow.Code](err); ok {
		return code.Error()
	}
	if errors.Is(err, context.Canceled) {
		return "interrupted"
	}
	return "unexpected failure (" + fencerow.InnermostType(err) + ")"
}

// hints say what an operator can do about a code.
var hints = map[fencerow.Code]string{
	fencerow.ErrStoreBusy:        "another session holds the row or every connection is in use; try again",
	fencerow.ErrStoreTimeout:     "the server did not answer in time; try again, or raise --store-timeout",
	fencerow.ErrStoreUnavailable: "check that the server runs and that FENCEROW_DSN leads to it",
	fencerow.ErrStoreCredentials: "check the user and the password in FENCEROW_DSN",
	fencerow.ErrStorePermission: "the role lacks a grant on the schema fencerow, or the walls are up and " +
		"fencerow.ledger_role does not give it this instance; \"fencerow doctor\" says which",
	fencerow.ErrStoreSchema: "the schema is not the one that this version works with; " +
		"see \"fencerow migrate status\", then \"fencerow migrate up\"",
	fencerow.ErrStoreReadOnly: "the server is read-only, as a standby is; connect to the primary",
	fencerow.ErrStoreStatement: "a pooler stands before the server and keeps no prepared statements; " +
		"add default_query_exec_mode=exec to FENCEROW_DSN",
	fencerow.ErrStoreSetting:      config.SettingRefused,
	fencerow.ErrStoreFull:         "the server is out of disk, memory or connections",
	fencerow.ErrForeignInstance:   "the correlation id exists, but only under another instance or under none",
	daemon.ErrDaemonUnreachable:   "check that fencerowd runs and that --ops-url leads to its ops listener",
	daemon.ErrDaemonToken:         "give the daemon's token with --ops-token-file (FENCEROW_OPS_TOKEN_FILE)",
	daemon.ErrDaemonOtherInstance: "the daemon at --ops-url serves another instance; nothing was done",
	natsrpc.ErrUnreachable:        "check that the NATS server runs and that --nats-url leads to it",
	natsrpc.ErrCredentials: "give what the NATS server asks for with --nats-creds-file or --nats-token-file " +
		"(FENCEROW_NATS_CREDS_FILE, FENCEROW_NATS_TOKEN_FILE)",
	natsrpc.ErrTLS: "check the server's certificate against --nats-ca-file (FENCEROW_NATS_CA_FILE), and that " +
		"both sides want TLS",
	natsrpc.ErrProtocol: "check that --nats-url leads to a NATS server: what answers there is none, or sends " +
		"more than one does",
	natsrpc.ErrNobodyListens: "no fencerowd listens on this NATS: check that one runs with FENCEROW_NATS_URL, " +
		"and is allowed to subscribe to " + slots.Subject,
	natsrpc.ErrNoAnswer: "other daemons may listen on this NATS, but none of this instance answered: check " +
		"that fencerowd runs for it, and what its log says of nats",
	natsrpc.ErrQuestionRefused: "the NATS server does not let this user publish to " + slots.Subject +
		", or listen to _INBOX.>",
	daemon.ErrDaemonAnswer: "what answered is no fencerowd, one of another version, or one of another " +
		"instance; check the address, and what is in between",
	slots.ErrAnswerTooLarge: "there are more slots than fit into one answer; ask with --ops-url",
}

// toldError is an error that a running daemon answered with: it is about the daemon's surroundings, and not
// about this command's settings.
type toldError struct{ error }

func (e *toldError) Unwrap() error { return e.error }

// told marks an error of asking a daemon.
func told(err error) error {
	if err == nil {
		return nil
	}
	return &toldError{err}
}

const hintOfTold = "the daemon says so of its own database: see its log, and run \"fencerow doctor\" " +
	"with its settings"

func hintOf(err error) string {
	if asked, ok := errors.AsType[*toldError](err); ok {
		own, ok := errors.AsType[*fencerow.Error](asked.error)
		if ok && (strings.HasPrefix(string(own.Code()), "store_") || own.Code() == fencerow.ErrDSNInvalid) {
			return hintOfTold
		}
	}
	if outer, ok := errors.AsType[*migrate.Error](err); ok && outer.Hint != "" {
		return outer.Hint
	}
	for code, hint := range hints {
		if errors.Is(err, code) {
			return hint
		}
	}
	return ""
}
