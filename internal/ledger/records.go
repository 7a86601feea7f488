package ledger

import (
	"encoding/binary"
	"net"
)

// recordHead is the length of a TLS record's head: its type, its version and the length of what follows.
const recordHead = 5

// records is what TLS runs on. It follows the records that are read: TLS reads what is there, which may end
// within one, and does not say so.
type records struct {
	net.Conn
	head [recordHead]byte
	have int // bytes of the head read
	left int // bytes of the record's content still to come
}

func (r *records) Read(b []byte) (int, error) {
	n, err := r.Conn.Read(b)
	for b = b[:n]; len(b) > 0; {
		if r.left > 0 {
			passed := min(r.left, len(b))
			r.left -= passed
			b = b[passed:]
			continue
		}
		got := copy(r.head[r.have:], b)
		r.have += got
		b = b[got:]
		if r.have == recordHead {
			r.have, r.left = 0, int(binary.BigEndian.Uint16(r.head[recordHead-2:]))
		}
	}
	return n, err
}

// whole reports whether what was read ends with a record.
func (r *records) whole() bool { return r.have == 0 && r.left == 0 }
