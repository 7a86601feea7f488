package pgtest

import (
	"net"
	"net/url"
	"strings"
)

// Keys of a connection string that have a place of their own in its URL form.
const (
	keyDatabase = "dbname"
	keyUser     = "user"
	keyPassword = "password"
	keyHost     = "host"
	keyPort     = "port"
)

// setting is one part of a connection string. The last one of a key counts.
type setting struct{ key, value string }

// DSNOption changes a connection string.
type DSNOption func() []setting

// As connects as role instead of as superuser.
func As(role Role) DSNOption {
	return func() []setting { return []setting{{keyUser, role.Name}, {keyPassword, role.Password}} }
}

// Via connects to another host and port, a proxy's for example. It panics when addr is not HOST:PORT.
func Via(addr string) DSNOption {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		panic("pgtest.Via: " + err.Error())
	}
	return func() []setting { return []setting{{keyHost, host}, {keyPort, port}} }
}

// With adds a parameter, for example With("default_query_exec_mode", "simple_protocol").
func With(key, value string) DSNOption {
	return func() []setting { return []setting{{key, value}} }
}

// withSettings returns dsn with settings replaced, in the form that it has: a URL or key=value pairs.
func withSettings(dsn string, settings ...setting) string {
	if !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") {
		escape := strings.NewReplacer(`\`, `\\`, `'`, `\'`)
		for _, s := range settings {
			dsn += " " + s.key + "='" + escape.Replace(s.value) + "'"
		}
		return dsn
	}
	u, err := url.Parse(dsn)
	if err != nil {
		panic("pgtest: the server's DSN is not a URL") // the server was connected to with it; say no more of it
	}
	query := u.Query()
	for _, s := range settings {
		switch s.key {
		case keyDatabase:
			u.Path = "/" + s.value
		case keyUser:
			password, _ := u.User.Password()
			u.User = url.UserPassword(s.value, password)
		case keyPassword:
			u.User = url.UserPassword(u.User.Username(), s.value)
		case keyHost:
			u.Host = net.JoinHostPort(s.value, u.Port())
		case keyPort:
			u.Host = net.JoinHostPort(u.Hostname(), s.value)
		default:
			query.Set(s.key, s.value)
			continue
		}
		query.Del(s.key) // a parameter would win over the place set above
	}
	// A connection string is no form: a plus sign in it is a plus sign.
	u.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20")
	return u.String()
}
