package proxy

import (
	"net/netip"
	"strings"
	"testing"
)

func TestNoProxy(t *testing.T) {
	for _, tt := range []struct {
		list, host string
		proxied    bool
	}{
		{"", "api.test", true},
		{"*", "api.test", false},
		{"other.test", "api.test", true},
		{"api.test", "api.test", false},
		{"API.TEST", "api.test", false},
		{"api.test", "x.api.test", false},
		{"api.test", "xapi.test", true},
		{".api.test", "api.test", true},
		{".api.test", "x.api.test", false},
		{"*.api.test", "x.api.test", false},
		{"*.api.test", "api.test", true},
		{"api.test:443", "api.test", false},
		{"api.test:80", "api.test", true},
		{" a , api.test ", "api.test", false},
		{"10.0.0.0/8", "10.1.2.3", false},
		{"10.1.2.3", "10.1.2.3", false},
		{"10.1.2.3:443", "10.1.2.3", false},
		{"10.1.2.3:80", "10.1.2.3", true},
		{"10.1.2.4", "10.1.2.3", true},
		{"10.1.2.3", "api.test", true},
	} {
		p, err := newOperatorProxy(map[string]string{"HTTPS_PROXY": "proxy.test:3128", "NO_PROXY": tt.list})
		if err != nil {
			t.Fatal(err)
		}
		to := target{port: 443}
		if a, err := netip.ParseAddr(tt.host); err == nil {
			to.address = a
		} else {
			to.name = tt.host
		}
		if p.covers(to) != tt.proxied {
			t.Errorf("%s with NO_PROXY=%s is proxied: %v", tt.host, tt.list, !tt.proxied)
		}
	}
}

func TestInvalidOperatorProxy(t *testing.T) {
	for value, want := range map[string]string{
		"ftp://user:secret@proxy.test":     `unknown scheme "ftp" of HTTPS_PROXY`,
		"http://user:secret@proxy.test:x/": "invalid HTTPS_PROXY",
		"http://":                          "invalid HTTPS_PROXY",
	} {
		_, err := newOperatorProxy(map[string]string{"HTTPS_PROXY": value})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", value, err)
		}
	}
}
