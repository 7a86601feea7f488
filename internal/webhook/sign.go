package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fourblocks2020/fencerow"
	"github.com/fourblocks2020/fencerow/internal/secretfile"
)

const (
	secretPrefix = "whsec_"
	// minKey and maxKey bound the key, in bytes, as Standard Webhooks does.
	minKey, maxKey = 24, 64
)

// readKey reads the signing key.
func readKey(path string) (key fencerow.Secret, ok bool) {
	line, ok := secretfile.ReadLine(path)
	text, isSecret := strings.CutPrefix(line, secretPrefix)
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if !ok || !isSecret || err != nil || len(raw) < minKey || len(raw) > maxKey {
		return key, false
	}
	return fencerow.NewSecret(string(raw)), true
}

// sign sets the headers of one attempt. The id is that of the message and stays; the time is the attempt's.
func sign(header http.Header, key fencerow.Secret, id string, now time.Time, body []byte) {
	stamp := strconv.FormatInt(now.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(key.Reveal()))
	mac.Write([]byte(id + "." + stamp + "."))
	mac.Write(body)
	header.Set("webhook-id", id)
	header.Set("webhook-timestamp", stamp)
	header.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}
