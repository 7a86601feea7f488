package ledger_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/ledger"
)

// sentinel must come out nowhere.
const sentinel = "S3NT1NEL"

func TestConfigurationIsRefusedWithoutRepeatingIt(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name+sentinel)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const good = "https://ledger.example/entries"
	url := func(u string) ledger.Config { return ledger.Config{URL: u} }
	for name, c := range map[string]struct {
		config ledger.Config
		field  string
	}{
		"NoURL":            {url(""), "ledger_url"},
		"NotAURL":          {url("https://" + sentinel + "%zz/"), "ledger_url"},
		"ControlCharacter": {url("https://ledger.example/\n" + sentinel), "ledger_url"},
		"Opaque":           {url("https:" + sentinel), "ledger_url"},
		"OtherScheme":      {url("ftp://" + sentinel), "ledger_url"},
		"NoScheme":         {url(sentinel + ".example/x"), "ledger_url"},
		"User":             {url("https://user:" + sentinel + "@ledger.example"), "ledger_url"},
		"EmptyUser":        {url("https://@" + sentinel), "ledger_url"},
		"Fragment":         {url(good + "#" + sentinel), "ledger_url"},
		"EmptyFragment":    {url(good + sentinel + "#"), "ledger_url"},
		"Query":            {url(good + "?token=" + sentinel), "ledger_url"},
		"EmptyQuery":       {url(good + sentinel + "?"), "ledger_url"},
		"ReadbackQuery":    {ledger.Config{URL: good, ReadbackURL: good + "?" + sentinel}, "ledger_readback_url"},
		"SchemeOfNoToken":  {ledger.Config{URL: good, TokenScheme: sentinel}, "ledger_token_scheme"},
		"HeaderOfNoToken":  {ledger.Config{URL: good, TokenHeader: sentinel}, "ledger_token_header"},
		"CAWithoutTLS":     {ledger.Config{URL: "http://localhost", CAFile: sentinel}, "ledger_ca_file"},
		"CertWithoutTLS": {ledger.Config{URL: "http://localhost", CertFile: sentinel, KeyFile: sentinel},
			"ledger_cert_file"},
		"NoHost":           {url("https:///" + sentinel), "ledger_url"},
		"EmptyPort":        {url("https://" + sentinel + ":/"), "ledger_url"},
		"PortTooLarge":     {url("https://" + sentinel + ":65536/"), "ledger_url"},
		"TooLong":          {url(good + strings.Repeat(sentinel, 400)), "ledger_url"},
		"PlainToElsewhere": {url("http://" + sentinel + ".example"), "ledger_url"},
		"PlainToPrivate":   {url("http://10.0.0.1/" + sentinel), "ledger_url"},
		"Readback":         {ledger.Config{URL: good, ReadbackURL: "http://" + sentinel}, "ledger_readback_url"},
		"MissingToken": {ledger.Config{URL: good, TokenFile: dir + "/" + sentinel + "-none"},
			"ledger_token_file"},
		"EmptyToken": {ledger.Config{URL: good, TokenFile: file("empty", "\n")}, "ledger_token_file"},
		"TwoLines": {ledger.Config{URL: good, TokenFile: file("two", "a\n"+sentinel)},
			"ledger_token_file"},
		"TokenIsADirectory": {ledger.Config{URL: good, TokenFile: dir}, "ledger_token_file"},
		"HugeToken": {ledger.Config{URL: good, TokenFile: file("huge", strings.Repeat("x", 17<<10))},
			"ledger_token_file"},
		"HeaderWithColon": {ledger.Config{URL: good, TokenHeader: sentinel + ":"}, "ledger_token_header"},
		"HeaderOfOurs":    {ledger.Config{URL: good, TokenHeader: "idempotency-key"}, "ledger_token_header"},
		"SchemeWithSpace": {ledger.Config{URL: good, TokenScheme: sentinel + " x"}, "ledger_token_scheme"},
		"MissingCA":       {ledger.Config{URL: good, CAFile: dir + "/" + sentinel + "-none"}, "ledger_ca_file"},
		"EmptyCA":         {ledger.Config{URL: good, CAFile: file("ca", sentinel)}, "ledger_ca_file"},
		"CertWithoutKey":  {ledger.Config{URL: good, CertFile: sentinel}, "ledger_cert_file"},
		"KeyWithoutCert":  {ledger.Config{URL: good, KeyFile: sentinel}, "ledger_key_file"},
		"BadKeyPair": {ledger.Config{URL: good, CertFile: file("c", sentinel), KeyFile: file("k", "")},
			"ledger_cert_file"},
		"RetryableIsNot4xx":   {ledger.Config{URL: good, RetryableStatus: []int{500}}, "ledger_retryable_status"},
		"NegativeDialTimeout": {ledger.Config{URL: good, DialTimeout: -time.Second}, "ledger_dial_timeout"},
		"TooMuchConcurrency":  {ledger.Config{URL: good, Concurrency: ledger.MaxConcurrency + 1}, "concurrency"},
		"VersionWithNewline":  {ledger.Config{URL: good, Version: sentinel + "\r\nX: 1"}, "version"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ledger.New(c.config)
			input, ok := errors.AsType[*fencerow.InputError](err)
			if !ok || input.Field != c.field {
				t.Fatalf("got %v, want an input error of %s", err, c.field)
			}
			if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, sentinel) {
				t.Errorf("the value comes out: %s", text)
			}
		})
	}
}

