package natsrpc

import (
	"testing"

	"github.com/fourblocks2020/fencerow/internal/slots"
	"github.com/fourblocks2020/fencerow/internal/slots/natstest"
)

// More arrive than can be answered at once, and each is answered, if only by a refusal.
func TestEachQuestionOfABurstIsAnswered(t *testing.T) {
	const burst = 3000
	bus := natstest.Start(t)
	up(t, Config{URL: bus.URL()}, self, oneSlot)
	a := newAsker(t, bus.URL())
	own := string(slots.Request{Instance: self}.Document())
	for range burst {
		a.send(own)
	}
	for n := range burst {
		if _, err := a.answers.NextMsg(patience); err != nil {
			t.Fatalf("after %d answers: %v", n, err)
		}
	}
}
