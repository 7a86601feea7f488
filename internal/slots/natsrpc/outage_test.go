package natsrpc

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/slots/natstest"
)

func TestAReasonThatChangesIsTold(t *testing.T) {
	bus := natstest.New(t, func(o *server.Options) { o.Authorization = "token" })
	var token atomic.Pointer[string]
	set := func(s string) { token.Store(&s) }
	set("wrong")
	d := run(t, Config{URL: bus.URL(), Token: func() (fencerow.Secret, error) {
		if s := *token.Load(); s != "" {
			return fencerow.NewSecret(s), nil
		}
		return fencerow.Secret{}, errors.New(sentinel)
	}}, self, oneSlot, time.Minute)
	var want []string
	for _, step := range []struct {
		change func()
		told   string
	}{
		{func() {}, "nats disconnected nats_unreachable"},
		{bus.Start, "nats disconnected nats_credentials_refused"},
		{func() { set("") }, "nats disconnected nats_credentials_unreadable"},
		{func() { set("token") }, "nats connected"},
		{bus.Stop, "nats disconnected nats_unreachable"},
	} {
		step.change()
		want = append(want, step.told)
		if got := d.log.await(t, len(want)); !slices.Equal(got, want) {
			t.Fatalf("it logs %q, want %q", got, want)
		}
	}
}

func TestReasonsThatAlternateDoNotFillTheLog(t *testing.T) {
	var o outage
	told, now := map[fencerow.Code]int{}, time.Now()
	for i := range 1200 { // twenty minutes
		code := []fencerow.Code{ErrUnreachable, ErrCredentials}[i%2]
		if o.isNews(code, now.Add(time.Duration(i)*time.Second)) {
			told[code]++
		}
	}
	if told[ErrUnreachable] != 4 || told[ErrCredentials] != 4 {
		t.Errorf("told %v times, want each once in %s", told, tellAgain)
	}
}
