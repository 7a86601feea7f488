package fencerow

import (
	"strings"
	"time"
	"unicode/utf8"
)

// Validate reports an [*InputError] unless the arguments are well formed. Of several entries, the field names
// the bad one by its place.
func (p *EnqueueParams) Validate() error {
	if err := p.Instance.Validate(); err != nil {
		return err
	}
	if len(p.Entries) > MaxEnqueue {
		return &InputError{Field: "entries", Problem: "are more than " + itoa(MaxEnqueue)}
	}
	for i := range p.Entries {
		if err := p.Entries[i].Validate(); err != nil {
			return inItem("entries", i, len(p.Entries), err)
		}
	}
	return nil
}

// Validate reports an [*InputError] unless the arguments are well formed.
func (p *ClaimBatchParams) Validate() error {
	if err := checkClaim(p.Instance, p.Worker, p.Token, p.Lease); err != nil {
		return err
	}
	return checkCount("limit", p.Limit, MaxBatch)
}

// Validate reports an [*InputError] unless the arguments are well formed.
func (p *ClaimOneParams) Validate() error {
	if err := checkClaim(p.Instance, p.Worker, p.Token, p.Lease); err != nil {
		return err
	}
	return p.CorrelationID.Validate()
}

// Validate reports an [*InputError] unless the arguments are well formed and name each row once.
func (p *RecordParams) Validate() error {
	if err := checkFence(p.Instance, p.Token); err != nil {
		return err
	}
	if err := checkCount("outcomes", len(p.Outcomes), MaxBatch); err != nil {
		return err
	}
	seen := make(map[OutboxID]struct{}, len(p.Outcomes))
	for i := range p.Outcomes {
		if err := p.Outcomes[i].Validate(); err != nil {
			return inItem("outcomes", i, len(p.Outcomes), err)
		}
		seen[p.Outcomes[i].OutboxID] = struct{}{}
	}
	if len(seen) < len(p.Outcomes) {
		return &InputError{Field: "outcomes", Problem: "name a row twice"}
	}
	return nil
}

// Validate reports an [*InputError] unless the outcome is well formed. The contents of LedgerRef and Snapshot
// are not looked at: what a ledger sent there cannot make an outcome unrecordable.
func (o *Outcome) Validate() error {
	if err := checkID(o.OutboxID); err != nil {
		return err
	}
	switch {
	case !o.Kind.Valid():
		return &InputError{Field: "outcome", Problem: "is not one of the outcomes"}
	case o.Reason == "" && !o.Kind.Success():
		return &InputError{Field: "reason", Problem: "is required for an outcome other than a success"}
	case o.Reason != "" && !o.Reason.Valid():
		return &InputError{Field: "reason", Problem: "must match ^[a-z][a-z0-9_]{0,63}$"}
	case o.Delay < 0 || o.Delay > MaxDelay:
		return &InputError{Field: "delay", Problem: "must be 0 to " + MaxDelay.String()}
	case o.Delay != 0 && o.Kind.Terminal():
		return &InputError{Field: "delay", Problem: "must be 0 with a terminal outcome"}
	case o.Charge < ChargeGiveBack || o.Charge > ChargeAttempt:
		return &InputError{Field: "charge", Problem: "must be -1, 0 or 1"}
	case o.Snapshot != nil && !o.Kind.Success():
		return &InputError{Field: "snapshot", Problem: "comes with a success only"}
	}
	return nil
}

// Validate reports an [*InputError] unless the arguments are well formed and name each row once.
func (p *ReleaseParams) Validate() error {
	if err := checkFence(p.Instance, p.Token); err != nil {
		return err
	}
	if p.All {
		if len(p.Rows) != 0 {
			return &InputError{Field: "rows", Problem: "must be empty when all are released"}
		}
		return nil
	}
	if p.Uncertain {
		return &InputError{Field: "uncertain", Problem: "is said of each row unless all are released"}
	}
	if err := checkCount("rows", len(p.Rows), MaxBatch); err != nil {
		return err
	}
	seen := make(map[OutboxID]struct{}, len(p.Rows))
	for i, row := range p.Rows {
		if err := checkID(row.OutboxID); err != nil {
			return inItem("rows", i, len(p.Rows), err)
		}
		seen[row.OutboxID] = struct{}{}
	}
	if len(seen) < len(p.Rows) {
		return &InputError{Field: "rows", Problem: "name a row twice"}
	}
	return nil
}

