package ledger_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/ledger"
)

// pemPlace is a setting that names a file of certificates or a key, and a file that it would take.
type pemPlace struct {
	name, good string
	set        func(c *ledger.Config, path string)
}

func pemPlaces(a *authority) []pemPlace {
	_, cert, key := a.issue("good", time.Now().Add(time.Hour))
	return []pemPlace{
		{"Authorities", a.file, func(c *ledger.Config, path string) { c.CAFile = path }},
		{"Certificate", cert, func(c *ledger.Config, path string) { c.CertFile, c.KeyFile = path, key }},
		{"Key", key, func(c *ledger.Config, path string) { c.CertFile, c.KeyFile = cert, path }},
	}
}

// refused fails the test unless the configuration is refused at once. free is called to end what hangs.
func refused(t *testing.T, config ledger.Config, free func()) {
	t.Helper()
	made := make(chan error, 1)
	go func() {
		_, err := ledger.New(config)
		made <- err
	}()
	select {
	case err := <-made:
		if _, ok := errors.AsType[*fencerow.InputError](err); !ok {
			t.Errorf("got %v, want an input error", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("it blocks")
		free()
		t.Logf("much later: %v", <-made)
	}
}

func TestCertificatesThatAreNoFileAreRefused(t *testing.T) {
	for _, place := range pemPlaces(newAuthority(t)) {
		t.Run(place.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "pipe")
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
			config := ledger.Config{URL: "https://ledger.example/entries"}
			place.set(&config, path)
			refused(t, config, func() {
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

func TestCertificatesInAFileWithoutEndAreRefused(t *testing.T) {
	padding := bytes.Repeat([]byte("\n"), 4<<20)
	for _, place := range pemPlaces(newAuthority(t)) {
		t.Run(place.name, func(t *testing.T) {
			content, err := os.ReadFile(place.good)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "long.pem")
			if err := os.WriteFile(path, append(content, padding...), 0o600); err != nil {
				t.Fatal(err)
			}
			config := ledger.Config{URL: "https://ledger.example/entries"}
			place.set(&config, path)
			refused(t, config, func() {})
		})
	}
}
