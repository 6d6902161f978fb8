package op

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/policy"
)

type secretsInput struct {
	Plain   string            `json:"plain,omitempty"`
	Env     []string          `json:"env,omitempty"`
	Vars    map[string]string `json:"environment,omitempty"`
	Stdin   *string           `json:"stdin,omitempty"`
	Token   any               `json:"token,omitempty"`
	Code    string            `json:"code,omitempty" secret:"all"`
	Secret  string            `json:"secret,omitempty" secret:"no"`
	Wait    policy.Duration   `json:"wait,omitempty"`
	Raw     json.RawMessage   `json:"raw,omitempty"`
	List    []string          `json:"list,omitempty"`
	Bytes   []byte            `json:"bytes,omitempty"`
	Count   *int              `json:"count"`
	private string
}

func TestDescribe(t *testing.T) {
	hundred := make([]string, 100)
	long := strings.Repeat("é", 2000)
	tests := []struct {
		name    string
		in      secretsInput
		want    string
		secrets []string
	}{
		{"nothing", secretsInput{private: "p"}, `{}`, nil},
		{"variables", secretsInput{Env: []string{"A=one=two", "B=", "naked"}}, `{"env":["A=[redacted]","B=[redacted]","=[redacted]"]}`, []string{"one=two", "", "naked"}},
		{"a map of variables", secretsInput{Vars: map[string]string{"B": "x", "A": "y"}}, `{"environment":{"A":"[redacted]","B":"[redacted]"}}`, []string{"y", "x"}},
		{"a secret of any kind", secretsInput{Token: map[string]any{"a": []any{"deep"}}, Code: "c"}, `{"token":"[redacted]","code":"[redacted]"}`, []string{"deep", "c"}},
		{"input", secretsInput{Stdin: new(string)}, `{"stdin":"[redacted]"}`, []string{""}},
		{"a name that misleads", secretsInput{Secret: "not one", Plain: "<&>"}, `{"plain":"<&>","secret":"not one"}`, nil},
		{"a notation", secretsInput{Wait: 1e9}, `{"wait":"1s"}`, nil},
		{"any JSON", secretsInput{Raw: json.RawMessage(`{"env":{"A":"x"},"n":12345678901234567890}`)}, `{"raw":{"env":{"A":"[redacted]"},"n":12345678901234567890}}`, []string{"x"}},
		{"a long list", secretsInput{List: hundred}, `{"list":[` + strings.Repeat(`"",`, 64) + `{"more":36}]}`, nil},
		{"a long text", secretsInput{Plain: long}, `{"plain":{"head":"` + long[:128] + `","bytes":4000,"sha256":"972d88afa1e48c26f6d2d60f131f9568e9c7d106019ad50c808c6411e39a422a"}}`, nil},
		{"bytes", secretsInput{Bytes: []byte("ab")}, `{"bytes":{"bytes":2,"sha256":"fb8e20fc2e4c3f248c60c39bd652f3c1347298bb977b8b4d5903b85055620603"}}`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, secrets := describe(tt.in)
			if string(got) != tt.want || !slices.Equal(secrets, tt.secrets) {
				t.Errorf("describe gives %s, %q; want %s, %q", got, secrets, tt.want, tt.secrets)
			}
			if !json.Valid(got) {
				t.Error("it is no JSON")
			}
		})
	}
	many := make([]string, maxList)
	for i := range many {
		many[i] = strings.Repeat("x", 1000)
	}
	if got, _ := describe(secretsInput{List: many}); len(got) > 200 || !strings.Contains(string(got), `"bytes":64`) {
		t.Errorf("a large input is %s", got)
	}
}
