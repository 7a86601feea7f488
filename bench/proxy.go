package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// proxy stands between clients and the server and counts what the clients ask.
type proxy struct {
	listener net.Listener
	server   string // HOST:PORT
	running  sync.WaitGroup

	// roundTrips are the messages that a client waits for an answer after; statements are those executed.
	roundTrips, statements atomic.Int64
}

func startProxy(ctx context.Context, server string) (*proxy, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: listener, server: server}
	p.running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // closed
			}
			p.running.Go(func() { p.serve(ctx, client) })
		}
	})
	return p, nil
}

func (p *proxy) address() string { return p.listener.Addr().String() }

// close waits for the connections; their clients have closed them.
func (p *proxy) close() error {
	err := p.listener.Close()
	p.running.Wait()
	return err
}

func (p *proxy) serve(ctx context.Context, client net.Conn) {
	defer func() { _ = client.Close() }() // a client's end is not ours to report
	server, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.server)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }() // as above
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(client, server) // its end is the connection's end
		_ = client.Close()
	})
	_ = p.forward(server, bufio.NewReader(client)) // its end is the connection's end
	_ = server.Close()
	back.Wait()
}

// forward passes a client's messages on. The first has no type: it opens the session.
func (p *proxy) forward(server io.Writer, client *bufio.Reader) error {
	for opened := false; ; opened = true {
		var head []byte
		if opened {
			kind, err := client.ReadByte()
			if err != nil {
				return err
			}
			p.count(kind)
			head = append(head, kind)
		}
		var length [4]byte
		if _, err := io.ReadFull(client, length[:]); err != nil {
			return err
		}
		if _, err := server.Write(append(head, length[:]...)); err != nil {
			return err
		}
		rest := int64(binary.BigEndian.Uint32(length[:])) - int64(len(length))
		if _, err := io.CopyN(server, client, rest); err != nil {
			return err
		}
	}
}

// count knows the messages of PostgreSQL's protocol by their first byte.
func (p *proxy) count(kind byte) {
	const simpleQuery, execute, sync = 'Q', 'E', 'S'
	switch kind {
	case simpleQuery:
		p.statements.Add(1)
		p.roundTrips.Add(1)
	case execute:
		p.statements.Add(1)
	case sync:
		p.roundTrips.Add(1)
	}
}
