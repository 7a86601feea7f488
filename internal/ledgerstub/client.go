package ledgerstub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// Client drives the control endpoints of a stub in another process.
type Client struct {
	// Base is where the stub listens, such as http://127.0.0.1:8321.
	Base string
	// HTTP is http.DefaultClient if nil.
	HTTP *http.Client
}

// AddRule is [Stub.AddRule].
func (c *Client) AddRule(ctx context.Context, r Rule) (int64, error) {
	var answer struct {
		ID int64 `json:"id"`
	}
	err := c.call(ctx, http.MethodPost, "rules", r, one(&answer))
	return answer.ID, err
}

// Rules is [Stub.Rules].
func (c *Client) Rules(ctx context.Context) ([]RuleState, error) {
	var rules []RuleState
	return rules, c.call(ctx, http.MethodGet, "rules", nil, one(&rules))
}

// ClearRules is [Stub.ClearRules].
func (c *Client) ClearRules(ctx context.Context) error {
	return c.call(ctx, http.MethodDelete, "rules", nil, nil)
}

// Release is [Stub.Release].
func (c *Client) Release(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "release", nil, nil)
}

// SetToken is [Stub.SetToken].
func (c *Client) SetToken(ctx context.Context, token string) error {
	return c.call(ctx, http.MethodPost, "token", map[string]string{"token": token}, nil)
}

// Counters is [Stub.Counters].
func (c *Client) Counters(ctx context.Context) (Counters, error) {
	var counters Counters
	err := c.call(ctx, http.MethodGet, "counters", nil, one(&counters))
	return counters, err
}

// Balances is [Stub.Balances].
func (c *Client) Balances(ctx context.Context) ([]Balance, error) {
	var balances []Balance
	err := c.call(ctx, http.MethodGet, "balances", nil, one(&balances))
	return balances, err
}

// Journal is [Stub.Journal].
func (c *Client) Journal(ctx context.Context) ([]Record, error) {
	var records []Record
	err := c.call(ctx, http.MethodGet, "journal", nil, lines(&records))
	return records, err
}

// Sends is [Stub.Sends].
func (c *Client) Sends(ctx context.Context, key string) ([]Record, error) {
	var records []Record
	err := c.call(ctx, http.MethodGet, "journal?key="+url.QueryEscape(key), nil, lines(&records))
	return records, err
}

// Bookings is [Stub.Bookings], ordered by key.
func (c *Client) Bookings(ctx context.Context) ([]Booking, error) {
	var bookings []Booking
	err := c.call(ctx, http.MethodGet, "bookings", nil, lines(&bookings))
	return bookings, err
}

// Check is [Check] over the stub's journal.
func (c *Client) Check(ctx context.Context, o CheckOptions) (Report, error) {
	query := url.Values{"slack_ms": {strconv.FormatInt(o.Slack.Milliseconds(), 10)}}
	for _, epoch := range o.Zombies {
		query.Add("zombie", strconv.FormatInt(epoch, 10))
	}
	var report Report
	err := c.call(ctx, http.MethodGet, "check?"+query.Encode(), nil, one(&report))
	return report, err
}

// call makes one request. read takes the answer's body; nil ignores it.
func (c *Client) call(
	ctx context.Context, method, path string, body any, read func(*json.Decoder) error,
) error {
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("stub ledger: %w", err)
		}
		content = bytes.NewReader(b)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.Base+"/control/"+path, content)
	if err != nil {
		return fmt.Errorf("stub ledger: %w", err)
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("stub ledger: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // only read
	if response.StatusCode >= 300 {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 512))
		return fmt.Errorf("stub ledger: %s: %s", response.Status, text)
	}
	if read == nil {
		return nil
	}
	if err := read(json.NewDecoder(response.Body)); err != nil {
		return fmt.Errorf("stub ledger: %w", err)
	}
	return nil
}

func one(into any) func(*json.Decoder) error {
	return func(d *json.Decoder) error { return d.Decode(into) }
}

func lines[T any](into *[]T) func(*json.Decoder) error {
	return func(d *json.Decoder) error {
		for {
			var v T
			switch err := d.Decode(&v); {
			case errors.Is(err, io.EOF):
				return nil
			case err != nil:
				return err
			}
			*into = append(*into, v)
		}
	}
}
