package webhook

import (
	"crypto/rand"
	"encoding/json"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/observe"
)

// message is an alert on its way. Its id and its bytes are the same on every attempt, so that a receiver that
// got it twice can tell.
type message struct {
	id   string
	body []byte
}

// typePrefix stands before an alert's name in the type of a message.
const typePrefix = "fencerow.alert."

type document struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      data      `json:"data"`
}

// data holds keys, codes and counts only.
type data struct {
	InstanceKey fencerow.InstanceKey `json:"instance_key"`
	Worker      fencerow.WorkerID    `json:"worker,omitempty"`
	Alert       observe.AlertEvent   `json:"alert"`
	Outcome     fencerow.OutcomeKind `json:"outcome,omitempty"`
	Reason      fencerow.ReasonCode  `json:"reason,omitempty"`
	Count       int64                `json:"count"`
}

func newMessage(a observe.Alert) message {
	body, err := json.Marshal(document{
		Type: typePrefix + string(a.Event), Timestamp: a.At.UTC(),
		Data: data{
			InstanceKey: a.Instance, Worker: a.Worker, Alert: a.Event, Outcome: a.Outcome, Reason: a.Reason,
			Count: a.Count,
		},
	})
	if err != nil {
		panic("webhook: a document of plain fields does not marshal")
	}
	return message{id: "msg_" + rand.Text(), body: body}
}
