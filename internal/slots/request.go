package slots

import (
	"encoding/json"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/jsonwalk"
)

// Subject is what requests are sent to over NATS.
const Subject = "trex.slots.req"

// MaxRequest bounds a request, in bytes. The longest key, written in escapes only, fits.
const MaxRequest = 1 << 10

// Request asks for the slots of one instance.
type Request struct {
	Instance fencerow.InstanceKey `json:"instance_key"`
	// Spy also asks for what an operator wants to know. Absent in the document it is false.
	Spy bool `json:"spy"`
}

// Document returns the request as it is sent.
func (r Request) Document() []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic("slots: a request of plain fields does not marshal")
	}
	return b
}

// ParseRequest reads a request: a JSON object of at most [MaxRequest] bytes whose names are exact, known and
// given once each. The error is an [*fencerow.InputError].
func ParseRequest(document []byte) (Request, error) {
	var r Request
	if len(document) > MaxRequest || !jsonwalk.IsObject(document) {
		return r, malformed("is not a small JSON object")
	}
	seen := map[string]bool{}
	for name, value := range jsonwalk.Members(document) {
		member := string(name)
		if seen[member] {
			return r, malformed("has a member twice")
		}
		seen[member] = true
		switch member {
		case "instance_key":
			key, ok := jsonwalk.String(value)
			if !ok {
				return r, malformed("has an instance_key that is no string")
			}
			r.Instance = fencerow.InstanceKey(key)
		case "spy":
			text := string(value)
			if text != "true" && text != "false" {
				return r, malformed("has a spy that is neither true nor false")
			}
			r.Spy = text == "true"
		default:
			return r, malformed("has an unknown member")
		}
	}
	return r, r.Instance.Validate()
}

func malformed(problem string) error {
	return &fencerow.InputError{Field: "the request", Problem: problem}
}
