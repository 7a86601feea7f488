package canary

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// opsScene is the ops listener, and the commands that ask it.
func opsScene(t *testing.T) []row {
	w := newWorld(t)
	t.Cleanup(w.end)
	address := newHostileLedger(t, map[string]ledgerAnswer{
		"hang": {mode: "hang"}, "done": {status: 201, body: "-"},
	})
	w.settings["LEDGER_URL"], w.settings["LEDGER_INTERVAL_SEC"] = address, "0.05"
	base, _, _ := strings.Cut(address, "/"+string(account))
	token := filepath.Join(t.TempDir(), "token")
	check(t, os.WriteFile(token, []byte(opsToken), 0o600))
	drive := func(do func()) func(testing.TB) *world {
		return func(t testing.TB) *world {
			w.row(t)
			do()
			return w
		}
	}
	says := func(code string, do func()) row {
		return row{name: code, codes: []string{code}, drive: drive(do)}
	}
	secretHeader := http.Header{"Authorization": {"Bearer " + string(credential)}, "Cookie": {string(account)}}
	return []row{
		says("token_refused", func() {
			d := w.start(map[string]string{"OPS_TOKEN_FILE": token})
			w.ask(http.MethodGet, d.opsURL()+"/readyz?"+string(account)+"=1", secretHeader)
			other := token + ".other"
			check(w.t, os.WriteFile(other, []byte(credential), 0o600))
			w.run(map[string]string{"OPS_TOKEN_FILE": other}, "process", "--ops-url", d.opsURL(), "done.1")
			w.ask(http.MethodGet, d.opsURL()+"/readyz", http.Header{"Authorization": {"Bearer " + string(opsToken)}})
			check(w.t, os.WriteFile(token, []byte(hostile(opsToken)), 0o600))
			w.ask(http.MethodGet, d.opsURL()+"/readyz", http.Header{"Authorization": {"Bearer " + string(opsToken)}})
			d.stop()
		}),
		says("other_instance", func() {
			d := w.start(nil)
			w.as("desk-2", func() { w.run(nil, "process", "--ops-url", d.opsURL(), "done.1") })
			d.stop()
		}),
		{name: "requests", codes: []string{"host_refused", "origin_refused", "method_not_allowed", "not_found"},
			drive: drive(func() {
				d := w.start(nil)
				s := url.QueryEscape(hostile(setting))
				w.ask(http.MethodDelete, d.opsURL()+"/readyz", secretHeader)
				w.ask(http.MethodGet, d.opsURL()+"/"+s, secretHeader)
				w.ask(http.MethodPost, d.opsURL()+"/v1/process/done.1", http.Header{"Sec-Fetch-Site": {"cross-site"},
					"Origin": {"https://" + string(account)}})
				w.ask(http.MethodGet, d.opsURL()+"/readyz", http.Header{"Host": {string(account) + ".example"}})
				for _, path := range []string{
					"/v1/process/" + s, "/v1/process/x?" + s + "=1", "/v1/process/x?force_due=" + s,
					"/v1/process/x?instance_key=" + s, "/v1/slots?spy=" + s, "/v1/slots?" + s, "/readyz?" + s,
				} {
					w.ask(http.MethodPost, d.opsURL()+path, secretHeader)
					w.ask(http.MethodGet, d.opsURL()+path, secretHeader)
				}
				d.stop()
			})},
		{name: "daemon_unreachable", codes: []string{"daemon_unreachable", "daemon_answer_unreadable"},
			drive: drive(func() {
				w.run(nil, "process", "--ops-url", "http://127.0.0.1:9", "done.1")
				w.run(nil, "process", "--ops-url", "http://"+string(account)+".invalid", "done.1")
				w.run(nil, "process", "--ops-url", base, "done.1")
				w.run(nil, "process", "--json", "--ops-url", hostileDaemon(w.t), "done.1")
				w.run(nil, "slots", "--ops-url", hostileDaemon(w.t))
				w.run(nil, "process", "--ops-url", "http://u:"+string(password)+"@127.0.0.1:9", "done.1")
			})},
		says("ops_listen_failed", func() {
			d := w.start(nil)
			taken := strings.TrimPrefix(d.opsURL(), "http://")
			w.runWith("fencerowd", map[string]string{"OPS_LISTEN": taken}, nil, nil)
			d.stop()
		}),
		says("too_many_requests", func() {
			d := w.start(map[string]string{"LEDGER_INTERVAL_SEC": "3600", "DELIVERY_TIMEOUT": "500ms"})
			d.opsURL()
			var asking sync.WaitGroup
			for range 40 {
				id := "hang." + time.Now().Format("150405.000000000")
				w.enqueue(id)
				asking.Go(func() { w.ask(http.MethodPost, d.opsURL()+"/v1/process/"+id, nil) })
			}
			asking.Wait()
			d.stop()
		}),
		{name: "stopping", codes: []string{"stopping", "writer_stopping"}, drive: drive(func() {
			w.as("desk-3", func() {
				w.enqueue("hang.stopping", "done.later")
				d := w.start(nil)
				at := d.opsURL()
				d.await("batch claimed")
				_ = d.cmd.Process.Signal(syscall.SIGTERM)
				d.await("msg=stopping")
				w.ask(http.MethodGet, at+"/readyz", nil)
				w.run(nil, "process", "--ops-url", at, "done.later")
				d.stop()
			})
		})},
		{name: "stop_overdue", codes: []string{"stop_overdue"}, drive: drive(func() {
			w.as("desk-4", func() {
				tx, err := w.pool.Begin(w.t.Context())
				check(w.t, err)
				defer tx.Rollback(w.t.Context()) //nolint:errcheck // it only held a lock
				_, err = tx.Exec(w.t.Context(), "LOCK TABLE fencerow.ledger_outcome IN EXCLUSIVE MODE")
				check(w.t, err)
				w.enqueue("done.overdue")
				d := w.start(map[string]string{"GRACE": "300ms"})
				d.await("batch claimed")
				d.stop()
			})
		})},
		{name: "polls_failing", codes: []string{"polls_failing", "ledger_writer_run_once_failed"},
			drive: drive(func() {
				w.as("desk-5", func() {
					defer w.raise("INSERT", "ledger_claim", "XX000", "true")()
					w.enqueue("done.failing")
					d := w.start(nil)
					until(w.t, "three failed polls", func() bool { return strings.Count(d.text(), "poll failed") > 3 })
					w.ask(http.MethodGet, d.opsURL()+"/readyz", nil)
					d.stop()
				})
			})},
		{name: "starting", codes: []string{"starting", "store_not_ready", "ledger_writer_start_failed"},
			drive: drive(func() {
				w.as("desk-6", func() {
					defer w.raise("INSERT", "ledger_instance", "XX000", "true")()
					d := w.start(nil)
					d.await("store_not_ready")
					w.ask(http.MethodGet, d.opsURL()+"/readyz", nil)
					d.stop()
				})
			})},
		says("token_file_unreadable", func() {
			gone := filepath.Join(filepath.Dir(token), string(account))
			check(w.t, os.WriteFile(gone, []byte(opsToken), 0o600))
			d := w.start(map[string]string{"OPS_TOKEN_FILE": gone})
			at := d.opsURL()
			check(w.t, os.Remove(gone))
			w.ask(http.MethodGet, at+"/readyz", secretHeader)
			d.await("token_file_unreadable")
			d.stop()
		}),
		{name: "token_file", codes: []string{"token_file_readable_by_others"}, drive: drive(func() {
			open := token + ".open"
			check(w.t, os.WriteFile(open, []byte(opsToken), 0o600))
			check(w.t, os.Chmod(open, 0o604))
			d := w.start(map[string]string{"OPS_TOKEN_FILE": open})
			d.await("token_file_readable_by_others")
			d.stop()
		})},
	}
}