// Validate reports an [*InputError] unless the arguments are well formed.
func (p *ListPendingParams) Validate() error {
	if err := p.Instance.Validate(); err != nil {
		return err
	}
	if err := checkCount("limit", p.Limit, MaxPage); err != nil {
		return err
	}
	if y := p.After.DueAt.UTC().Year(); p.After.OutboxID < 0 || y < 1 || y > 9999 {
		return &InputError{Field: "after", Problem: "is not the position of a row"}
	}
	return nil
}

// Validate reports an [*InputError] unless the arguments are well formed.
func (p *ListBlockedParams) Validate() error {
	if err := p.Instance.Validate(); err != nil {
		return err
	}
	if p.Status != "" && !p.Status.Blocked() {
		return &InputError{Field: "status", Problem: mustBeBlocked}
	}
	if p.After < 0 {
		return &InputError{Field: "after", Problem: "must be at least 0"}
	}
	return checkCount("limit", p.Limit, MaxPage)
}

const mustBeBlocked = "must be conflict_blocked, permanent_failure or dead_lettered"

// Validate reports an [*InputError] unless the arguments are well formed.
func (p *CashDeltaParams) Validate() error {
	if err := p.Instance.Validate(); err != nil || p.Slot == "" {
		return err
	}
	return p.Slot.Validate()
}

// Validate reports an [*InputError] unless the arguments are well formed.
func (p *EntryParams) Validate() error {
	if err := p.Instance.Validate(); err != nil {
		return err
	}
	return p.CorrelationID.Validate()
}

// Validate reports an [*InputError] unless the arguments are well formed.
func (p *RequeueParams) Validate() error {
	if err := (&EntryParams{Instance: p.Instance, CorrelationID: p.CorrelationID}).Validate(); err != nil {
		return err
	}
	if !p.From.Blocked() {
		return &InputError{Field: "from", Problem: mustBeBlocked}
	}
	return nil
}

// Validate reports an [*InputError] unless the arguments are well formed.
func (p *PruneParams) Validate() error {
	if err := p.Instance.Validate(); err != nil {
		return err
	}
	if p.OlderThan < 0 {
		return &InputError{Field: "older_than", Problem: "must be at least 0"}
	}
	if p.After < 0 {
		return &InputError{Field: "after", Problem: "must be at least 0"}
	}
	return checkCount("limit", p.Limit, MaxBatch)
}

// Validate reports an [*InputError] unless the arguments are well formed.
func (p *NameSlotParams) Validate() error {
	if err := p.Instance.Validate(); err != nil {
		return err
	}
	if err := p.Slot.Validate(); err != nil {
		return err
	}
	s := p.Strategy
	graphic := strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0
	if s == "" || len(s) > MaxStrategy || !graphic || strings.TrimSpace(s) != s {
		return &InputError{Field: "strategy", Problem: "must be 1 to " + itoa(MaxStrategy) +
			" characters of printable ASCII without space at either end"}
	}
	return nil
}

// ValidateLegacyID reports an [*InputError] unless s can be the correlation id of an unowned entry. The
// schema before ownership allowed almost any text; what is refused is what no text column can hold or no sane
// id is.
func ValidateLegacyID(s string) error {
	if len(s) > MaxPayload || !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
		return &InputError{Field: "correlation_id", Problem: "is not UTF-8 text without NUL of at most " +
			itoa(MaxPayload) + " bytes"}
	}
	return nil
}

func checkClaim(instance InstanceKey, worker WorkerID, token ClaimToken, lease time.Duration) error {
	if err := checkFence(instance, token); err != nil {
		return err
	}
	if err := worker.Validate(); err != nil {
		return err
	}
	if lease < MinLease || lease > MaxLease {
		return &InputError{Field: "lease", Problem: "must be " + MinLease.String() + " to " + MaxLease.String()}
	}
	return nil
}

func checkFence(instance InstanceKey, token ClaimToken) error {
	if err := instance.Validate(); err != nil {
		return err
	}
	if token.IsZero() {
		return &InputError{Field: "claim_token", Problem: "is missing"}
	}
	return nil
}

func checkID(id OutboxID) error {
	if id < 1 {
		return &InputError{Field: "outbox_id", Problem: "must be at least 1"}
	}
	return nil
}

func checkCount(field string, n, limit int) error {
	if n < 1 || n > limit {
		return &InputError{Field: field, Problem: "must be 1 to " + itoa(limit)}
	}
	return nil
}

// inItem says which of several items err is about; of one alone it need not be said.
func inItem(list string, i, n int, err error) error {
	input, ok := err.(*InputError) //nolint:errorlint // made by the validation just above, never wrapped
	if !ok || n == 1 {
		return err
	}
	return &InputError{Field: list + "[" + itoa(i) + "]." + input.Field, Problem: input.Problem}
}
