package canary

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/slots"
	"github.com/fourblocks2020/fencerow/internal/slots/natsrpc"
	"github.com/fourblocks2020/fencerow/internal/slots/natstest"
)

// natsScene is questions about slots over NATS: servers that refuse, and daemons that are none.
func natsScene(t *testing.T) []row {
	w := newWorld(t)
	t.Cleanup(w.end)
	w.settings["LEDGER_URL"], w.settings["LEDGER_INTERVAL_SEC"] = "http://127.0.0.1:9/", "0.05"
	token := filepath.Join(t.TempDir(), string(account))
	check(t, os.WriteFile(token, []byte(natsToken), 0o600))
	drive := func(do func(t testing.TB)) func(testing.TB) *world {
		return func(t testing.TB) *world {
			w.row(t)
			do(t)
			return w
		}
	}
	refusal := func(code string, set func(t testing.TB) map[string]string) row {
		return row{name: code, codes: []string{code}, drive: drive(func(t testing.TB) {
			settings := set(t)
			for _, format := range []string{"text", "json"} {
				settings["LOG_FORMAT"] = format
				d := w.start(settings)
				d.await(code)
				d.stop()
			}
			w.run(settings, "slots")
			w.run(settings, "slots", "--json", "--spy")
		})}
	}
	url := func(s *natstest.Server) map[string]string { return map[string]string{"NATS_URL": s.URL()} }
	return []row{
		{name: "answered", shown: []string{"slot-1"}, drive: drive(func(t testing.TB) {
			settings := url(natstest.Start(t, func(o *server.Options) { o.Authorization = string(natsToken) }))
			settings["NATS_TOKEN_FILE"] = token
			w.enqueue("nats-1")
			d := w.start(settings)
			d.await("nats connected")
			w.run(settings, "slots")
			w.run(settings, "slots", "--json", "--spy")
			w.run(nil, "slots", "--spy", "--ops-url", d.opsURL())
			d.stop()
		})},
		{name: "nobody", codes: []string{"nats_nobody_listens", "nats_no_answer"}, drive: drive(func(t testing.TB) {
			settings := url(natstest.Start(t))
			w.run(settings, "slots")
			d := w.start(settings)
			d.await("nats connected")
			w.as("desk-2", func() { w.run(settings, "slots") })
			d.stop()
		})},
		{name: "question_refused", codes: []string{"nats_question_refused"}, drive: drive(func(t testing.TB) {
			settings := url(natstest.Start(t, func(o *server.Options) {
				o.Users = []*server.User{{Username: string(account), Permissions: &server.Permissions{
					Publish: &server.SubjectPermission{Deny: []string{"trex.>"}},
				}}}
				o.NoAuthUser = string(account)
			}))
			w.run(settings, "slots")
		})},
		{name: "hostile_daemon", shown: []string{"daemon_answer_unreadable"}, drive: drive(func(t testing.TB) {
			s := natstest.Start(t)
			for _, answer := range []string{
				fmt.Sprintf(`{"error":%q}`, providerText),
				fmt.Sprintf(`{"error":%q,"message":%q}`, account, providerText),
				hostile(providerText), fmt.Sprintf(`{"instance_key":%q,"slots":[]}`, account),
			} {
				conn, err := nats.Connect(s.URL())
				check(t, err)
				_, err = conn.Subscribe(slots.Subject, func(m *nats.Msg) { _ = m.Respond([]byte(answer)) })
				check(t, err)
				check(t, conn.Flush())
				w.run(url(s), "slots")
				w.run(url(s), "slots", "--json")
				conn.Close()
			}
		})},
		{name: "hostile_requests", shown: []string{"nats connected"}, drive: drive(func(t testing.TB) {
			s := natstest.Start(t)
			d := w.start(url(s))
			d.await("nats connected")
			conn, err := nats.Connect(s.URL(), nats.Name(hostileText(credential)))
			check(t, err)
			defer conn.Close()
			for _, request := range []string{
				hostile(setting), fmt.Sprintf(`{"instance_key":%q}`, setting), fmt.Sprintf(`{%q:1}`, setting),
				fmt.Sprintf(`{"instance_key":"desk-1","spy":%q}`, setting), `{"instance_key":"desk-1","spy":true}`,
			} {
				answer, err := conn.Request(slots.Subject, []byte(request), time.Second)
				if err != nil {
					continue // another instance's is not answered
				}
				w.see("an answer over NATS", string(answer.Data))
			}
			d.stop()
		})},
		{name: "answer_too_large", codes: []string{"answer_too_large"}, drive: drive(func(t testing.TB) {
			settings := url(natstest.Start(t, func(o *server.Options) { o.MaxPayload = 4 << 10 }))
			w.as("desk-3", func() {
				w.db.Exec(t, `
INSERT INTO fencerow.ledger_slot (instance_key, slot_id)
SELECT 'desk-3', 'slot-' || n
FROM generate_series(1, 100) n`)
				d := w.start(settings)
				d.await("nats connected")
				w.run(settings, "slots")
				d.stop()
			})
		})},
		refusal("nats_unreachable", func(testing.TB) map[string]string {
			return map[string]string{"NATS_URL": "nats://127.0.0.1:9"}
		}),
		refusal("nats_credentials_refused", func(t testing.TB) map[string]string {
			settings := url(natstest.Start(t, func(o *server.Options) { o.Authorization = string(credential) }))
			settings["NATS_TOKEN_FILE"] = token
			return settings
		}),
		refusal("nats_tls_failed", func(t testing.TB) map[string]string {
			s := natstest.Start(t, func(o *server.Options) { o.TLS, o.TLSConfig = true, hostileTLS(t) })
			return map[string]string{"NATS_URL": "tls" + s.URL()[len("nats"):]}
		}),
		refusal("nats_protocol_refused", func(t testing.TB) map[string]string {
			return map[string]string{"NATS_URL": "nats://" + rubbish(t)}
		}),
		{name: "nats_credentials_unreadable", codes: []string{"nats_credentials_unreadable"},
			drive: drive(func(t testing.TB) {
				// It is read before the server is asked; a daemon that starts has just read it.
				_, err := natsrpc.Ask(t.Context(), natsrpc.Config{
					URL:   "nats://127.0.0.1:9",
					Token: func() (fencerow.Secret, error) { return fencerow.Secret{}, errors.New(hostile(natsToken)) },
				}, slots.Request{Instance: desk})
				everyForm(w, err)
				check(t, os.WriteFile(token+".bad", []byte(hostile(natsToken)), 0o600))
				w.run(map[string]string{"NATS_URL": "nats://127.0.0.1:9", "NATS_TOKEN_FILE": token + ".bad"}, "slots")
				w.run(map[string]string{"NATS_URL": "nats://127.0.0.1:9", "NATS_CREDS_FILE": token}, "slots")
				w.run(map[string]string{"NATS_URL": "nats://u:" + string(password) + "@127.0.0.1:9"}, "slots")
			})},
		{name: "nats_subject_refused", codes: []string{"nats_subject_refused"}, drive: drive(func(t testing.TB) {
			d := w.start(url(natstest.Start(t, func(o *server.Options) {
				o.Users = []*server.User{{Username: string(account), Permissions: &server.Permissions{
					Subscribe: &server.SubjectPermission{Deny: []string{slots.Subject}},
				}}}
				o.NoAuthUser = string(account)
			})))
			d.await("nats_subject_refused")
			d.stop()
		})},
		{name: "nats_answer_refused", codes: []string{"nats_answer_refused"}, drive: drive(func(t testing.TB) {
			bus := natstest.Start(t, func(o *server.Options) {
				o.Users = []*server.User{{Username: string(account), Permissions: &server.Permissions{
					Publish: &server.SubjectPermission{Deny: []string{string(account)}},
				}}}
				o.NoAuthUser = string(account)
			})
			d := w.start(url(bus))
			d.await("nats connected")
			conn, err := nats.Connect(bus.URL())
			check(t, err)
			defer conn.Close()
			check(t, conn.PublishRequest(slots.Subject, string(account), []byte(`{"instance_key":"desk-1"}`)))
			d.await("nats_answer_refused")
			d.stop()
		})},
	}
}

// rubbish listens until the test ends, tells whoever connects what is no protocol, and returns its address.
func rubbish(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "-ERR '"+hostile(providerText)+"'\r\n")
			_ = conn.Close()
		}
	}()
	return listener.Addr().String()
}

// hostileTLS is a certificate that nobody trusts, full of secrets.
func hostileTLS(t testing.TB) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		Subject:  pkix.Name{CommonName: printable(providerText), Organization: []string{string(account)}},
		DNSNames: []string{string(providerText) + ".example"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	check(t, err)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		MinVersion:   tls.VersionTLS12,
	}
}
