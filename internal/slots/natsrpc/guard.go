package natsrpc

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"strconv"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/slots"
)

// ErrProtocol says that what answers at the address is no NATS server, or sends more at once than any does.
const ErrProtocol fencerow.Code = "nats_protocol_refused"

// Bounds of what a server may send.
const (
	// maxLine bounds a line of the protocol, in bytes. The longest is the first, which may list the servers of
	// a cluster.
	maxLine = 128 << 10
	// maxMessage bounds a message with its headers, in bytes: the largest answer, or a question eight
	// thousand times too large, which is to get its refusal.
	maxMessage = slots.MaxAnswer + 64<<10
)

// guard is a connection whose reader gets nothing but whole lines of the protocol and messages of bounded
// size. The client library makes room for a message as soon as its size is announced, and for a line as long
// as none ends: the server, or whoever sits on the wire, could end the process. What the library would read
// in another way than this does is refused, so that both agree where lines and messages end. It serves one
// reader.
type guard struct {
	net.Conn          // for all but reading and closing
	raw      net.Conn // that it goes over
	in       *bufio.Reader
	line     []byte // rest of a line that may be handed over
	body     int    // rest of a message that may be handed over
	ends     bool   // a message's end comes after the body
}

// Read hands over what has been checked, and waits for more if there is nothing.
func (g *guard) Read(p []byte) (int, error) {
	if len(g.line) == 0 && g.body == 0 {
		if err := g.next(); err != nil {
			return 0, err
		}
	}
	if len(g.line) > 0 {
		n := copy(p, g.line)
		g.line = g.line[n:]
		return n, nil
	}
	n, err := g.in.Read(p[:min(len(p), g.body)])
	g.body -= n
	return n, err
}

// Close ends the connection without a word of TLS, which a server that does not read could hold up.
func (g *guard) Close() error { return g.raw.Close() }

// next reads a line: the end of a message, or one of the protocol.
func (g *guard) next() error {
	line, err := readLine(g.in)
	if err != nil {
		return err
	}
	if g.ends {
		if len(line) != len("\r\n") {
			return ErrProtocol
		}
		g.line, g.ends = line, false
		return nil
	}
	size, isMessage, ok := parseLine(line)
	if !ok {
		return ErrProtocol
	}
	g.line, g.body, g.ends = line, size, isMessage
	return nil
}

// readLine returns a line with its end, valid until the next reading.
func readLine(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, ErrProtocol
	case err != nil:
		return nil, err
	case !bytes.HasSuffix(line, []byte("\r\n")):
		return nil, ErrProtocol
	}
	return line, nil
}

// parseLine checks a line of the protocol, and says whether a message follows and of how many bytes. The
// reply subject is the asker's, and may hold any byte that does not end a word.
func parseLine(line []byte) (size int, isMessage, ok bool) {
	line = line[:len(line)-len("\r\n")]
	if bytes.ContainsAny(line, "\r\t") {
		return 0, false, false
	}
	operation, rest, _ := bytes.Cut(line, []byte(" "))
	switch string(operation) {
	case "PING", "PONG", "+OK":
		return 0, false, len(line) == len(operation)
	case "INFO", "-ERR":
		return 0, false, len(bytes.Trim(rest, " ")) > 0
	case "MSG": // subject, subscription, reply subject if any, size
		size, ok = parseSizes(rest, 3, 1)
	case "HMSG": // the same with the size of the headers before that of all
		size, ok = parseSizes(rest, 4, 2)
	}
	return size, true, ok
}

// parseSizes reads the sizes at the end of at least so many words. Each is at most the one after it.
func parseSizes(rest []byte, words, sizes int) (size int, ok bool) {
	all := bytes.Split(rest, []byte(" "))
	if len(all) != words && len(all) != words+1 {
		return 0, false
	}
	for i, word := range all {
		if len(word) == 0 {
			return 0, false
		}
		if i < len(all)-sizes {
			continue
		}
		n, err := strconv.ParseUint(string(word), 10, 32)
		if err != nil || n > maxMessage || int(n) < size {
			return 0, false
		}
		size = int(n)
	}
	return size, true
}
