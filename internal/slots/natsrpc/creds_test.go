package natsrpc

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/slots"
	"github.com/fourblocks2020/fencerow/internal/slots/natstest"
)

// pair returns a key and its public half.
func pair(t *testing.T, create func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string) {
	t.Helper()
	keys, err := create()
	check(t, err)
	public, err := keys.PublicKey()
	check(t, err)
	return keys, public
}

// operated returns a server that trusts an operator, and how users of an account of it get in.
func operated(t *testing.T) (nats *natstest.Server, user func() fencerow.Secret) {
	t.Helper()
	operatorKeys, operatorKey := pair(t, nkeys.CreateOperator)
	accountKeys, accountKey := pair(t, nkeys.CreateAccount)
	operator, err := jwt.NewOperatorClaims(operatorKey).Encode(operatorKeys)
	check(t, err)
	trusted, err := jwt.DecodeOperatorClaims(operator)
	check(t, err)
	account, err := jwt.NewAccountClaims(accountKey).Encode(operatorKeys)
	check(t, err)
	nats = natstest.Start(t, func(o *server.Options) {
		resolver := &server.MemAccResolver{}
		check(t, resolver.Store(accountKey, account))
		o.TrustedOperators, o.AccountResolver = []*jwt.OperatorClaims{trusted}, resolver
	})
	return nats, func() fencerow.Secret {
		t.Helper()
		userKeys, userKey := pair(t, nkeys.CreateUser)
		claims, err := jwt.NewUserClaims(userKey).Encode(accountKeys)
		check(t, err)
		seed, err := userKeys.Seed()
		check(t, err)
		creds, err := jwt.FormatUserConfig(claims, seed)
		check(t, err)
		return fencerow.NewSecret(string(creds))
	}
}

func TestCredentialsOpenTheWayAndOthersDoNot(t *testing.T) {
	nats, user := operated(t)
	_, stranger := operated(t)
	creds := user()
	withoutKey, _, _ := strings.Cut(creds.Reveal(), "-----BEGIN USER NKEY SEED")
	if !WellFormed(creds) || WellFormed(fencerow.NewSecret(withoutKey)) || WellFormed(fencerow.Secret{}) {
		t.Error("credentials are not told from what is none")
	}
	held := func(s fencerow.Secret) Config {
		return Config{URL: nats.URL(), Creds: func() (fencerow.Secret, error) { return s, nil }}
	}
	up(t, held(creds), self, oneSlot)
	if _, err := Ask(t.Context(), held(user()), slots.Request{Instance: self}); err != nil {
		t.Error(err)
	}
	refused := []string{"nats disconnected nats_credentials_refused"}
	for name, cfg := range map[string]Config{"Stranger": held(stranger()), "Nobody": {URL: nats.URL()}} {
		d := run(t, cfg, self, oneSlot, time.Minute)
		if got := d.log.await(t, 1); !slices.Equal(got, refused) {
			t.Errorf("%s: it logs %q", name, got)
		}
	}
}
