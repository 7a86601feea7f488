package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/fourblocks2020/fencerow"
)

const (
	secretPrefix = "whsec_"
	// minKey and maxKey bound the key, in bytes, as Standard Webhooks does.
	minKey, maxKey = 24, 64
	// maxSecretFile bounds the file that holds the secret, in bytes.
	maxSecretFile = 1 << 10
)

// readKey reads the signing key. A regular file is asked for: opening a pipe could block for ever.
func readKey(path string) (key fencerow.Secret, ok bool) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return key, false
	}
	file, err := os.Open(path)
	if err != nil {
		return key, false
	}
	defer file.Close() //nolint:errcheck // only read
	content, err := io.ReadAll(io.LimitReader(file, maxSecretFile+1))
	if err != nil || len(content) > maxSecretFile {
		return key, false
	}
	text, isSecret := strings.CutPrefix(strings.TrimSpace(string(content)), secretPrefix)
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if !isSecret || err != nil || strings.ContainsAny(text, "\r\n") || len(raw) < minKey || len(raw) > maxKey {
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
