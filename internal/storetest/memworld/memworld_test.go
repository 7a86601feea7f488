package memworld

import (
	"testing"

	"github.com/fourblocks2020/fencerow/internal/storetest"
)

// Two stores of one kind must agree: what differs here is the comparison's own fault.
func TestTwoMemoryStoresAnswerAlike(t *testing.T) { storetest.Differential(t, New, New) }
