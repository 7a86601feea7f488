// Package observe is the one place that knows every log event, attribute, code, counter and alert of a
// worker.
//
// What may be shown is decided by type (invariant I10): its methods take instance keys, correlation ids,
// codes of closed vocabularies and numbers, and nothing else. No method takes an error's text, so none can be
// printed. As a second guard every string passes [safe], so that a value that came past its validation can
// neither begin a second record nor colour a terminal.
//
// An empty poll moves a counter and writes nothing at any level.
package observe
