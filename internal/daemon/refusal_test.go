package daemon

import (
	"errors"
	"testing"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/slots"
	"github.com/fourblocks2020/fencerow/internal/writer"
)

func TestAClientRepeatsTheDaemonsOwnCodesOnly(t *testing.T) {
	t.Parallel()
	for _, code := range []fencerow.Code{
		codeStuck, codeTokenRefused, codeHostRefused, codeOriginRefused, codeMethod, codeOtherInstance,
		fencerow.ErrNotFound, slots.ErrTooMany, slots.ErrInternal, writer.ErrStopping, fencerow.ErrStoreBusy,
	} {
		if err := (errorDocument{Error: string(code)}).asError("ask"); !errors.Is(err, code) {
			t.Errorf("%s: got %v", code, err)
		}
	}
	for _, word := range []string{"hunter2", "trust_no_one", "", "store busy"} {
		if err := (errorDocument{Error: word}).asError("ask"); !errors.Is(err, ErrDaemonAnswer) {
			t.Errorf("%q: got %v", word, err)
		}
	}
}
