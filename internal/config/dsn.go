package config

import (
	"errors"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fourblocks2020/fencerow"
)

const dsnSettings = DSNVariable + ", or the file that --dsn-file (" + variablePrefix + "DSN_FILE) names,"

// SettingRefused says what can be done about [fencerow.ErrStoreSetting].
const SettingRefused = "the connection string holds a setting that the server refuses; see the names and " +
	"values of its parameters"

// dsnProblems say what is wrong with a connection string, by the words of the driver's error. Its text holds
// the string, so that it is searched and never shown.
var dsnProblems = []struct{ words, problem string }{
	{"invalid port", "has a port that is not a number from 1 to 65535"},
	{" port numbers to ", "has another number of ports than of hosts"},
	{"sslmode is invalid", "has an sslmode that is none of disable, allow, prefer, require, verify-ca and " +
		"verify-full"},
	{"failed to configure TLS", "has settings of TLS (sslmode, sslrootcert, sslcert, sslkey and the like) " +
		"that do not go together, or a certificate or key that is none"},
	{"invalid sslcertmode", "has an sslcertmode that is none of disable, allow and require"},
	{"invalid connect_timeout", "has a connect_timeout that is not a number of seconds"},
	{"unknown target_session_attrs", "has target_session_attrs that are none of any, read-write, read-only, " +
		"primary, standby and prefer-standby"},
	{"_protocol_version", "has a min_protocol_version or max_protocol_version that cannot be spoken"},
	{"unknown channel_binding", "has a channel_binding that is none of disable, prefer and require"},
	{"invalid require_auth", "has a require_auth that lists what is no way to authenticate"},
	{"failed to read service", "names a service that is in no service file that can be read"},
	{"default_query_exec_mode", "has a default_query_exec_mode that is none, such as exec"},
	{"_cache_capacity", "has a cache capacity that is not a whole number"},
	{"pool_", "has a parameter that begins with pool_ and is not a number or a duration"},
}

const (
	noScheme = "must begin with postgres:// or postgresql://, or be of the form host=... user=..."
	noFile   = "names a file, such as that of sslrootcert, sslcert or sslkey, that cannot be read"
	noName   = "has a parameter that neither this program nor a server knows: its name is misspelt, or it is " +
		"one of libpq's that is not supported here"
)

var (
	anyScheme = regexp.MustCompile(`^\s*[A-Za-z][A-Za-z0-9+.-]*://`)
	// notOfServer begins the names of parameters of a client, which no server lets a session set. What is left
	// of them when the driver has taken its own is misspelt, or only libpq's.
	notOfServer = regexp.MustCompile(`^(connect|fallback_|gss|hostaddr|keepalives|load_balance|oauth|pool|` +
		`require|scram_client|scram_server|ssl|target)`)
)

// checkDSN refuses what no connection can be made with, before one is tried, and says why without repeating
// anything of it.
func checkDSN(dsn fencerow.Secret) error {
	text := dsn.Reveal()
	if anyScheme.MatchString(text) && !isURL(text) {
		return dsnError(noScheme)
	}
	if err := checkURL(text); err != nil {
		return err
	}
	parsed, err := pgxpool.ParseConfig(text)
	if err != nil {
		return parseProblem(err)
	}
	for name := range parsed.ConnConfig.RuntimeParams {
		if notOfServer.MatchString(name) {
			return dsnError(noName)
		}
	}
	return nil
}

func dsnError(problem string) error {
	return &fencerow.InputError{Field: dsnSettings, Problem: problem}
}

func parseProblem(err error) error {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return dsnError(noFile)
	}
	words := err.Error() // The string stands before the reason, in backquotes.
	words = words[strings.LastIndex(words, "`: ")+1:]
	i := slices.IndexFunc(dsnProblems, func(p struct{ words, problem string }) bool {
		return strings.Contains(words, p.words)
	})
	if i < 0 {
		return fencerow.NewError("parse the DSN", fencerow.ErrDSNInvalid, nil)
	}
	return dsnError(dsnProblems[i].problem)
}

func isURL(text string) bool {
	return strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://")
}

// checkURL refuses a URL in which a password that is not percent-encoded could be read as another: what
// stands behind an @ in it as the host, whose name is then asked for in the network, what stands behind a /
// or a ? as the name of the database or as settings, and spaces at its ends as none. So none of these may
// stand before the last @, wherever that is. A # ends the URL for other programs.
func checkURL(dsn string) error {
	if !isURL(dsn) {
		return nil
	}
	_, rest, _ := strings.Cut(dsn, "://")
	before := rest[:max(strings.LastIndex(rest, "@"), 0)]
	if strings.ContainsAny(rest, "# ") || strings.ContainsAny(before, "/?@") {
		return fencerow.NewError("parse the DSN", fencerow.ErrDSNInvalid, nil)
	}
	return nil
}
