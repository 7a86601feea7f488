package natsrpc

import (
	"time"

	"github.com/fourblocks2020/fencerow"
)

// tellAgain is how long a reason is not told again, once it was told and another one after it.
const tellAgain = 5 * time.Minute

// outage is what was told of the reasons for which there is no connection. The last one is not repeated; and
// where several servers fail each in its own way, now one is tried last and now another.
type outage struct {
	last fencerow.Code
	told map[fencerow.Code]time.Time
}

// isNews reports whether a reason is to be told now, and takes it as told then.
func (o *outage) isNews(code fencerow.Code, now time.Time) bool {
	if code == o.last || now.Sub(o.told[code]) < tellAgain {
		return false
	}
	if o.told == nil {
		o.told = map[fencerow.Code]time.Time{}
	}
	o.last, o.told[code] = code, now
	return true
}
