package main

import (
	"github.com/fourblocks2020/fencerow/internal/daemon"
	"github.com/fourblocks2020/fencerow/internal/observe"
	"github.com/fourblocks2020/fencerow/internal/slots"
	"github.com/fourblocks2020/fencerow/internal/slots/natsrpc"
)

// newResponder returns what answers over NATS; nil if no server is named.
func newResponder(
	line *commandLine, builder *slots.Builder, observer *observe.Observer,
) (daemon.Responder, error) {
	if !line.NATS.Given() {
		return nil, nil //nolint:nilnil // nobody is to answer
	}
	cfg, err := line.NATS.Config()
	if err != nil {
		return nil, err
	}
	for _, setting := range line.NATS.Exposed() {
		observer.FileNotice(observe.NoticeTokenFileReadable, setting)
	}
	return natsrpc.NewServer(cfg, builder, observer, line.Writer.Grace), nil
}
