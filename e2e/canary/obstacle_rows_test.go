package canary

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"

	"github.com/fourblocks2020/fencerow/internal/pgstore"
)

// obstacleScene is everything that is known to keep a program from its database. Doctor alone says which it
// is, in words of its own.
func obstacleScene(t *testing.T) []row {
	w := newWorld(t)
	t.Cleanup(w.end)
	refused := func(state string) func(t testing.TB) string {
		return func(t testing.TB) string { return newHostileServer(t, serverError{state: state, atStart: true}) }
	}
	encrypted := func(certificate func(t testing.TB) *tls.Config) func(t testing.TB) string {
		return func(t testing.TB) string {
			e := serverError{state: "XX000"}
			if certificate != nil {
				e.tls = certificate(t)
			}
			return strings.Replace(newHostileServer(t, e), "sslmode=disable", "sslmode=verify-full", 1)
		}
	}
	at := func(address string) string {
		return "postgres://" + string(account) + ":" + string(password) + "@" + address + "/" + string(dsnPart)
	}
	var rows []row
	for is, by := range map[pgstore.Obstacle]struct {
		dsn  func(t testing.TB) string
		word string
	}{
		pgstore.ObstacleNoDatabase:  {refused("3D000"), "has no such database"},
		pgstore.ObstaclePassword:    {refused("28P01"), "refuses the password"},
		pgstore.ObstacleLogin:       {refused("28000"), "does not let this user in"},
		pgstore.ObstacleStarting:    {refused("57P03"), "is starting or stopping"},
		pgstore.ObstacleTLSRefused:  {encrypted(nil), "speaks no TLS"},
		pgstore.ObstacleCertificate: {encrypted(hostileTLS), "certificate is not trusted"},
		pgstore.ObstacleName: {func(testing.TB) string {
			return at(string(dsnPart) + ".invalid")
		}, "name does not resolve"},
		pgstore.ObstacleNobody: {func(t testing.TB) string {
			closed, err := net.Listen("tcp", "127.0.0.1:0")
			check(t, err)
			check(t, closed.Close())
			return at(closed.Addr().String())
		}, "nobody listens there"},
	} {
		rows = append(rows, row{name: string(is), codes: []string{string(is)}, shown: []string{by.word},
			drive: func(t testing.TB) *world {
				w.row(t)
				dsn := map[string]string{"DSN": by.dsn(t)}
				w.run(dsn, "doctor")
				w.run(dsn, "doctor", "--json")
				return w
			}})
	}
	return rows
}
