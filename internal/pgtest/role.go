package pgtest

import (
	"crypto/rand"
	"testing"

	"github.com/fourblocks2020/fencerow/internal/pgtest/scram"
)

// Role is a login role without any privilege but those of PUBLIC.
type Role struct{ Name, Password string }

// NewRole makes a login role for the test. Each setting becomes a default of its sessions, as ALTER ROLE ...
// SET makes it: {"default_transaction_isolation": "serializable"}. What it may do, the test grants with
// [Database.Exec].
func (d *Database) NewRole(t testing.TB, settings map[string]string) Role {
	t.Helper()
	role := Role{Name: d.server.newName(), Password: rand.Text()}
	secret, err := scram.Secret(role.Password)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	statements := []string{"CREATE ROLE " + quote(role.Name) + " LOGIN PASSWORD " + quoteLiteral(secret)}
	for name, value := range settings {
		statements = append(statements,
			"ALTER ROLE "+quote(role.Name)+" SET "+quote(name)+" TO "+quoteLiteral(value))
	}
	d.roles = append(d.roles, role.Name)
	if err := d.server.exec(statements...); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return role
}