// hostileDaemon answers as a daemon does, in the words of somebody else.
func hostileDaemon(t testing.TB) (address string) {
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusServiceUnavailable)
		if r.URL.Path == "/healthz" {
			_, _ = io.WriteString(rw, `{"status":"ok"}`)
			return
		}
		_, _ = io.WriteString(rw, `{"error":"`+string(providerText)+`","message":"`+string(account)+`"}`)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// staleScene takes longer than the others: readiness ends ten seconds after the last good poll.
func staleScene(*testing.T) []row {
	return []row{{name: "polls_stale", codes: []string{"polls_stale"}, drive: func(t testing.TB) *world {
		w := newWorld(t)
		w.settings["LEDGER_URL"], w.settings["LEDGER_INTERVAL_SEC"] = "http://127.0.0.1:9/", "0.05"
		w.enqueue("due-1")
		d := w.start(nil)
		d.await("target held")
		tx, err := w.pool.Begin(t.Context())
		check(t, err)
		defer tx.Rollback(t.Context()) //nolint:errcheck // it only held a lock
		_, err = tx.Exec(t.Context(), "SELECT 1 FROM fencerow.ledger_instance FOR UPDATE")
		check(t, err)
		d.await("store busy")
		until(t, "polls_stale", func() bool {
			w.ask(http.MethodGet, d.opsURL()+"/readyz", nil)
			return strings.Contains(w.rendered.String(), "polls_stale")
		})
		d.stop()
		return w
	}}}
}