func TestAddressesThatAreAccepted(t *testing.T) {
	for _, url := range []string{
		"https://ledger.example", "https://10.1.2.3:8443/x", "https://[2001:db8::1]/", "http://localhost:80/",
		"http://LOCALHOST/", "http://127.3.2.1/", "http://[::1]:8080/", "http://[::ffff:127.0.0.1]/",
	} {
		newHTTP(t, url, nil)
	}
	newHTTP(t, "http://ledger.example", func(c *ledger.Config) { c.AllowInsecure = true })
}

// A ledger that repeats everything it was sent, everywhere it can, gets none of it into an answer.
func TestNothingThatALedgerWritesComesOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	writeToken(t, path, sentinel)
	server := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		text := sentinel + " " + r.Header.Get("Authorization") + "\n\x1b[31m"
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("X-Error", sentinel)
		w.Header().Set("Retry-After", sentinel)
		w.Header().Set("Location", "http://"+sentinel)
		w.Header().Set("Content-Type", "application/json")
		switch strings.Split(r.URL.Path, "/")[1] {
		case "document":
			fmt.Fprintf(w, `{"result":"CREATED","ledger_ref":%[1]s,"snapshot":{"slot_id":%[1]s,"currency":"%[2]s",
				"cash_balance":"1","version":1},%[1]s:1}`, quoted, sentinel)
		case "echo":
			fmt.Fprintf(w, `{"correlation_id":%s}`, quoted)
		case "text":
			fmt.Fprint(w, text)
		case "problem":
			w.WriteHeader(http.StatusConflict)
			fmt.Fprintf(w, `{"type":%[1]s,"title":%[1]s,"detail":%[1]s,"code":%[1]s}`, quoted)
		case "refusal":
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, text)
		case "redirect":
			w.WriteHeader(http.StatusFound)
		case "garbage":
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			write(t, conn, text+"\r\n\r\n")
			conn.Close()
		}
	})
	check := func(name string, answer any) {
		encoded, err := json.Marshal(answer)
		if err != nil {
			t.Error(err)
		}
		if text := fmt.Sprintf("%v %+v %#v %s", answer, answer, answer, encoded); strings.Contains(text, sentinel) {
			t.Errorf("%s: it comes out: %s", name, text)
		}
	}
	modes := []string{"document", "echo", "text", "problem", "refusal", "redirect", "garbage"}
	for _, mode := range modes {
		address := server.URL + "/" + mode + "/" + sentinel
		h := newHTTP(t, address, func(c *ledger.Config) { c.TokenFile, c.ReadbackURL = path, address })
		got := h.Deliver(withPatience(t), delivery())
		check(mode, got)
		if got.Snapshot != nil {
			check(mode, *got.Snapshot)
		}
		resolved := h.Resolve(withPatience(t), newEntry())
		check(mode, resolved)
	}
	server.Close()
	h := newHTTP(t, server.URL+"/"+sentinel, func(c *ledger.Config) { c.TokenFile = path })
	check("refused connection", h.Deliver(withPatience(t), delivery()))
}
