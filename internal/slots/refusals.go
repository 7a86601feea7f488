package slots

import "github.com/fourblocks2020/fencerow"

// refusals are the codes that a daemon answers with, for slots and for everything else that it can be asked.
// What answers with another word is no daemon, or one of another version, and its words are not repeated:
// they could be anything.
var refusals = map[fencerow.Code]bool{
	fencerow.ErrStoreBusy: true, fencerow.ErrStoreTimeout: true, fencerow.ErrStoreUnavailable: true,
	fencerow.ErrStoreCredentials: true, fencerow.ErrStorePermission: true, fencerow.ErrStoreSchema: true,
	fencerow.ErrStoreReadOnly: true, fencerow.ErrStoreFull: true, fencerow.ErrStoreData: true,
	fencerow.ErrStoreStatement: true, fencerow.ErrStoreSetting: true,
	fencerow.ErrStoreConflict: true, fencerow.ErrStoreFailed: true, fencerow.ErrDSNInvalid: true,
	fencerow.ErrInvalidInput: true, fencerow.ErrNotFound: true,
	ErrTooMany: true, ErrAnswerTooLarge: true, ErrInternal: true,
	"writer_stopping": true, "polls_stuck": true, "token_refused": true, "host_refused": true,
	"origin_refused": true, "method_not_allowed": true, "other_instance": true,
}

// InputRefusal returns the document that says what is wrong with a request, as one line. It never repeats the
// request.
func InputRefusal(malformed error) []byte {
	return render(struct {
		refusal
		Message string `json:"message"`
	}{refusal{fencerow.ErrInvalidInput}, malformed.Error()})
}

// KnownRefusal reports whether a daemon answers with this code.
func KnownRefusal(code fencerow.Code) bool { return refusals[code] }
