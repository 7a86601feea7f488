package observe

import (
	"log/slog"

	"github.com/fourblocks2020/fencerow"
)

// Notices about NATS.
const (
	// NoticeNATSAnswerRefused: the NATS server does not let this daemon answer a request.
	NoticeNATSAnswerRefused Notice = "nats_answer_refused"
)

// NATSConnected logs that requests over NATS are answered from now on.
func (o *Observer) NATSConnected() { o.write(slog.LevelInfo, "nats connected") }

// NATSDisconnected logs that the NATS server went away or was not there at start, and why; and that it is
// another reason now. To be called on the change only.
func (o *Observer) NATSDisconnected(why fencerow.Code) {
	o.write(slog.LevelWarn, "nats disconnected", slog.String(keyReason, safe(why)))
}
