package canary

import (
	"bytes"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// secret is a text that must not be shown. Its letters are all lower case and stand for themselves in every
// form that escapes only what is special, so that a search for them finds those forms too.
type secret string

// The secrets that the tests plant, named for what they stand for. What surrounds them where they are planted
// is what breaks parsers and quoting.
const (
	credential   secret = "zqxcredentialxqz"
	account      secret = "zqxaccountxqz"
	ledgerToken  secret = "zqxledgertokenxqz"
	opsToken     secret = "zqxopstokenxqz"
	password     secret = "zqxpasswordxqz"
	dsnPart      secret = "zqxdsnpartxqz"
	payload      secret = "zqxpayloadxqz"
	providerText secret = "zqxprovidertextxqz"
	databaseText secret = "zqxdatabasetextxqz"
	setting      secret = "zqxsettingxqz"
	panicText    secret = "zqxpanictextxqz"
	natsToken    secret = "zqxnatstokenxqz"
	// webhookSecret signs alerts.
	webhookSecret secret = "zqxwebhooksecretxqz"
	// reference is a ledger's own name of a booking. The database keeps it, and `fencerow show` shows it; a log
	// never does.
	reference secret = "zqxreferencexqz"
)

func secrets() []secret {
	return []secret{credential, account, ledgerToken, opsToken, password, dsnPart, payload, providerText,
		databaseText, setting, panicText, natsToken, webhookSecret, reference}
}

// hostile is text around a secret that would end a record, colour a terminal, or break a parser.
func hostile(s secret) string {
	return "\x1b[31m" + string(s) + "\r\nlevel=ERROR msg=forged %zz %s \"'`\\ \x00\x7f\u2028\u009b" + string(s)
}

// printable is the same without what a header or a JSON text cannot hold.
func printable(s secret) string { return string(s) + ` 100%zz "'\ <b> ` + string(s) }

// forms returns what to look for, in lower case and as it is.
func (s secret) forms() (lower, exact []string) {
	b := []byte(s)
	each := func(format string) string {
		var out strings.Builder
		for _, c := range b {
			fmt.Fprintf(&out, format, c)
		}
		return out.String()
	}
	lower = []string{
		string(s), hex.EncodeToString(b), strings.TrimSpace(each("%02x ")), strings.TrimSuffix(each("%02x:"), ":"),
		each("%%%02x"), each(`\x%02x`), each(`\u%04x`), each(`\%03o`), each("&#%d;"),
		strings.TrimSpace(each("%d ")), strings.TrimSuffix(each("%d,"), ","),
	}
	for offset := range 5 {
		// The text may stand anywhere in what was encoded: its first and last characters depend on its neighbours.
		padded := append(bytes.Repeat([]byte{0}, offset), b...)
		if offset < 3 {
			text := base64.RawStdEncoding.EncodeToString(padded)
			exact = append(exact, text[(offset*8+5)/6:len(padded)*8/6])
		}
		text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(padded)
		lower = append(lower, strings.ToLower(text[(offset*8+4)/5:len(padded)*8/5]))
	}
	return lower, exact
}

var patterns = sync.OnceValue(func() map[secret][2][]string {
	all := map[secret][2][]string{}
	for _, s := range secrets() {
		lower, exact := s.forms()
		all[s] = [2][]string{lower, exact}
	}
	return all
})

// shown returns the secrets that a text holds in any form.
func shown(text string, besides ...string) []string {
	var found []string
	lowered := strings.ToLower(text)
	contains := func(lower, exact []string) bool {
		for _, form := range lower {
			if strings.Contains(lowered, form) {
				return true
			}
		}
		for _, form := range exact {
			if strings.Contains(text, form) {
				return true
			}
		}
		return false
	}
	for s, forms := range patterns() {
		if contains(forms[0], forms[1]) {
			found = append(found, string(s))
		}
	}
	for _, s := range besides {
		lower, exact := secret(s).forms()
		lower[0] = strings.ToLower(lower[0])
		if contains(lower, exact) {
			found = append(found, s)
		}
	}
	return found
}

func TestEveryFormOfASecretIsFound(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"", "a", "ab", "abc", "abcd", "user:"} {
		text := before + string(password) + "/%é\n"
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		for form, rendered := range map[string]string{
			"raw": text, "upper": strings.ToUpper(text), "json": string(quoted), "quoted": strconv.Quote(text),
			"ascii": strconv.QuoteToASCII(text), "query": url.QueryEscape(text), "path": url.PathEscape(text),
			"userinfo": url.UserPassword("u", text).String(), "hex": hex.EncodeToString([]byte(text)),
			"HEX": fmt.Sprintf("%X", text), "spaced": fmt.Sprintf("% x", text),
			"bytes": fmt.Sprintf("%d", []byte(text)),
			"go":    fmt.Sprintf("%#v", text), "base64": base64.StdEncoding.EncodeToString([]byte(text)),
			"base64url": base64.RawURLEncoding.EncodeToString([]byte(text)),
			"base32":    base32.StdEncoding.EncodeToString([]byte(text)), "bytea": fmt.Sprintf(`\x%x`, text),
			"twice": url.QueryEscape(string(quoted)),
		} {
			if got := shown("some " + rendered + " more"); len(got) != 1 || got[0] != string(password) {
				t.Errorf("%s after %q: found %v in %s", form, before, got, rendered)
			}
		}
	}
	if got := shown(`level=INFO msg="batch claimed" instance_key=desk-1 correlation_ids=[zqx]`); got != nil {
		t.Errorf("found %v where there is none", got)
	}
	if got := shown("who is Pgtest_Role_1?", "pgtest_role_1"); len(got) != 1 {
		t.Errorf("found %v, not the one given", got)
	}
}
