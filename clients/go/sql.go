package scylla

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// statement is a statement in the making: add gives the placeholder of a value.
type statement struct {
	args []any
}

func (s *statement) add(value any, sqlType string) string {
	s.args = append(s.args, value)
	placeholder := "$" + strconv.Itoa(len(s.args)) + "::text"
	if sqlType != "text" {
		placeholder += "::" + sqlType
	}
	return placeholder
}

// interval is a length of time as PostgreSQL reads it.
func interval(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', 6, 64) + " seconds"
}

// moment is a point in time as PostgreSQL reads it.
func moment(t time.Time) string {
	return t.UTC().Format("2006-01-02T15:04:05.999999Z07:00")
}

var quoteElement = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// textArray is an array as PostgreSQL reads it. An empty text is NULL where nullEmpty says so.
func textArray(items []string, nullEmpty bool) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, item := range items {
		if i > 0 {
			b.WriteByte(',')
		}
		if item == "" && nullEmpty {
			b.WriteString("NULL")
			continue
		}
		b.WriteByte('"')
		_, _ = quoteElement.WriteString(&b, item)
		b.WriteByte('"')
	}
	b.WriteByte('}')
	return b.String()
}

// plainArray is an array of texts that need no quotes, such as uuids.
func plainArray(items []string) string {
	return "{" + strings.Join(items, ",") + "}"
}

// encodeSpec is the JSON of a spec. No spec is the empty object.
func encodeSpec(spec any) (string, error) {
	if spec == nil {
		return "{}", nil
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return "", fmt.Errorf("scylla: spec of type %T: %w", spec, err)
	}
	return string(text), nil
}
