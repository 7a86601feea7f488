package natsrpc

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/fourblocks2020/fencerow/internal/slots"
	"github.com/fourblocks2020/fencerow/internal/slots/natstest"
)

func TestWhoMayNotAskIsToldSoAtOnce(t *testing.T) {
	for name, permissions := range map[string]*server.Permissions{
		"ByPublishing":            {Publish: &server.SubjectPermission{Deny: []string{slots.Subject}}},
		"ByListeningForTheAnswer": {Subscribe: &server.SubjectPermission{Deny: []string{"_INBOX.>"}}},
	} {
		t.Run(name, func(t *testing.T) {
			bus := natstest.Start(t, func(o *server.Options) {
				o.Users = []*server.User{{Username: "nobody", Permissions: permissions}}
				o.NoAuthUser = "nobody"
			})
			began := time.Now()
			_, err := Ask(t.Context(), Config{URL: bus.URL()}, slots.Request{Instance: self})
			if took := time.Since(began); !errors.Is(err, ErrQuestionRefused) || took > askWithin/2 {
				t.Errorf("got %v after %s", err, took)
			}
		})
	}
}
