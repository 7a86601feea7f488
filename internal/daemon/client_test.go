package daemon

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fourblocks2020/fencerow"
)

func TestAClientsAddressIsChecked(t *testing.T) {
	for _, address := range []string{
		"", "127.0.0.1:8311", "ftp://127.0.0.1", "http://", "http://user:" + sentinel + "@127.0.0.1",
		"http://127.0.0.1/path", "http://127.0.0.1?q=" + sentinel, "http://127.0.0.1#f", "http://%zz" + sentinel,
	} {
		_, err := NewClient(address, fencerow.Secret{})
		if !errors.Is(err, fencerow.ErrInvalidInput) || strings.Contains(err.Error(), sentinel) {
			t.Errorf("%q: got %v", address, err)
		}
	}
}

func TestAClientMistrustsAnswers(t *testing.T) {
	tests := []struct {
		name   string
		answer http.HandlerFunc
		want   fencerow.Code
	}{
		{"APage", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
			ErrDaemonAnswer},
		{"NoBody", func(http.ResponseWriter, *http.Request) {}, ErrDaemonAnswer},
		{"AnotherEntry", func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, http.StatusOK, ProcessResult{CorrelationID: "b"})
		}, ErrDaemonAnswer},
		{"AnErrorThatIsNoCode", func(w http.ResponseWriter, _ *http.Request) {
			writeError(w, http.StatusInternalServerError, "Bad "+sentinel)
		}, ErrDaemonAnswer},
		{"ARedirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, ErrDaemonAnswer},
		{"ACutConnection", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			ErrDaemonUnreachable},
		{"AWrongToken", func(w http.ResponseWriter, _ *http.Request) {
			writeError(w, http.StatusUnauthorized, codeTokenRefused)
		}, ErrDaemonToken},
		{"AStoresCode", func(w http.ResponseWriter, _ *http.Request) {
			writeError(w, http.StatusServiceUnavailable, string(fencerow.ErrStoreBusy))
		}, fencerow.ErrStoreBusy},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(tt.answer)
			defer server.Close()
			client, err := NewClient(server.URL, fencerow.NewSecret("token"))
			check(t, err)
			_, err = client.Process(t.Context(), self, "a", false)
			if !errors.Is(err, tt.want) || strings.Contains(err.Error(), sentinel) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestAClientWithoutADaemonSaysSo(t *testing.T) {
	client, err := NewClient("http://127.0.0.1:1", fencerow.NewSecret(sentinel))
	check(t, err)
	_, err = client.Ready(context.Background())
	if !errors.Is(err, ErrDaemonUnreachable) || strings.Contains(err.Error(), sentinel) {
		t.Errorf("got %v", err)
	}
}

func TestAClientReadsReadiness(t *testing.T) {
	s := serveOps(t, answers(), func(cfg *Config) { cfg.OpsTokenFile = tokenFile(t, "token") })
	doc, err := s.client("token").Ready(t.Context())
	check(t, err)
	equal(t, "reason", doc.Reason, NotReadyStarting)
	equal(t, "instance", doc.Instance, self)
}

func TestAClientGivesUpADaemonThatAnswersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := newPipes()
		client, err := NewClient("http://127.0.0.1:8311", fencerow.Secret{})
		check(t, err)
		client.http.Transport = &http.Transport{DialContext: silent.dial, DisableKeepAlives: true}
		var conns []net.Conn
		accepting := make(chan struct{})
		go func() {
			defer close(accepting)
			for {
				conn, err := silent.Accept()
				if err != nil {
					return
				}
				conns = append(conns, conn) // which is never read from
			}
		}()
		began := time.Now()
		_, err = client.Process(t.Context(), self, "a", false)
		if !errors.Is(err, ErrDaemonUnreachable) {
			t.Errorf("got %v", err)
		}
		equal(t, "time", time.Since(began), askTimeout)
		check(t, silent.Close())
		<-accepting
		for _, conn := range conns {
			check(t, conn.Close())
		}
	})
}
