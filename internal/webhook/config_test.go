package webhook

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/secretfile"
)

const urlField, secretField = "alert_webhook_url", "alert_webhook_secret_file"

func TestBadSettingsAreRefusedWithoutTheirValues(t *testing.T) {
	good := secretFile(t, secretText)
	const address = "https://alerts.example/" + sentinel
	for name, tt := range map[string]struct {
		url, file string
		field     string
	}{
		"NoURL":          {"", good, urlField},
		"User":           {"https://u:" + sentinel + "@alerts.example/", good, urlField},
		"Fragment":       {address + "#", good, urlField},
		"OtherScheme":    {"ftp://alerts.example/" + sentinel, good, urlField},
		"NoHost":         {"https:///" + sentinel, good, urlField},
		"BadPort":        {"https://alerts.example:99999/" + sentinel, good, urlField},
		"NoURLAtAll":     {"https://%zz" + sentinel, good, urlField},
		"TooLong":        {address + strings.Repeat("x", maxURL), good, urlField},
		"PlainElsewhere": {"http://alerts.example/" + sentinel, good, urlField},
		"NoSecretFile":   {address, "", secretField},
		"MissingFile":    {address, good + sentinel, secretField},
		"Directory":      {address, t.TempDir(), secretField},
		"Device":         {address, os.DevNull, secretField},
		"NoPrefix":       {address, secretFile(t, secretText[6:]), secretField},
		"NoBase64":       {address, secretFile(t, "whsec_"+sentinel), secretField},
		"ShortKey":       {address, secretFile(t, "whsec_"+key(minKey-1)), secretField},
		"LongKey":        {address, secretFile(t, "whsec_"+key(maxKey+1)), secretField},
		"TwoLines":       {address, secretFile(t, secretText+"\n"+secretText), secretField},
		"LargeFile": {
			address, secretFile(t, secretText+strings.Repeat("\n", secretfile.MaxLine)), secretField,
		},
		"BrokenLineInside": {address, secretFile(t, secretText[:20]+"\n"+secretText[20:]), secretField},
	} {
		_, err := New(Config{URL: fencerow.NewSecret(tt.url), SecretFile: tt.file})
		input, ok := errors.AsType[*fencerow.InputError](err)
		if !ok || input.Field != tt.field || strings.Contains(err.Error(), sentinel) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for _, url := range []string{
		address, "http://127.0.0.1:1/x", "http://[::1]:1/x", "http://localhost/x",
		"https://alerts.example:8443/x?y=z",
	} {
		if _, err := New(Config{URL: fencerow.NewSecret(url), SecretFile: good}); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	plain := Config{URL: fencerow.NewSecret("http://alerts.example/"), SecretFile: good, AllowInsecure: true}
	_, err := New(plain)
	check(t, err)
}

func key(n int) string { return base64.StdEncoding.EncodeToString(make([]byte, n)) }

func TestASenderShowsNeitherItsAddressNorItsSecret(t *testing.T) {
	s := newSender(t, Config{})
	for _, held := range []any{s, &struct{ s *Sender }{s}, Config{URL: s.url, SecretFile: "x"}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			got := fmt.Sprintf(verb, held)
			if strings.Contains(got, sentinel) || strings.Contains(got, fmt.Sprintf("%x", sentinel)) {
				t.Errorf("%s of a %T shows it: %s", verb, held, got)
			}
		}
	}
	path := secretFile(t, secretText)
	check(t, os.Chmod(path, 0o644))
	if s.SecretFileExposed() || !newSender(t, Config{SecretFile: path}).SecretFileExposed() {
		t.Error("who can read the secret is not told")
	}
}
