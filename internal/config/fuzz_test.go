package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fourblocks2020/fencerow"
)

// How a password is written into a connection string.
const (
	encodedURL = iota // as it must be in a URL
	rawURL            // as it is: what anybody tries first
	quoted            // as it must be among keywords
	bare              // as it is
	forms
)

// A password is read as it was given, or the connection string is refused: never is another taken for it, of
// one that was written as it must be none is refused, and no error shows it.
func FuzzConnectionString(f *testing.F) {
	for _, s := range []string{
		"", "%", "%41", "p@ss", "1/2", "5?x", "5?x=y&", "#", "a:b", " a b ", "'", `\`, `\'`, "&=+", "[::1]",
		"a,b:1", "5/?a=", " ", "5@?", "5@",
		"🙂원", "\xff\xfe", "\x00", "\n", "\r", "\u2028", "$(id)", "`", "%zz", "%2", "=", "';--", "?host=",
		"@@", "//", "5#", "\t", "5/?", "@h/?", "x sslmode=", strings.Repeat("%", 1<<8),
	} {
		for form := range forms {
			f.Add(s, s, s, uint8(form))
		}
	}
	d := &Database{MaxConns: 1, StoreTimeout: minStoreTimeout}
	f.Fuzz(func(t *testing.T, before, after, user string, how uint8) {
		password, form := before+sentinel+after, how%forms
		if user == "" {
			user = "desk"
		}
		text := connectionString(user, password, form)
		if strings.Contains(text, "\x00") {
			return // no variable can hold it
		}
		t.Setenv(DSNVariable, text)
		// A NUL is nothing that PostgreSQL can be told.
		asItMust := form == quoted || form == encodedURL && !strings.Contains(user+password, "\x00")
		secret, err := d.DSN()
		if err != nil {
			if asItMust {
				t.Fatalf("%q is refused: %v", text, err)
			}
			showsNothing(t, err)
			return
		}
		config, err := pgxpool.ParseConfig(secret.Reveal())
		if err != nil {
			if asItMust {
				t.Fatalf("%q is no connection string", text)
			}
			if _, err = d.Open("test"); err == nil {
				t.Fatalf("%q is taken, and is none", text)
			}
			showsNothing(t, err)
			return
		}
		if form == bare || form == rawURL && strings.Contains(password, "%") {
			return // nobody can tell what it was meant to be
		}
		if got := config.ConnConfig; got.User != user || got.Password != password || got.Host != "localhost" {
			t.Fatalf("%q is read as user %q, password %q, host %q", text, got.User, got.Password, got.Host)
		}
	})
}

// connectionString writes the password as the form says, and the user as it must be.
func connectionString(user, password string, form uint8) string {
	if form == encodedURL || form == rawURL {
		encode := func(s string) string {
			var b strings.Builder
			for i := range len(s) {
				if c := s[i]; c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
					b.WriteByte(c)
				} else {
					fmt.Fprintf(&b, "%%%02x", c)
				}
			}
			return b.String()
		}
		if form == encodedURL {
			password = encode(password)
		}
		return "postgres://" + encode(user) + ":" + password + "@localhost:5433/book"
	}
	quote := func(s string) string { return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'" }
	if form == quoted {
		password = quote(password)
	}
	return "host=localhost password=" + password + " user=" + quote(user)
}

// showsNothing demands the text of such an error, and nothing else however the error is printed.
func showsNothing(t *testing.T, err error) {
	t.Helper()
	unparsed, _ := UsageText(fencerow.ErrDSNInvalid)
	known := []string{unparsed, dsnError(noScheme).Error(), dsnError(noFile).Error(), dsnError(noName).Error()}
	for _, p := range dsnProblems {
		known = append(known, dsnError(p.problem).Error())
	}
	if text, ok := UsageText(err); !ok || !slices.Contains(known, text) {
		t.Fatalf("refused with %q", text)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		got := fmt.Sprintf(verb, err)
		if strings.Contains(got, sentinel) || strings.Contains(got, fmt.Sprintf("%x", sentinel)) {
			t.Fatalf("%s shows the password: %s", verb, got)
		}
	}
}
