package natsrpc

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/fourblocks2020/fencerow/internal/slots"
	"github.com/fourblocks2020/fencerow/internal/slots/natstest"
)

// documented are the permissions that the documentation says are enough. The daemon gives no credentials.
const documented = `
no_auth_user: daemon
authorization { users: [
  {user: daemon, password: d, permissions: {subscribe: "trex.slots.req", allow_responses: true}}
  {user: asker, password: a, permissions: {publish: "trex.slots.req", subscribe: "_INBOX.>"}}
] }`

func TestThePermissionsThatAreDocumentedAreEnough(t *testing.T) {
	bus := natstest.Start(t, func(o *server.Options) { check(t, o.ProcessConfigString(documented)) })
	d := up(t, Config{URL: bus.URL()}, self, oneSlot)
	conn, err := nats.Connect(bus.URL(), nats.UserInfo("asker", "a"))
	check(t, err)
	defer conn.Close()
	for request, want := range map[string]string{
		string(slots.Request{Instance: self}.Document()): `"slot-1"`,
		`{`: malformed,
	} {
		for range 3 {
			answer, err := conn.Request(slots.Subject, []byte(request), patience)
			if err != nil || !strings.Contains(string(answer.Data), want) {
				t.Fatalf("%s: got %+v, %v, want %s", request, answer, err, want)
			}
		}
	}
	d.stop()
	if got := d.log.events(t); !slices.Equal(got, []string{"nats connected"}) {
		t.Errorf("it logs %q", got)
	}
}

// permit sets what somebody without credentials may do.
func permit(o *server.Options, p *server.Permissions) {
	o.Users, o.NoAuthUser = []*server.User{{Username: "nobody", Permissions: p}}, "nobody"
}

// What connects but hears nothing is not connected.
func TestADaemonThatMayNotListenSaysSoAndTriesAgain(t *testing.T) {
	deny := &server.Permissions{Subscribe: &server.SubjectPermission{Deny: []string{slots.Subject}}}
	bus := natstest.Start(t, func(o *server.Options) { permit(o, deny) })
	cfg := Config{URL: bus.URL()}
	d := run(t, cfg, self, oneSlot, time.Minute)
	want := []string{"nats disconnected nats_subject_refused"}
	for _, p := range []*server.Permissions{{}, deny, {}} {
		if got := d.log.await(t, len(want)); !slices.Equal(got, want) {
			t.Fatalf("it logs %q, want %q", got, want)
		}
		bus.Change(func(o *server.Options) { permit(o, p) })
		if p == deny {
			want = append(want, "nats disconnected nats_subject_refused")
		} else {
			want = append(want, "nats connected")
		}
	}
	if got := d.log.await(t, len(want)); !slices.Equal(got, want) {
		t.Fatalf("it logs %q, want %q", got, want)
	}
	if _, err := Ask(t.Context(), cfg, slots.Request{Instance: self}); err != nil {
		t.Error(err)
	}
}

// The reply subject is the asker's choice, so that an answer that may not be sent ends nothing.
func TestAnAnswerThatMayNotBeSentIsOneNotice(t *testing.T) {
	bus := natstest.Start(t, func(o *server.Options) {
		permit(o, &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"forbidden"}}})
	})
	d := up(t, Config{URL: bus.URL()}, self, oneSlot)
	a := newAsker(t, bus.URL())
	own := slots.Request{Instance: self}.Document()
	for range 3 {
		check(t, a.conn.PublishRequest(slots.Subject, "forbidden", own))
	}
	d.log.await(t, 2)
	if _, err := Ask(t.Context(), Config{URL: bus.URL()}, slots.Request{Instance: self}); err != nil {
		t.Error(err)
	}
	d.stop()
	if got := d.log.events(t); !slices.Equal(got, []string{"nats connected", "notice nats_answer_refused"}) {
		t.Errorf("it logs %q", got)
	}
}
