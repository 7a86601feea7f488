package pgstore

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
)

// Obstacle says what keeps a program from its database. The vocabulary is closed.
type Obstacle string

// The obstacles. Any other is empty.
const (
	ObstacleNoDatabase  Obstacle = "database_missing"   // SQLSTATE 3D000
	ObstaclePassword    Obstacle = "password_refused"   // 28P01
	ObstacleLogin       Obstacle = "login_refused"      // the others of class 28: no such role, or pg_hba.conf
	ObstacleStarting    Obstacle = "server_starting"    // 57P03
	ObstacleTLSRefused  Obstacle = "tls_refused"        // the server has none
	ObstacleCertificate Obstacle = "certificate_failed" // the server's is not one that we trust
	ObstacleName        Obstacle = "name_not_found"
	ObstacleNobody      Obstacle = "connection_refused" // nobody listens there
)

// Obstacle tries to connect once more, and returns what is in the way, if anything known is. Of several
// servers, or ways to one, it is the obstacle of the one that came furthest.
func (s *Store) Obstacle(ctx context.Context) Obstacle {
	ctx, cancel := context.WithTimeout(ctx, s.timeout+s.timeout/4)
	defer cancel()
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return obstacleOf(err)
	}
	conn.Release()
	return ""
}

func obstacleOf(err error) Obstacle {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch {
		case refused.Code == "3D000":
			return ObstacleNoDatabase
		case refused.Code == "28P01":
			return ObstaclePassword
		case strings.HasPrefix(refused.Code, "28"):
			return ObstacleLogin
		case refused.Code == "57P03":
			return ObstacleStarting
		}
		return ""
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return ObstacleCertificate
	}
	// The driver has no type for it. A test meets the real one.
	if strings.Contains(err.Error(), "server refused TLS connection") {
		return ObstacleTLSRefused
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return ObstacleName
	}
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT) {
		return ObstacleNobody
	}
	return ""
}
