// Package scram prepares random passwords for the servers of tests.
package scram

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
)

const (
	// iterations is as low as can be: it makes guessing dear, and nobody guesses a random password. PostgreSQL's
	// own choice is 4,096, which a client computes anew for each connection. With the race detector watching,
	// they took half of the time that a short test used.
	iterations = 1
	saltLength = 16
)

// Secret returns what a server keeps of a password that was made at random. Wherever PostgreSQL takes a
// password to keep, it takes this in its place.
func Secret(password string) (string, error) {
	salt := make([]byte, saltLength)
	_, _ = rand.Read(salt) // never fails
	salted, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		return "", fmt.Errorf("salt a password: %w", err)
	}
	sign := func(name string) []byte {
		mac := hmac.New(sha256.New, salted)
		mac.Write([]byte(name))
		return mac.Sum(nil)
	}
	storedKey := sha256.Sum256(sign("Client Key"))
	text := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", iterations, text(salt), text(storedKey[:]),
		text(sign("Server Key"))), nil
}
